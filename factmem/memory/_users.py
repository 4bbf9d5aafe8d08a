"""The user of a run or a call: `Who`, and the view of a memory for this user."""

from collections.abc import Iterable
from typing import Protocol, Self, TypeAlias, TypeVar

from factmem._arguments import kind_of
from factmem.models.places import MemorySubject

__all__ = ["Who", "view_for", "view_of_anyone"]

_STAND_IN = "someone"

Who: TypeAlias = str | MemorySubject | Iterable[MemorySubject] | None
"""The user of a run: the entity of the memory's per-entity subjects, or subjects. None if the
memory is already bound."""


class _Memory(Protocol):
    @property
    def subjects(self) -> tuple[MemorySubject, ...]: ...

    def of(self, entity: str, *levels: str) -> Self: ...

    def view(self, *, subjects: Iterable[MemorySubject] | None = None) -> Self: ...


M = TypeVar("M", bound=_Memory)


def view_for(memory: M, who: Who) -> M:
    """Return the memory of a user.

    Raises:
        UnboundSubjectError: `who` is None, and a per-entity subject has no entity.
        TypeError: `who` has the wrong type.
    """
    if who is None:
        for subject in memory.subjects:
            subject.check_bound()
        return memory
    if isinstance(who, str):
        return memory.of(who)
    if isinstance(who, MemorySubject):
        return memory.view(subjects=[who])
    if isinstance(who, Iterable):
        return memory.view(subjects=who)
    raise TypeError(
        f"user must be a string, a MemorySubject or a function of the run's context that returns "
        f"one, not {kind_of(who)}: user=lambda context: context.user"
    )


def view_of_anyone(memory: M) -> M:
    """Return the memory with a placeholder for each missing entity, to read definitions from it."""
    return memory.view(
        subjects=[
            each.of(_STAND_IN) if each.per_entity and each.entity is None else each
            for each in memory.subjects
        ]
    )
