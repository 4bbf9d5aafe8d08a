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


def _load_object(option: str, named: str, example: str) -> object:
    """Import the object of `module:NAME`."""
    module, _, name = named.partition(":")
    if not module or not name:
        raise CommandError(f"{option} must be module:NAME: {option} {example}")
    if "" not in sys.path:
        # The module is often in the current folder. It comes last, or else a file in that folder
        # could replace a module that factmem has yet to import, and would see its keys.
        sys.path.append("")
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError) as exc:
        raise CommandError(f"{option} {named}: {exc}") from None


def load_concepts(named: str | None) -> tuple[Concept[Any, Any], ...]:
    """Import the concepts of `module:NAME`: one or a profile, or a list, tuple, set or dict of them.

    Raises:
        CommandError: The object does not exist or has another type.
    """
    if named is None:
        return ()
    found = _load_object("--concepts", named, "my_app.memory:CONCEPTS")
    if _is_concept(found):
        found = [found]
    if not isinstance(found, list | tuple | set | frozenset | dict):
        kind = type(found).__name__
        raise CommandError(f"--concepts {named} must be Concept objects or a list, not {kind}")
    given: list[Any] = list(found.values() if isinstance(found, dict) else found)
    if wrong := [each for each in given if not _is_concept(each)]:
        kind = type(wrong[0]).__name__
        raise CommandError(f"--concepts {named} must contain Concept objects, not {kind}")
    return tuple(concepts_by_keyword(given).values())


def _is_concept(found: object) -> bool:
    return isinstance(found, Concept) or (isinstance(found, type) and issubclass(found, Profile))


def load_function(named: str) -> Callable[[Any], Any]:
    """Import the function of `module:NAME`.

    Raises:
        CommandError: The object does not exist or cannot be called.
    """
    found = _load_object("MODULE:NAME", named, "my_app.memory:to_cents")
    if not callable(found):
        raise CommandError(f"{named} must be a function, not {type(found).__name__}")
    return found


def load_embedder(named: str | None) -> Embedder | None:
    """Return the embedder of `provider:model`, or import that of `module:NAME`.

    Raises:
        CommandError: The object does not exist or has another type.
        ValueError: No model is named.
    """
    if named is None:
        return None
    from factmem.embedding._named import EMBEDDERS, named_embedder  # slow import

    if named.partition(":")[0] in EMBEDDERS:
        return named_embedder(named)
    found = _load_object("--embedder", named, "my_app.memory:EMBEDDER")
    if not isinstance(found, Embedder):
        kind = type(found).__name__
        raise CommandError(f"--embedder {named} must be an Embedder, not {kind}")
    return found


def load_model(named: str) -> ChatModel:
    """Return the chat model of `provider:model`, or import that of `module:NAME`.

    Raises:
        CommandError: The object does not exist or has another type.
        ValueError: No model is named.
    """
    if named.partition(":")[0] in ("openai", "ollama"):
        from factmem.llm._named import named_chat_model  # slow import

        return named_chat_model(named)
    found = _load_object("--model", named, "openai:gpt-4o-mini or my_app.memory:MODEL")
    if not all(callable(getattr(found, name, None)) for name in ("respond", "extract")):
        raise CommandError(f"--model {named} must be a ChatModel, not {type(found).__name__}")
    model: Any = found
    chat_model: ChatModel = model
    return chat_model


def load_memory(named: str) -> AgentMemory:
    """Import the memory of `module:NAME`.

    Raises:
        CommandError: The object does not exist or has another type.
    """
    found = _load_object("MEMORY", named, "my_app.memory:MEMORY")
    if not isinstance(found, AgentMemory):
        raise CommandError(f"{named} must be an AgentMemory, not {type(found).__name__}")
    return found
