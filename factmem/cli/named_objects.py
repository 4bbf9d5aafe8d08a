"""Objects of the application that options name as `module:NAME`: concepts, an embedder."""

import sys
from importlib import import_module
from typing import Any

from factmem.cli.exits import CommandError
from factmem.embedding.base import Embedder
from factmem.models.facts import Concept

__all__ = ["concepts_named", "embedder_named"]


def _named(option: str, named: str, example: str) -> object:
    """Import what `module:NAME` names."""
    module, _, name = named.partition(":")
    if not module or not name:
        raise CommandError(f"{option} must be module:NAME: {option} {example}")
    if "" not in sys.path:
        sys.path.insert(0, "")  # as `python -m` does: the application's module is often right here
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError) as exc:
        raise CommandError(f"{option} {named}: {exc}") from None


def concepts_named(named: str | None) -> tuple[Concept[Any, Any], ...]:
    """Return the concepts that `module:NAME` names: one, or a list, tuple, set or dict of them.

    Raises:
        CommandError: It names nothing, or something else.
    """
    if named is None:
        return ()
    found = _named("--concepts", named, "my_app.memory:CONCEPTS")
    if isinstance(found, Concept):
        return (found,)
    if not isinstance(found, list | tuple | set | frozenset | dict):
        kind = type(found).__name__
        raise CommandError(f"--concepts {named} must be Concept objects or a list, not {kind}")
    given = tuple(found.values() if isinstance(found, dict) else found)
    if wrong := [each for each in given if not isinstance(each, Concept)]:
        kind = type(wrong[0]).__name__
        raise CommandError(f"--concepts {named} must hold Concept objects, not {kind}")
    return given


def embedder_named(named: str | None) -> Embedder | None:
    """Return the embedder that `module:NAME` names.

    Raises:
        CommandError: It names nothing, or something else.
    """
    if named is None:
        return None
    found = _named("--embedder", named, "my_app.memory:EMBEDDER")
    if not isinstance(found, Embedder):
        kind = type(found).__name__
        raise CommandError(f"--embedder {named} must be an Embedder, not {kind}")
    return found
