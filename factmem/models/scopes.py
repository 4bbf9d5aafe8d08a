"""Which scope each type of scope means for one agent."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from factmem.models.places import MemoryScope, MemoryScopeType

__all__ = ["MemoryScopesProfile", "ScopeChoice", "checked_choice"]


ScopeChoice: TypeAlias = MemoryScope | MemoryScopeType
"""A scope, or a type of scope that a profile turns into one."""


def checked_choice(choice: ScopeChoice) -> ScopeChoice:
    """Return a scope or a type of scope.

    Raises:
        TypeError: It is neither.
    """
    if isinstance(choice, MemoryScope):
        return choice
    try:
        return MemoryScopeType(choice)
    except ValueError:
        raise TypeError(
            "A scope is a MemoryScope or a MemoryScopeType: MemoryScope.Product('my-app'), or "
            "MemoryScope.parse('product/my-app')"
        ) from None


@dataclass(frozen=True, slots=True)
class MemoryScopesProfile:
    """The names of an agent's scopes; a type without a name is a scope that the agent lacks.

        MemoryScopesProfile(agent="support-bot", product="my-app")

    Raises:
        ValueError: A name is no valid name.
    """

    agent: str | None = None
    feature: str | None = None
    product: str | None = None
    organization: str | None = None

    def __post_init__(self) -> None:
        self.scopes()

    def scope(self, choice: ScopeChoice) -> MemoryScope | None:
        """Return the scope that a type means here, or None where it has no name.

        A `MemoryScope` is returned as it is.

        Raises:
            TypeError: It is neither a scope nor a type of scope.
        """
        kind = checked_choice(choice)
        if isinstance(kind, MemoryScope):
            return kind
        name: str | None = getattr(self, kind.value)
        return None if name is None else MemoryScope(kind, name)

    def scopes(self, choices: Iterable[ScopeChoice] | None = None) -> list[MemoryScope]:
        """Return the chosen scopes, without types that have no name; None chooses all.

        Raises:
            TypeError: They are no list of scopes and types.
        """
        chosen = MemoryScopeType if choices is None else choices
        if isinstance(chosen, str) or not isinstance(chosen, Iterable):
            raise TypeError("scopes must be a list: scopes=[MemoryScope.Product('my-app')]")
        found = (self.scope(choice) for choice in chosen)
        return [scope for scope in found if scope is not None]

    def writable(self, choice: ScopeChoice) -> MemoryScope:
        """Return the scope that a type means here, to save facts in.

        Raises:
            ValueError: The type has no name.
        """
        scope = self.scope(choice)
        if scope is None:
            raise ValueError(
                f"Nothing can be saved in the scope {str(choice)!r}: it has no name here. Give it "
                f"one, as in MemoryScopesProfile({choice}=...)"
            )
        return scope
