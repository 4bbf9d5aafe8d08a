"""A type that a caller passes can be imported from a public module."""

import importlib
import inspect
import pkgutil
import typing
from collections.abc import Callable, Iterator

from openai import AsyncOpenAI

from factmem.ledger.history import FactChange
from factmem.memory.consolidation import MemoryConsolidation
from factmem.memory.documents import MemoryDocuments
from factmem.memory.review import MemoryReview
from factmem.memory.tools import MemoryTool
from factmem.sync._review import ReviewSync
from tests.tables import table

NAMED_FOR_CHECKERS = {
    "AsyncOpenAI": AsyncOpenAI,
    "FactChange": FactChange,
    "MemoryConsolidation": MemoryConsolidation,
    "MemoryDocuments": MemoryDocuments,
    "MemoryReview": MemoryReview,
    "MemoryTool": MemoryTool,
    "ReviewSync": ReviewSync,
}
"""Names that modules import under TYPE_CHECKING alone: openai takes long to import."""


def _rooms(package: str) -> Iterator[str]:
    """Yield a package, the packages in it, and the modules that are rooms by themselves."""
    yield package
    for found in pkgutil.iter_modules(importlib.import_module(package).__path__):
        if found.name.startswith("_"):
            continue
        if found.ispkg:
            yield from _rooms(f"{package}.{found.name}")
        elif package == "factmem":
            yield f"factmem.{found.name}"


def _exports() -> Iterator[tuple[str, object]]:
    for room in _rooms("factmem"):
        module = importlib.import_module(room)
        for name in getattr(module, "__all__", ()):
            yield f"{room}.{name}", getattr(module, name)


INTERNAL = {
    "AgentContext": {"__init__"},
    "Concept": {"codec"},
    "ConsolidationReport": {"__init__"},
    "Conversation": {"__init__"},
    "DetectionReport": {"__init__"},
    "EvalReport": {"__init__"},
    "Ledger": {"is_disputed", "is_refused", "items", "matching", "restored", "state"},
    "LoadReport": {"__init__"},
    "MemoryConsolidation": {"__init__"},
    "ConversationStore": {"__init__"},
    "MemoryContents": {"__init__"},
    "PlaceStatistics": {"__init__"},
    "MemoryConversations": {"__init__"},
    "MemoryReview": {"__init__"},
    "MessageForm": {"lines"},
    "ProviderKeys": {"__init__"},
    "RecallResult": {"__init__"},
    "SearchQuestion": {"__init__"},
}
"""Methods that only factmem calls, such as constructors of what a memory returns."""

EXPORTS = dict(_exports())
PUBLIC = {id(export) for export in EXPORTS.values()}


def _signatures(export: object) -> Iterator[Callable[..., object]]:
    """Yield an exported function, or the public methods of an exported class."""
    if inspect.isfunction(export):
        yield export
    elif inspect.isclass(export):
        for name, member in inspect.getmembers(export):
            function = member.fget if isinstance(member, property) else member
            is_public = name == "__init__" or not name.startswith("_")
            is_internal = name in INTERNAL.get(export.__name__, ())
            is_own = not str(getattr(function, "__module__", "")).startswith("pydantic.")
            if is_public and is_own and not is_internal and inspect.isfunction(function):
                yield function


def _classes(hint: object) -> Iterator[type]:
    """Yield the classes of factmem in an annotation."""
    for part in [*typing.get_args(hint), typing.get_origin(hint)]:
        if isinstance(part, list):
            for each in part:
                yield from _classes(each)
        elif part is not None:
            yield from _classes(part)
    if inspect.isclass(hint) and hint.__module__.startswith("factmem."):
        yield hint


@table("name", EXPORTS)
def test_the_types_of_a_signature_can_be_imported(name: str) -> None:
    named = {
        each
        for function in _signatures(EXPORTS[name])
        for name, hint in typing.get_type_hints(function, localns=NAMED_FOR_CHECKERS).items()
        if name != "return"
        for each in _classes(hint)
    }

    assert [each for each in named if id(each) not in PUBLIC] == []
