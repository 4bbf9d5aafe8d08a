"""Objects of the application, named `module:NAME`: concepts, an embedder, a memory."""

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

from factmem._cli.exits import CommandError
from factmem.embedding.base import Embedder
from factmem.llm.base import ChatModel
from factmem.memory.agent_memory import AgentMemory
from factmem.models._checked import concepts_by_keyword
from factmem.models.facts import Concept
from factmem.models.profile import Profile


def _load_object(
    option: str, named: str, example: str, is_right: Callable[[Any], bool], expected: str
) -> Any:
    """Import the object of `module:NAME`.

    Raises:
        CommandError: The object does not exist or has another type.
    """
    module, _, name = named.partition(":")
    if not module or not name:
        raise CommandError(f"{option} must be module:NAME: {option} {example}")
    if "" not in sys.path:
        # The module is often in the current folder. It comes last, or else a file in that folder
        # could replace a module that factmem has yet to import, and would see its keys.
        sys.path.append("")
    try:
        found = getattr(import_module(module), name)
    except (ImportError, AttributeError) as exc:
        raise CommandError(f"{option} {named}: {exc}") from None
    if not is_right(found):
        raise CommandError(f"{option} {named} must be {expected}, not {type(found).__name__}")
    return found


def load_concepts(named: str | None) -> tuple[Concept[Any, Any], ...]:
    """Import the concepts of `module:NAME`: one or a profile, or a list, tuple, set or dict of them."""
    if named is None:
        return ()
    found = _load_object(
        "--concepts", named, "my_app.memory:CONCEPTS", _are_concepts, "Concept objects or a list"
    )
    return tuple(concepts_by_keyword(_listed(found)).values())


def _listed(found: Any) -> list[Any]:
    if isinstance(found, list | tuple | set | frozenset | dict):
        return [*(found.values() if isinstance(found, dict) else found)]
    return [found]


def _are_concepts(found: Any) -> bool:
    return all(
        isinstance(each, Concept) or (isinstance(each, type) and issubclass(each, Profile))
        for each in _listed(found)
    )


def load_function(named: str) -> Callable[[Any], Any]:
    """Import the function of `module:NAME`."""
    found: Callable[[Any], Any] = _load_object(
        "MODULE:NAME", named, "my_app.memory:to_cents", callable, "a function"
    )
    return found


def load_embedder(named: str | None) -> Embedder | None:
    """Return the embedder of `provider:model`, or import that of `module:NAME`."""
    if named is None:
        return None
    from factmem.embedding._named import EMBEDDERS, named_embedder  # slow import

    if named.partition(":")[0] in EMBEDDERS:
        return named_embedder(named)
    found: Embedder = _load_object(
        "--embedder",
        named,
        "my_app.memory:EMBEDDER",
        lambda each: isinstance(each, Embedder),
        "an Embedder",
    )
    return found


def load_model(named: str) -> ChatModel:
    """Return the chat model of `provider:model`, or import that of `module:NAME`."""
    if named.partition(":")[0] in ("openai", "ollama"):
        from factmem.llm._named import named_chat_model  # slow import

        return named_chat_model(named)
    found: ChatModel = _load_object(
        "--model",
        named,
        "openai:gpt-4o-mini or my_app.memory:MODEL",
        lambda each: all(callable(getattr(each, name, None)) for name in ("respond", "extract")),
        "a ChatModel",
    )
    return found


def load_memory(named: str) -> AgentMemory:
    """Import the memory of `module:NAME`."""
    found: AgentMemory = _load_object(
        "MEMORY",
        named,
        "my_app.memory:MEMORY",
        lambda each: isinstance(each, AgentMemory),
        "an AgentMemory",
    )
    return found
