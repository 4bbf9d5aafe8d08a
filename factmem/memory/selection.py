"""Which places a memory may touch: every read and every write asks here first."""

from collections.abc import Hashable, Iterable, Sequence
from typing import TypeVar

from factmem.models.boundary import (
    UNBOUNDED,
    Boundary,
    check_writable,
)
from factmem.models.checked import checked_places, checked_subjects
from factmem.models.places import (
    MemoryScope,
    MemoryScopeType,
    MemorySubject,
    Place,
)
from factmem.models.scopes import MemoryScopesProfile, ScopeChoice

__all__ = ["Reach", "check_distinct"]


H = TypeVar("H", bound=Hashable)


class Reach:
    """Subjects and scopes, the default ones and those that a call names, within a boundary.

    Args:
        subjects: Whom facts concern, where a call does not say.
        scopes: The scope that each type of scope means.
        default_scopes: Where to look, where a call does not say; all that have a name by default.
        boundary: What may be touched at all; everything by default.

    Raises:
        TypeError: The subjects are no list of subjects.
    """

    def __init__(
        self,
        subjects: Iterable[MemorySubject],
        scopes: MemoryScopesProfile,
        *,
        default_scopes: Iterable[MemoryScope] | None = None,
        boundary: Boundary = UNBOUNDED,
    ) -> None:
        self.subjects: tuple[MemorySubject, ...] = checked_subjects(subjects)
        self.scopes = scopes
        self.boundary = boundary
        self._default_scopes = None if default_scopes is None else tuple(default_scopes)

    def places(
        self,
        subjects: Iterable[MemorySubject] | None = None,
        scopes: Iterable[ScopeChoice] | None = None,
    ) -> list[Place]:
        """Return the places to read: each subject in each scope, none of them twice.

        A type of scope that has no name is passed over, and so is a place beyond the boundary.

        Raises:
            UnboundSubjectError: A subject is per entity and names none.
            ValueError: No scope is named, neither here nor at all: that cannot be meant.
        """
        return [
            place for place in self.meant(subjects, scopes) if self.boundary.allows(place.identity)
        ]

    def meant(
        self,
        subjects: Iterable[MemorySubject] | None = None,
        scopes: Iterable[ScopeChoice] | None = None,
    ) -> list[Place]:
        """Return the places that a call means, whether they lie inside or not, none twice.

        Raises:
            UnboundSubjectError: A subject is per entity and names none.
            ValueError: No scope is named, neither here nor at all.
        """
        chosen = self.subjects if subjects is None else checked_subjects(subjects)
        for subject in chosen:
            subject.check_bound()
        found = self.scopes.scopes(self._default_scopes if scopes is None else scopes)
        if not found and scopes is None and self._default_scopes is None:
            raise ValueError(
                "There is no scope to look in or to save to: name one for the memory, as in "
                "AgentMemory(..., scopes=MemoryScopesProfile(agent='my-agent')), or in the call, "
                "as in scopes=[MemoryScope.Agent('my-agent')]"
            )
        places = (Place(scope, subject) for subject in chosen for scope in found)
        return list({place.identity: place for place in places}.values())

    def writable_places(
        self,
        subjects: Iterable[MemorySubject] | None = None,
        scopes: Iterable[ScopeChoice] | None = None,
    ) -> list[Place]:
        """Return the places that a call may write to: of those that it means, the ones inside.

        Raises:
            UnboundSubjectError: A subject is per entity and names none.
            MemoryAccessError: A subject or scope that the call names has no place inside, or
                nothing may be written at all.
            ValueError: No scope is named, neither here nor at all.
        """
        meant = self.meant(subjects, scopes)
        inside = [place for place in meant if self.boundary.allows(place.identity)]
        for place in inside[:1]:
            check_writable(place, self.boundary)
        reached = {each for place in inside for each in (place.subject, place.scope)}
        for place in meant:
            for part, is_named in ((place.subject, subjects), (place.scope, scopes)):
                if part not in reached and (is_named is not None or not inside):
                    check_writable(place, self.boundary)
        return inside

    def place(self, subject: MemorySubject, scope: ScopeChoice) -> Place:
        """Return the place to save to.

        Raises:
            UnboundSubjectError: The subject is per entity and names none.
            ValueError: The scope is a type that has no name here.
            MemoryAccessError: The place lies beyond the boundary, or nothing may be written.
        """
        place = Place(self.scopes.writable(scope), subject)
        check_writable(place, self.boundary)
        return place

    def narrowed(
        self,
        *,
        subjects: Iterable[MemorySubject] | None = None,
        scopes: Iterable[ScopeChoice] | None = None,
        places: Iterable[Place] | None = None,
        read_only: bool = False,
    ) -> "Reach":
        """Return a reach that has no more than this one.

        What it names is also what its calls concern where they do not say: the subjects and scopes
        given, or those of the places given. A type of scope means the one scope of that type that
        is left, where this reach's own of that type is not.

        Raises:
            TypeError: An argument is no list, or not of what it should be.
            UnboundSubjectError: A subject is per entity and names none.
        """
        given = None if subjects is None else checked_subjects(subjects)
        named = None if scopes is None else tuple(self.scopes.scopes(scopes))
        only = None if places is None else checked_places(places)
        boundary = self.boundary.narrowed(
            scopes=named, subjects=given, places=only, read_only=read_only
        )
        if only is not None:
            given = _unique(place.subject for place in only) if given is None else given
            named = _unique(place.scope for place in only) if named is None else named
        default_scopes = self._default_scopes if named is None else named
        return Reach(
            self.subjects if given is None else given,
            self.scopes if named is None else _profile(self.scopes, named),
            default_scopes=default_scopes,
            boundary=boundary,
        )


def _unique(items: Iterable[H]) -> tuple[H, ...]:
    return tuple(dict.fromkeys(items))


def _profile(before: MemoryScopesProfile, scopes: Sequence[MemoryScope]) -> MemoryScopesProfile:
    """Return the names that types of scope have where only `scopes` are left."""
    names: dict[str, str] = {}
    for kind in MemoryScopeType:
        left = [scope for scope in scopes if scope.type is kind]
        own = before.scope(kind)
        if own in left:
            left = [scope for scope in left if scope == own]
        if len(left) == 1:
            names[kind.value] = left[0].name
    return MemoryScopesProfile(**names)


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
