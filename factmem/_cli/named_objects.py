"""Objects of the application, named `module:NAME`: concepts, an embedder, a memory."""

import sys
from importlib import import_module
from typing import Any

from factmem._cli.exits import CommandError
from factmem.embedding.base import Embedder
from factmem.memory.agent_memory import AgentMemory
from factmem.models.facts import Concept

__all__ = ["load_concepts", "load_embedder", "load_memory"]


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
    """Import the concepts of `module:NAME`: one, or a list, tuple, set or dict of concepts.

    Raises:
        CommandError: The object does not exist or has another type.
    """
    if named is None:
        return ()
    found = _load_object("--concepts", named, "my_app.memory:CONCEPTS")
    if isinstance(found, Concept):
        return (found,)
    if not isinstance(found, list | tuple | set | frozenset | dict):
        kind = type(found).__name__
        raise CommandError(f"--concepts {named} must be Concept objects or a list, not {kind}")
    given = tuple(found.values() if isinstance(found, dict) else found)
    if wrong := [each for each in given if not isinstance(each, Concept)]:
        kind = type(wrong[0]).__name__
        raise CommandError(f"--concepts {named} must contain Concept objects, not {kind}")
    return given


def load_embedder(named: str | None) -> Embedder | None:
    """Import the embedder of `module:NAME`.

    Raises:
        CommandError: The object does not exist or has another type.
    """
    if named is None:
        return None
    found = _load_object("--embedder", named, "my_app.memory:EMBEDDER")
    if not isinstance(found, Embedder):
        kind = type(found).__name__
        raise CommandError(f"--embedder {named} must be an Embedder, not {kind}")
    return found


def load_memory(named: str) -> AgentMemory:
    """Import the memory of `module:NAME`.

    Raises:
        CommandError: The object does not exist or has another type.
    """
    found = _load_object("MEMORY", named, "my_app.memory:MEMORY")
    if not isinstance(found, AgentMemory):
        raise CommandError(f"{named} must be an AgentMemory, not {type(found).__name__}")
    return found
