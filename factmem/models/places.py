"""Places of facts: subjects, scopes, and pairs of a subject and a scope; and who changes them.

Stores know a place by its `Identity`, four strings. Entities with several levels are one string
with the prefix "//", and `MemorySubject.every` has the prefix "///"; `of` rejects both prefixes, so
no user's name can be mistaken for several users.

A `Boundary`, the places that a view may read and write, can be narrowed, never widened. It holds
identities as tuples, because stores and views compare them for every fact. `allows` is the check.
`identities` lets a store avoid a listing of places that `allows` would reject.
"""

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple, TypeAlias, TypeVar

from factmem._arguments import expect, expect_all, expect_member, guided, kind_of
from factmem.errors import InputTypeError, InputValueError, MemoryAccessError, UnboundSubjectError
from factmem.models._values import checked_name, checked_text

__all__ = [
    "Boundary",
    "Identity",
    "MemoryScope",
    "MemoryScopeType",
    "MemoryScopesProfile",
    "MemorySubject",
    "Place",
    "acting",
]


K = TypeVar("K")


@guided(
    {"bind entity_of": "USER.of('alice')"},
    arguments={
        "*": "MemorySubject('user', 'The person who talks to the agent', 1, per_entity=True)"
    },
    calls=("__init__",),
)
@dataclass(frozen=True, slots=True)
class MemorySubject:
    """The person or thing that a fact is about.

    A lower priority level is more specific and wins. A subject with `per_entity=True` stands for
    many entities: bind it to one with `of("alice")` before you save or load facts.

        USER = MemorySubject("user", "The person who talks to the agent", 1, per_entity=True)
        alice = USER.of("alice")

    Name and entity identify it in storage; description and priority are not stored.
    """

    EVERYTHING: ClassVar["MemorySubject"]
    """The subject of facts about nothing in particular; every other subject is more specific."""

    name: str
    prompt_description: str
    """The description that a model reads."""
    priority_level: int
    per_entity: bool = field(default=False, kw_only=True)
    entity: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "name", checked_name(self.name, "subject name"))
        checked_text(self.prompt_description, "prompt_description")
        if type(self.priority_level) is not int:  # a call costs as much as the rest
            expect(self.priority_level, int, "priority_level", "MemorySubject(name, text, 1)")
        if self.entity is not None:
            self._check_entities()
            if self.entity.startswith(EVERY):  # no user's name may mean every user
                raise InputValueError('entity must not begin with "///": see MemorySubject.every')
            put(self, "entity", _checked_entity(self.entity))

    def of(self, entity: str, *levels: str) -> "MemorySubject":
        """Return this subject bound to one entity, such as a user's id.

        An entity can have levels, such as a tenant and its user: `USER.of("acme", "alice")`. Levels
        are escaped: `USER.of("acme/alice")` is another entity, with one level.

        Raises:
            ValueError: The subject is not per entity, or the entity is not a valid name. A single
                level must not begin with "//", as stored entities of several levels do.
        """
        if levels:
            parts = [checked_name(each, "entity") for each in (entity, *levels)]
            entity = _LEVELS + "/".join(map(_quoted, parts))
        elif expect(entity, str, "entity", _ENTITY).startswith(_LEVELS):
            raise InputValueError(
                'An entity begins with "//": give its levels, USER.of("acme", "alice")'
            )
        return self._bound(entity)

    def _bound(self, entity: str) -> "MemorySubject":
        """Return this subject with an entity. Only the entity is validated: the rest was before."""
        self._check_entities()
        bound, put = MemorySubject.__new__(MemorySubject), object.__setattr__
        put(bound, "name", self.name)
        put(bound, "prompt_description", self.prompt_description)
        put(bound, "priority_level", self.priority_level)
        put(bound, "per_entity", True)
        put(bound, "entity", checked_name(entity, "entity"))
        return bound

    def _check_entities(self) -> None:
        if not self.per_entity:
            raise InputValueError(
                f"The subject {self.name!r} has no entities: create it with per_entity=True"
            )

    def every(self, *levels: str) -> "MemorySubject":
        """Return this subject for all of its entities, for administrators.

            everyone = memory.view(subjects=[USER.every()])
            tenant = memory.view(subjects=[USER.every("acme")])

        Only `recall` and `contents` of a view accept it. Everything else raises
        `UnboundSubjectError`.

        Args:
            levels: The first levels of the entities, such as a tenant: `USER.every("acme")` is for
                `USER.of("acme")` and `USER.of("acme", "alice")`, not for `USER.of("acme2")`.

        Raises:
            ValueError: The subject is not per entity, or a level is not a valid name.
        """
        self._check_entities()
        first = "/".join(_quoted(checked_name(each, "entity")) for each in levels)
        every = MemorySubject(
            self.name, self.prompt_description, self.priority_level, per_entity=True
        )
        object.__setattr__(every, "entity", EVERY + first)
        return every

    @property
    def is_every(self) -> bool:
        """Whether it stands for many entities; see `every`."""
        return self.entity is not None and self.entity.startswith(EVERY)

    @property
    def levels(self) -> tuple[str, ...]:
        """The levels of the entity, as passed to `of`; empty if there is no entity."""
        return () if self.entity is None else levels_of(self.entity)

    def check_bound(self) -> None:
        """Raise `UnboundSubjectError` if the subject does not stand for one entity."""
        if self.is_every:
            raise UnboundSubjectError(
                f"The subject {self.name!r} stands for every entity; only recall and contents of a "
                f"view accept that: bind it with {self.name}.of(entity) for everything else"
            )
        if self.per_entity and self.entity is None:
            raise UnboundSubjectError(
                f"The subject {self.name!r} is per entity and has no entity: bind it with "
                f"{self.name}.of(entity) before you save or load facts"
            )


_ENTITY = "of('alice'), or of(str(42)) for a number"

EVERY = "///"
"""The prefix of the entities of `every`; its levels follow. No bound entity has this prefix."""

_LEVELS = "//"
"""The prefix of an entity with several levels; `of` rejects it in a single level."""


def levels_of(entity: str) -> tuple[str, ...]:
    """Return the levels of an entity, bound or of `every`."""
    if entity.startswith(EVERY):
        first = entity.removeprefix(EVERY)
        return tuple(map(_unquoted, first.split("/"))) if first else ()
    if not entity.startswith(_LEVELS):
        return (entity,)
    return tuple(map(_unquoted, entity.removeprefix(_LEVELS).split("/")))


def _checked_entity(entity: str) -> str:
    """Return an entity in the form that `of` makes, or raise `ValueError`.

    "//acme/" would print and match as its levels and be another one, left by an erasure.
    """
    entity = checked_name(entity, "entity")
    if entity.startswith(_LEVELS):
        levels = levels_of(entity)
        is_made = len(levels) > 1 and all(level.strip() for level in levels)
        if not is_made or _LEVELS + "/".join(map(_quoted, levels)) != entity:
            raise InputValueError(
                'An entity that begins with "//" must be made by of(level, level)'
            )
    return entity


def _quoted(level: str) -> str:
    return level.replace("%", "%25").replace("/", "%2F")


def _unquoted(level: str) -> str:
    return level.replace("%2F", "/").replace("%25", "%")


class MemoryScopeType(StrEnum):
    """How widely facts are visible, the narrowest first."""

    AGENT = "agent"
    FEATURE = "feature"
    PRODUCT = "product"
    ORGANIZATION = "organization"


@guided(
    arguments={"*": "MemoryScope.Product('my-app'); also Agent, Feature and CrossProduct"},
    calls=("__init__",),
)
@dataclass(frozen=True, slots=True)
class MemoryScope:
    """Where facts are visible: to one agent, one feature, one product, or all products.

    Create it with `MemoryScope.Agent("desk")`, `Feature`, `Product` or `CrossProduct`. Names are
    global within a store: two agents with the same name share their facts.

    Raises:
        ValueError: The type is unknown, or the name is invalid.
        TypeError: The type or the name has the wrong type.
    """

    type: MemoryScopeType
    name: str

    def __post_init__(self) -> None:
        if type(self.type) is not MemoryScopeType:
            kind = expect_member(self.type, MemoryScopeType, "type")
            object.__setattr__(self, "type", kind)
        object.__setattr__(self, "name", checked_name(self.name, "scope name"))

    @classmethod
    def Agent(cls, name: str) -> "MemoryScope":  # noqa: N802 - named like the scope type
        """Return the scope of one agent."""
        return cls(MemoryScopeType.AGENT, name)

    @classmethod
    def Feature(cls, id: str) -> "MemoryScope":  # noqa: N802, A002 - Koog's name for it
        """Return the scope of one feature of an agent or application."""
        return cls(MemoryScopeType.FEATURE, id)

    @classmethod
    def Product(cls, name: str) -> "MemoryScope":  # noqa: N802
        """Return the scope of one product."""
        return cls(MemoryScopeType.PRODUCT, name)

    @classmethod
    def CrossProduct(cls, organization: str = "default") -> "MemoryScope":  # noqa: N802
        """Return the scope of all products of one organisation."""
        return cls(MemoryScopeType.ORGANIZATION, organization)

    @classmethod
    def parse(cls, text: str) -> "MemoryScope":
        """Parse the string form of a scope, as `str(scope)` returns it: "product/my-app".

        Raises:
            ValueError: The string is not a scope.
            TypeError: It is not a string.
        """
        expect(text, str, "text", 'MemoryScope.parse("product/my-app")')
        kind, slash, name = text.partition("/")
        if not slash or kind not in MemoryScopeType.__members__.values():
            kinds = ", ".join(MemoryScopeType)
            raise InputValueError(
                f"text must have the form type/name, with one of these types: {kinds}"
            )
        return cls(MemoryScopeType(kind), name)

    def __str__(self) -> str:
        return f"{self.type}/{self.name}"


Identity: TypeAlias = tuple[str, str, str, str | None]
"""The identity of a place: scope type, scope name, subject name, entity."""

DEFINITIONS: Identity = ("concepts", "", "", None)
"""Where a store keeps the definitions of concepts. No place of an application has this identity."""


def identity_of(subject: MemorySubject, scope: MemoryScope) -> Identity:
    """Return the identity of a place."""
    try:
        if subject.per_entity and (subject.entity is None or subject.entity[:3] == EVERY):
            subject.check_bound()
        identity = (scope.type.value, scope.name, subject.name, subject.entity)
    except AttributeError:
        raise InputTypeError(
            f"subject and scope must be a MemorySubject and a MemoryScope, in this order, not "
            f'{type(subject).__name__} and {type(scope).__name__}: USER.of("alice") and '
            f'MemoryScope.Product("my-app"), or MemoryScope.parse("product/my-app"). '
            f"Place(scope, subject) has the scope first"
        ) from None
    return identity


@dataclass(frozen=True, slots=True)
class Place:
    """A pair of a scope and a bound subject, where facts are stored. The unit of isolation.

    Raises:
        UnboundSubjectError: The subject is per entity and has no entity.
        TypeError: They are not a subject and a scope.
    """

    scope: MemoryScope
    subject: MemorySubject

    def __post_init__(self) -> None:
        identity_of(self.subject, self.scope)

    @property
    def identity(self) -> Identity:
        """The identity of the place; description and priority of the subject are not part of it."""
        return identity_of(self.subject, self.scope)

    @classmethod
    def of_identity(cls, identity: Identity) -> "Place":
        """Create a place from its identity; the subject has no description.

        Raises:
            ValueError: A name or the type is invalid.
            TypeError: It is not an identity: scope type, scope name, subject name, entity or None.
        """
        given: object = identity
        if not isinstance(given, tuple | list) or len(given) != 4:
            raise InputTypeError(
                f"identity must be a tuple of four, not {kind_of(given)}: "
                f"Place.of_identity(place.identity)"
            )
        kind, scope, subject, entity = identity
        is_named = type(kind) is str and type(scope) is str
        # The fields are set one by one to skip __post_init__: a listing creates 100,000 places, and
        # a subject and a scope that were just created are valid.
        place = object.__new__(cls)
        put = object.__setattr__
        put(place, "scope", (_scope_of if is_named else _new_scope)(kind, scope))
        put(place, "subject", _stored_subject(subject, entity))
        return place

    def __str__(self) -> str:
        levels = ", ".join(self.subject.levels)
        entity = f"({levels})" if levels else ""
        return f"{self.scope} {self.subject.name}{entity}"


LOWEST_PRIORITY = 2**31 - 1
"""The level of `MemorySubject.EVERYTHING`: every other subject is more specific."""

MemorySubject.EVERYTHING = MemorySubject(
    "everything", "Everything that concerns no one in particular", LOWEST_PRIORITY
)


def _new_scope(kind: str, name: str) -> MemoryScope:
    return MemoryScope(expect_member(kind, MemoryScopeType, "type"), name)


_scope_of = lru_cache(maxsize=1024)(_new_scope)
"""Cached, because a list of places has many subjects in few scopes."""


@lru_cache(maxsize=256)
def _subject_of_entities(name: str) -> MemorySubject:
    return MemorySubject(name, "", LOWEST_PRIORITY, per_entity=True)


def _stored_subject(name: str, entity: str | None) -> MemorySubject:
    """Return a subject as stores record it, without a description."""
    if entity is None or type(name) is not str or entity[:3] == EVERY:
        per_entity = entity is not None
        return MemorySubject(name, "", LOWEST_PRIORITY, per_entity=per_entity, entity=entity)
    checked, subject = _subject_of_entities(name), object.__new__(MemorySubject)
    put = object.__setattr__
    put(subject, "name", checked.name)
    put(subject, "prompt_description", "")
    put(subject, "priority_level", LOWEST_PRIORITY)
    put(subject, "per_entity", True)
    put(subject, "entity", _checked_entity(entity))
    return subject


ScopeChoice: TypeAlias = MemoryScope | MemoryScopeType
"""A scope, or a scope type that a profile resolves to a scope."""


def checked_choice(choice: ScopeChoice) -> ScopeChoice:
    """Return a scope or a scope type."""
    if isinstance(choice, MemoryScope):
        return choice
    try:
        return MemoryScopeType(choice)
    except ValueError:
        raise InputTypeError(
            "scope must be a MemoryScope or a MemoryScopeType: MemoryScope.Product('my-app') or "
            "MemoryScope.parse('product/my-app')"
        ) from None


def checked_choices(choices: Iterable[ScopeChoice]) -> tuple[ScopeChoice, ...]:
    """Return scopes and scope types as a tuple; raise `TypeError` unless it is a list of them."""
    example = "scopes=[MemoryScope.Product('my-app')]"
    given: tuple[Any, ...] = expect_all(choices, object, "scopes", example)
    return tuple(map(checked_choice, given))


@guided(
    arguments={
        "cross_product company tenant": "organization='acme'",
        "project app scope user": "product='my-app'; users are subjects, USER.of('alice')",
    },
    calls=("__init__",),
)
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
            raise InputValueError(
                f"Nothing can be saved in the scope {str(choice)!r}, because it has no name: set "
                f"it with MemoryScopesProfile({choice}=...)"
            )
        return scope


def checked_subjects(subjects: Iterable[MemorySubject]) -> tuple[MemorySubject, ...]:
    """Return subjects as a tuple; raise `TypeError` unless it is a list of them."""
    return expect_all(subjects, MemorySubject, "subjects", "subjects=[USER.of('alice')]")


def checked_scopes(scopes: Iterable[MemoryScope]) -> tuple[MemoryScope, ...]:
    """Return scopes as a tuple; raise `TypeError` unless it is a list of them."""
    return expect_all(scopes, MemoryScope, "scopes", "scopes=[MemoryScope.Product('my-app')]")


def checked_places(places: Iterable[Place]) -> tuple[Place, ...]:
    """Return places as a tuple; raise `TypeError` unless it is a list of them."""
    example = "places=[Place(MemoryScope.Product('my-app'), USER.of('alice'))]"
    return expect_all(places, Place, "places", example)


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


def _subject_key(subject: MemorySubject) -> _Subject:
    if not subject.is_every:
        subject.check_bound()
    return subject.name, subject.entity


MAX_REASON = 1000
"""The largest length of an actor and of a reason, in characters."""


class By(NamedTuple):
    """Who made a change, and why."""

    actor: str | None = None
    reason: str | None = None


NOBODY = By()
_BY: ContextVar[By] = ContextVar("factmem_actor", default=NOBODY)


def present_actor() -> By:
    """Return the actor and the reason of changes that are made now."""
    return _BY.get()


@contextmanager
def acting(actor: str, *, reason: str | None = None) -> Generator[None]:
    """Name the actor and the reason of all changes in a block: a person, an agent, a program.

        with acting("jane", reason="the customer called"):
            await memory.review.correct(fact, "Silver")

    Both are stored with the changes, in plain text like the facts. They are in histories, `why`,
    bundles and events, never in prompts. An inner block hides the outer one.

    Raises:
        TypeError: One of them is not a string.
        ValueError: `actor` is empty, or one of them is longer than 1,000 characters.
    """
    token = _BY.set(By(_checked(actor, "actor"), reason and _checked(reason, "reason")))
    try:
        yield
    finally:
        _BY.reset(token)


@contextmanager
def acting_unless_named(actor: str) -> Generator[None]:
    """Name a program of factmem as the actor of a block, unless the application has named one."""
    named = _BY.get()
    token = _BY.set(named if named.actor is not None else By(actor, named.reason))
    try:
        yield
    finally:
        _BY.reset(token)


def _checked(text: str, name: str) -> str:
    if not checked_text(text, name).strip():
        raise InputValueError(f"{name} must not be empty: acting('jane', reason='he called')")
    if len(text) > MAX_REASON:
        raise InputValueError(f"{name} must have at most {MAX_REASON} characters")
    return text
