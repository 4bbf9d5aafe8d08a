"""Which places a memory may touch: every read and every write asks here first."""

from collections.abc import Iterable, Sequence

from factmem.models import MemorySubject, Place
from factmem.scopes import MemoryScopesProfile, ScopeChoice

__all__ = ["Reach", "check_distinct"]


class Reach:
    """Subjects and scopes, the default ones and those that a call names.

    Args:
        subjects: Whom facts concern, where a call does not say.
        scopes: The scope that each type of scope means.
    """

    def __init__(self, subjects: Iterable[MemorySubject], scopes: MemoryScopesProfile) -> None:
        self.subjects: tuple[MemorySubject, ...] = tuple(subjects)
        self.scopes = scopes

    def places(
        self,
        subjects: Iterable[MemorySubject] | None = None,
        scopes: Iterable[ScopeChoice] | None = None,
    ) -> list[Place]:
        """Return the places to read: each subject in each scope, none of them twice.

        A type of scope that has no name is passed over.

        Raises:
            UnboundSubjectError: A subject is per entity and names none.
        """
        chosen = self.subjects if subjects is None else tuple(subjects)
        for subject in chosen:
            subject.check_bound()
        found = self.scopes.scopes(scopes)
        places = (Place(scope, subject) for subject in chosen for scope in found)
        return list({place.identity: place for place in places}.values())

    def place(self, subject: MemorySubject, scope: ScopeChoice) -> Place:
        """Return the place to save to.

        Raises:
            UnboundSubjectError: The subject is per entity and names none.
            ValueError: The scope is a type that has no name here.
        """
        subject.check_bound()
        return Place(self.scopes.writable(scope), subject)


def check_distinct(places: Sequence[Place]) -> None:
    """Make sure that a model can name each place by its subject's name and its scope's type.

    Raises:
        ValueError: Two places look the same, or there is none.
    """
    if not places:
        raise ValueError(
            "There is nowhere to save: name a scope, as in "
            "AgentMemory(..., scopes=MemoryScopesProfile(agent=...)), and a subject"
        )
    seen: set[tuple[str, str]] = set()
    for place in places:
        shown = (place.subject.name, place.scope.type.value)
        if shown in seen:
            raise ValueError(
                f"A model is shown subjects by name and scopes by type, and two places would be "
                f"{shown[0]!r} in {shown[1]!r}: detect facts for one entity and one scope at a time"
            )
        seen.add(shown)
