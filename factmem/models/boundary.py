"""Boundary: the places that a view may read and write. It can be narrowed, never widened.

It holds identities as tuples, because stores and views compare them for every fact. `allows` is the
check. `listings` and `identities` let a store avoid a listing of places that `allows` would reject.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from factmem.errors import MemoryAccessError
from factmem.models._checked import checked_places, checked_scopes, checked_subjects
from factmem.models.places import (
    DEFINITIONS,
    EVERY,
    LOWEST_PRIORITY,
    Identity,
    MemoryScope,
    MemoryScopeType,
    MemorySubject,
    Place,
    levels_of,
)

__all__ = ["Boundary"]


K = TypeVar("K")

_Scope: TypeAlias = tuple[str, str]
_Subject: TypeAlias = tuple[str, str | None]


@dataclass(frozen=True, slots=True)
class Boundary:
    """The places that may be read, and whether they may be written.

    A place is inside if its scope is in `scopes`, its subject in `subjects` and its identity in
    `places`. None means no restriction; an empty set excludes everything. Descriptions and priority
    levels of subjects are not compared.
    """

    scopes: frozenset[_Scope] | None = None
    subjects: frozenset[_Subject] | None = None
    places: frozenset[Identity] | None = None
    is_read_only: bool = False

    def allows(self, identity: Identity) -> bool:
        """Return whether a place may be read."""
        kind, scope, subject, entity = identity
        return identity != DEFINITIONS and (
            (self.scopes is None or (kind, scope) in self.scopes)
            and (
                self.subjects is None
                or (subject, entity) in self.subjects
                or (self.is_wide and _covers(self.subjects, (subject, entity)))
            )
            and (self.places is None or identity in self.places)
        )

    @property
    def is_wide(self) -> bool:
        """Whether a subject stands for every entity; a listing then has to check all places."""
        return self.subjects is not None and any(
            entity is not None and entity.startswith(EVERY) for _, entity in self.subjects
        )

    @property
    def first_levels(self) -> _Subject | None:
        """The only subject, if it stands for every entity with some first levels; None otherwise.

        A store can keep its places in an order in which those are next to each other.
        """
        if self.subjects is None or len(self.subjects) != 1 or not self.is_wide:
            return None
        (subject,) = self.subjects
        return subject if self.scopes is None or subject[1] != EVERY else None

    def identities(self, most: int) -> list[Identity] | None:
        """Return all places that are inside; None if there are more than `most` or no limit."""
        if self.places is not None:
            inside = [identity for identity in self.places if self.allows(identity)]
            return inside if len(inside) <= most else None
        if self.scopes is None or self.subjects is None or self.is_wide:
            return None
        if len(self.scopes) * len(self.subjects) > most:
            return None
        return [(*scope, *subject) for scope in self.scopes for subject in self.subjects]

    def listings(self) -> list[tuple[list[MemorySubject] | None, list[MemoryScope] | None]]:
        """Return pairs of subjects and scopes whose combinations cover all places inside.

        No place is in two pairs. None means any subject or any scope. An empty list means that no
        place is inside. If a subject stands for every entity, the pairs also cover places outside:
        filter them with `allows`.
        """
        if self.places is None:
            subjects, scopes = self.listed()
            return [(None if self.is_wide else subjects, scopes)]
        by_scope: dict[_Scope, set[_Subject]] = {}
        for identity in self.places:
            if self.allows(identity):
                by_scope.setdefault(identity[:2], set()).add(identity[2:])
        by_subjects: dict[frozenset[_Subject], list[_Scope]] = {}
        for scope, those in by_scope.items():
            by_subjects.setdefault(frozenset(those), []).append(scope)
        return [
            (list(map(_subject_of, subjects)), list(map(_scope_of, scopes)))
            for subjects, scopes in by_subjects.items()
        ]

    def listed(self) -> tuple[list[MemorySubject] | None, list[MemoryScope] | None]:
        """Return the subjects and the scopes that are inside, as arguments of a listing."""
        subjects = None if self.subjects is None else list(map(_subject_of, self.subjects))
        return subjects, None if self.scopes is None else list(map(_scope_of, self.scopes))

    def narrowed(
        self,
        *,
        scopes: Iterable[MemoryScope] | None = None,
        subjects: Iterable[MemorySubject] | None = None,
        places: Iterable[Place] | None = None,
        read_only: bool = False,
    ) -> "Boundary":
        """Return the intersection of this boundary and a second one.

        Raises:
            UnboundSubjectError: A subject is per entity and has no entity.
            TypeError: An argument is not a list, or an item has the wrong type.
        """
        in_scopes = (
            None
            if scopes is None
            else ((each.type.value, each.name) for each in checked_scopes(scopes))
        )
        about = None if subjects is None else map(_subject_key, checked_subjects(subjects))
        at = None if places is None else [place.identity for place in checked_places(places)]
        made = Boundary(_both(None, in_scopes), _both(None, about), _both(None, at), read_only)
        return self.within(made)

    def within(self, other: "Boundary") -> "Boundary":
        """Return the intersection of two boundaries."""
        return Boundary(
            _both(self.scopes, other.scopes),
            _both_subjects(self.subjects, other.subjects),
            _both(self.places, other.places),
            self.is_read_only or other.is_read_only,
        )


UNBOUNDED = Boundary()
"""The boundary of a memory that is not a view: every place, to read and to write."""


def check_writable(place: Place, boundary: Boundary) -> None:
    """Check that a boundary allows writing to a place."""
    if not boundary.allows(place.identity):
        raise MemoryAccessError(
            f"{str(place)!r} is outside this view and cannot be changed: pass a place inside it, "
            "or use a view that contains the place"
        )
    if boundary.is_read_only:
        raise MemoryAccessError(
            f"This view is read-only, so {str(place)!r} cannot be changed: use the memory that the "
            "view was created from"
        )


def _both(inside: frozenset[K] | None, also: Iterable[K] | None) -> frozenset[K] | None:
    if also is None:
        return inside
    return frozenset(also) if inside is None else inside & frozenset(also)


def _both_subjects(
    inside: frozenset[_Subject] | None, also: Iterable[_Subject] | None
) -> frozenset[_Subject] | None:
    """Return the intersection; the narrower subject wins, such as alice over every user."""
    if inside is None or also is None:
        return _both(inside, also)
    others = frozenset(also)
    return frozenset(
        [each for each in inside if each in others or _covers(others, each)]
        + [each for each in others if _covers(inside, each)]
    )


def _covers(subjects: Iterable[_Subject], key: _Subject) -> bool:
    """Return whether one of the subjects stands for every entity and includes this one."""
    name, entity = key
    if entity is None:
        return False
    levels = levels_of(entity)
    for pattern, every in subjects:
        if pattern == name and every is not None and every.startswith(EVERY):
            first = levels_of(every)
            if levels[: len(first)] == first:
                return True
    return False


def _scope_of(key: _Scope) -> MemoryScope:
    kind, name = key
    return MemoryScope(MemoryScopeType(kind), name)


def _subject_of(key: _Subject) -> MemorySubject:
    name, entity = key
    if entity is not None and entity.startswith(EVERY):
        return MemorySubject(name, "", LOWEST_PRIORITY, per_entity=True).every(*levels_of(entity))
    return MemorySubject(name, "", LOWEST_PRIORITY, per_entity=entity is not None, entity=entity)


def _subject_key(subject: MemorySubject) -> _Subject:
    if not subject.is_every:
        subject.check_bound()
    return subject.name, subject.entity
