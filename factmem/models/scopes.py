"""MemoryScopesProfile: the scope names of one agent."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

from factmem._arguments import expect_all
from factmem.models.places import MemoryScope, MemoryScopeType

__all__ = ["MemoryScopesProfile"]


ScopeChoice: TypeAlias = MemoryScope | MemoryScopeType
"""A scope, or a scope type that a profile resolves to a scope."""


def checked_choice(choice: ScopeChoice) -> ScopeChoice:
    """Return a scope or a scope type.

    Raises:
        TypeError: The argument is neither.
    """
    if isinstance(choice, MemoryScope):
        return choice
    try:
        return MemoryScopeType(choice)
    except ValueError:
        raise TypeError(
            "scope must be a MemoryScope or a MemoryScopeType: MemoryScope.Product('my-app') or "
            "MemoryScope.parse('product/my-app')"
        ) from None


def checked_choices(choices: Iterable[ScopeChoice]) -> tuple[ScopeChoice, ...]:
    """Return scopes and scope types as a tuple; raise `TypeError` unless it is a list of them."""
    example = "scopes=[MemoryScope.Product('my-app')]"
    given: tuple[Any, ...] = expect_all(choices, object, "scopes", example)
    return tuple(map(checked_choice, given))


@dataclass(frozen=True, slots=True)
class MemoryScopesProfile:
    """The names of an agent's scopes. The agent has no scope of a type without a name.

        MemoryScopesProfile(agent="support-bot", product="my-app")

    Raises:
        ValueError: A name is invalid.
    """

    agent: str | None = None
    feature: str | None = None
    product: str | None = None
    organization: str | None = None

    def __post_init__(self) -> None:
        self.scopes()

    def scope(self, choice: ScopeChoice) -> MemoryScope | None:
        """Return the scope of a type, or None if the type has no name here.

        A `MemoryScope` is returned unchanged.

        Raises:
            TypeError: `choice` is neither a scope nor a scope type.
        """
        kind = checked_choice(choice)
        if isinstance(kind, MemoryScope):
            return kind
        name: str | None = getattr(self, kind.value)
        return None if name is None else MemoryScope(kind, name)

    def scopes(self, choices: Iterable[ScopeChoice] | None = None) -> list[MemoryScope]:
        """Return the chosen scopes, without types that have no name; None chooses all.

        Raises:
            TypeError: `choices` is not a list of scopes and scope types.
        """
        chosen = MemoryScopeType if choices is None else checked_choices(choices)
        found = (self.scope(choice) for choice in chosen)
        return [scope for scope in found if scope is not None]

    def writable(self, choice: ScopeChoice) -> MemoryScope:
        """Return the scope of a type, to save facts in.

        Raises:
            ValueError: The type has no name.
        """
        scope = self.scope(choice)
        if scope is None:
            raise ValueError(
                f"Nothing can be saved in the scope {str(choice)!r}, because it has no name: set "
                f"it with MemoryScopesProfile({choice}=...)"
            )
        return scope
