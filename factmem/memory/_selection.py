"""The places of a memory, of a call (`PlaceSelection`) and of a user (`Who`)."""

from collections.abc import Hashable, Iterable, Sequence
from typing import TypeAlias, TypeVar

from factmem._arguments import expect
from factmem.errors import InputValueError
from factmem.models.places import (
    UNBOUNDED,
    Boundary,
    MemoryScope,
    MemoryScopesProfile,
    MemoryScopeType,
    MemorySubject,
    Place,
    ScopeChoice,
    check_writable,
    checked_places,
    checked_subjects,
)

H = TypeVar("H", bound=Hashable)

Subjects: TypeAlias = Iterable[MemorySubject] | None
"""The subjects of a call; None for those of the memory."""

Scopes: TypeAlias = Iterable[ScopeChoice] | None
"""The scopes of a call; None for all scopes of the memory's profile."""

Who: TypeAlias = str | MemorySubject | Iterable[MemorySubject] | None
"""The user of a run: the entity of the memory's per-entity subjects, or subjects. None if the
memory is already bound."""


class PlaceSelection:
    """Default subjects and scopes, within a boundary. Every read and write selects places here."""

    def __init__(
        self,
        subjects: Iterable[MemorySubject],
        profile: MemoryScopesProfile,
        *,
        default_scopes: Iterable[MemoryScope] | None = None,
        boundary: Boundary = UNBOUNDED,
    ) -> None:
        self.subjects: tuple[MemorySubject, ...] = checked_subjects(subjects)
        example = "scopes=MemoryScopesProfile(agent='my-agent')"
        self.profile: MemoryScopesProfile = expect(profile, MemoryScopesProfile, "scopes", example)
        self.boundary = boundary
        self._default_scopes = None if default_scopes is None else tuple(default_scopes)
        self._defaults: tuple[Place, ...] | None = None
        """The places of calls without subjects and scopes; cached by the first such call."""

    def __str__(self) -> str:
        subjects = [
            each.name if each.entity is None else f"{each.name}({_shown(each)})"
            for each in self.subjects
        ]
        scopes = map(str, self.profile.scopes(self._default_scopes))
        return f"{', '.join(subjects) or 'no subject'} in {', '.join(scopes) or 'no scope'}"

    def places(self, subjects: Subjects = None, scopes: Scopes = None) -> list[Place]:
        """Return the places to read inside the boundary: each subject in each named scope."""
        if subjects is None and scopes is None and self._defaults is not None:
            return [*self._defaults]
        allows = self.boundary.allows
        found = [place for place in self.requested(subjects, scopes) if allows(place.identity)]
        if subjects is None and scopes is None:
            self._defaults = tuple(found)
        return found

    def requested(self, subjects: Subjects = None, scopes: Scopes = None) -> list[Place]:
        """Return the places that a call requests, inside the boundary or not, without duplicates.

        `UnboundSubjectError` without an entity; `ValueError` without any scope.
        """
        chosen = self.subjects if subjects is None else checked_subjects(subjects)
        for subject in chosen:
            subject.check_bound()
        found = self.profile.scopes(self._default_scopes if scopes is None else scopes)
        if not found and scopes is None and self._default_scopes is None:
            raise InputValueError(
                "The memory has no scope: set one with AgentMemory(..., "
                "scopes=MemoryScopesProfile(agent='my-agent')), or pass one in the call, "
                "scopes=[MemoryScope.Agent('my-agent')]"
            )
        places = (Place(scope, subject) for subject in chosen for scope in found)
        return list({place.identity: place for place in places}.values())

    def everywhere(
        self, subjects: Subjects = None, scopes: Scopes = None
    ) -> tuple[Sequence[MemorySubject], Sequence[MemoryScope]] | None:
        """Return what a call for every entity lists; None if it selects single places."""
        chosen = self.subjects if subjects is None else checked_subjects(subjects)
        if not any(subject.is_every for subject in chosen):
            return None
        return chosen, self.profile.scopes(self._default_scopes if scopes is None else scopes)

    def writable_places(self, subjects: Subjects = None, scopes: Scopes = None) -> list[Place]:
        """Return the places that a call may write: those that it requests inside the boundary.

        `MemoryAccessError` if a subject or scope of the call has no place inside, or all is
        read-only; else as `requested`.
        """
        requested = self.requested(subjects, scopes)
        inside = [place for place in requested if self.boundary.allows(place.identity)]
        for place in inside[:1]:
            check_writable(place, self.boundary)
        reached = {each for place in inside for each in (place.subject, place.scope)}
        for place in requested:
            for part, is_named in ((place.subject, subjects), (place.scope, scopes)):
                if part not in reached and (is_named is not None or not inside):
                    check_writable(place, self.boundary)
        return inside

    def detection_places(self) -> list[Place]:
        """Return the writable places; a model must tell them apart by subject and type of scope."""
        places = self.writable_places()
        if not places:
            raise InputValueError(
                "There is no place to save to: set a subject and a scope, AgentMemory(..., "
                "scopes=MemoryScopesProfile(agent='my-agent'))"
            )
        shown: set[tuple[str, str]] = set()
        for place in places:
            name = (place.subject.name, place.scope.type.value)
            if name in shown:
                raise InputValueError(
                    f"A model cannot distinguish two places, because it sees both as {name[0]!r} "
                    f"in {name[1]!r}: detect facts for one entity and one scope at a time"
                )
            shown.add(name)
        return places

    def aside(self, scope: ScopeChoice, subject: MemorySubject | None = None) -> Place:
        """Return a place that no call selects by default."""
        found = self.profile.writable(scope)
        if found in self.profile.scopes():
            raise InputValueError(
                f"scope must not be one of the memory's own scopes, such as {found}: "
                "MemoryScope.Feature('notes')"
            )
        if subject is None and len(self.subjects) != 1:
            raise InputValueError(
                f"subject is required, because the memory has {len(self.subjects)} subjects: "
                "memory.documents(scope, USER.of('alice'))"
            )
        chosen = self.subjects[0] if subject is None else subject
        chosen.check_bound()
        return Place(found, chosen)

    def conversation_place(self) -> Place:
        """Return the place of chats: the first per-entity subject, in the narrowest scope."""
        user = next((each for each in self.subjects if each.per_entity), None)
        places = self.places(subjects=None if user is None else [user])
        if not places:
            raise InputValueError(
                "There is no place for a conversation: the view excludes all subjects"
            )
        return places[0]

    def queue(self) -> Boundary:
        """Return where conversations are learnt: those of all users, unless this is a view."""
        places = None if self.boundary == UNBOUNDED else [self.conversation_place()]
        return UNBOUNDED.narrowed(places=places, scopes=self.profile.scopes(self._default_scopes))

    def bound_to(self, entity: str, *levels: str) -> list[MemorySubject]:
        """Return the default subjects; unbound per-entity subjects are bound to an entity."""
        unbound = [each for each in self.subjects if each.per_entity and each.entity is None]
        if not unbound and any(each.per_entity for each in self.subjects):
            raise InputValueError(
                "The memory is bound to an entity already: call of() on the memory of all users"
            )
        if not unbound:
            raise InputValueError(
                "The memory has no unbound per-entity subject: AgentMemory(..., "
                "subjects=[MemorySubject('user', 'The user', 1, per_entity=True)])"
            )
        return [each.of(entity, *levels) if each in unbound else each for each in self.subjects]

    def narrowed(
        self,
        *,
        subjects: Subjects = None,
        scopes: Scopes = None,
        places: Iterable[Place] | None = None,
        read_only: bool = False,
    ) -> "PlaceSelection":
        """Return a selection restricted to a part of this one.

        The subjects and scopes that were passed, or those of the places, become the defaults of its
        calls. A scope type means the scope of this selection's profile if that is still allowed;
        otherwise the only allowed scope of that type.
        """
        given = None if subjects is None else checked_subjects(subjects)
        named = None if scopes is None else tuple(self.profile.scopes(scopes))
        only = None if places is None else checked_places(places)
        boundary = self.boundary.narrowed(
            scopes=named, subjects=given, places=only, read_only=read_only
        )
        if only is not None:
            given = _unique(place.subject for place in only) if given is None else given
            named = _unique(place.scope for place in only) if named is None else named
        default_scopes = self._default_scopes if named is None else named
        return PlaceSelection(
            self.subjects if given is None else given,
            self.profile if named is None else _profile(self.profile, named),
            default_scopes=default_scopes,
            boundary=boundary,
        )


def _shown(subject: MemorySubject) -> str:
    if not subject.is_every:
        return str(subject.entity)
    return "/".join(("every", *subject.levels))


def _unique(items: Iterable[H]) -> tuple[H, ...]:
    return tuple(dict.fromkeys(items))


def _profile(before: MemoryScopesProfile, scopes: Sequence[MemoryScope]) -> MemoryScopesProfile:
    names: dict[str, str] = {}
    for kind in MemoryScopeType:
        left = [scope for scope in scopes if scope.type is kind]
        own = before.scope(kind)
        if own in left:
            left = [scope for scope in left if scope == own]
        if len(left) == 1:
            names[kind.value] = left[0].name
    return MemoryScopesProfile(**names)
