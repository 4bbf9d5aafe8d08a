"""Places of facts: subjects, scopes, and the pairs of both."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import ClassVar, TypeAlias

from factmem._arguments import expect, expect_member, kind_of
from factmem.errors import UnboundSubjectError
from factmem.models.names import checked_name, checked_text

__all__ = [
    "EVERY",
    "LOWEST_PRIORITY",
    "Identity",
    "MemoryScope",
    "MemoryScopeType",
    "MemorySubject",
    "Place",
    "identity_of",
    "levels_of",
    "subject_keys",
]


@dataclass(frozen=True, slots=True)
class MemorySubject:
    """The person or thing that a fact is about.

    A lower priority level is more specific and wins. A subject with `per_entity=True` stands for
    many: bind it with `of("alice")` before facts can be saved or loaded about it.

        USER = MemorySubject("user", "The person who talks to the agent", 1, per_entity=True)
        alice = USER.of("alice")

    Name and entity identify it in storage; description and priority are for the application.
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
        if type(self.priority_level) is not int:
            raise TypeError("priority_level must be an int: MemorySubject(name, description, 1)")
        if self.entity is not None:
            if not self.per_entity:
                raise ValueError(
                    f"The subject {self.name!r} has no entities: create it with per_entity=True"
                )
            if self.entity.startswith(EVERY):  # a user of this name must not be every user
                raise ValueError('entity must not begin with "///": see MemorySubject.every')
            put(self, "entity", checked_name(self.entity, "entity"))

    def of(self, entity: str, *levels: str) -> "MemorySubject":
        """Return this subject bound to one entity, such as a user's id.

        An entity can have levels, such as a tenant and its user: `USER.of("acme", "alice")`. They
        are kept apart whatever they contain: `USER.of("acme/alice")` is another entity, of one
        level.

        Raises:
            ValueError: The subject is not per entity, or the entity is not a valid name. A single
                level must not begin with "//", as stored entities of several levels do.
        """
        if levels:
            parts = [checked_name(each, "entity") for each in (entity, *levels)]
            entity = _LEVELS + "/".join(map(_quoted, parts))
        elif expect(entity, str, "entity", '"alice"').startswith(_LEVELS):
            raise ValueError(
                'An entity begins with "//": give its levels, USER.of("acme", "alice")'
            )
        return self._bound(entity)

    def _bound(self, entity: str) -> "MemorySubject":
        """Return this subject with an entity that is checked here; the rest was checked before."""
        if not self.per_entity:
            raise ValueError(
                f"The subject {self.name!r} has no entities: create it with per_entity=True"
            )
        bound, put = MemorySubject.__new__(MemorySubject), object.__setattr__
        put(bound, "name", self.name)
        put(bound, "prompt_description", self.prompt_description)
        put(bound, "priority_level", self.priority_level)
        put(bound, "per_entity", True)
        put(bound, "entity", checked_name(entity, "entity"))
        return bound

    def every(self, *levels: str) -> "MemorySubject":
        """Return this subject for all of its entities, to look everywhere as an administrator.

            everyone = memory.view(subjects=[USER.every()])
            tenant = memory.view(subjects=[USER.every("acme")])

        Only views take it, and there `recall` and `contents`. Everything else raises
        `UnboundSubjectError`.

        Args:
            levels: The first levels of the entities, such as a tenant: `USER.every("acme")` is for
                `USER.of("acme")` and `USER.of("acme", "alice")`, not for `USER.of("acme2")`.

        Raises:
            ValueError: The subject is not per entity, or a level is not a valid name.
        """
        if not self.per_entity:
            raise ValueError(
                f"The subject {self.name!r} has no entities: create it with per_entity=True"
            )
        first = "/".join(_quoted(checked_name(each, "entity")) for each in levels)
        every = MemorySubject(
            self.name, self.prompt_description, self.priority_level, per_entity=True
        )
        object.__setattr__(every, "entity", EVERY + first)
        return every

    @property
    def is_every(self) -> bool:
        """Whether it stands for several entities; see `every`."""
        return self.entity is not None and self.entity.startswith(EVERY)

    @property
    def levels(self) -> tuple[str, ...]:
        """The levels of the entity, as `of` took them; empty if there is no entity."""
        return () if self.entity is None else levels_of(self.entity)

    def check_bound(self) -> None:
        """Raise `UnboundSubjectError` if the subject does not stand for one entity."""
        if self.is_every:
            raise UnboundSubjectError(
                f"The subject {self.name!r} stands for every entity, which only recall and contents "
                f"of a view take: bind it with {self.name}.of(entity) for everything else"
            )
        if self.per_entity and self.entity is None:
            raise UnboundSubjectError(
                f"The subject {self.name!r} is per entity and has none: bind it with "
                f"{self.name}.of(entity) before you save or load facts"
            )


EVERY = "///"
"""The beginning of the entity of `every`, then its levels. No bound entity begins so."""

_LEVELS = "//"
"""The beginning of an entity with several levels; `of` refuses it in a single one."""


def levels_of(entity: str) -> tuple[str, ...]:
    """Return the levels of an entity, bound or of `every`."""
    if entity.startswith(EVERY):
        first = entity.removeprefix(EVERY)
        return tuple(map(_unquoted, first.split("/"))) if first else ()
    if not entity.startswith(_LEVELS):
        return (entity,)
    return tuple(map(_unquoted, entity.removeprefix(_LEVELS).split("/")))


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


@dataclass(frozen=True, slots=True)
class MemoryScope:
    """Where facts are visible: one agent, one feature, one product, or across products.

    Made by `MemoryScope.Agent("desk")`, `Feature`, `Product` or `CrossProduct`. Names are global
    within a store: two agents of one name share their facts.

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
    def Agent(cls, name: str) -> "MemoryScope":  # noqa: N802 - reads as the type it stands for
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
        """Return the scope that `str()` of it gave: "product/my-app".

        Raises:
            ValueError: The string is not a scope.
            TypeError: It is not a string.
        """
        expect(text, str, "text", 'MemoryScope.parse("product/my-app")')
        kind, slash, name = text.partition("/")
        if not slash or kind not in MemoryScopeType.__members__.values():
            kinds = ", ".join(MemoryScopeType)
            raise ValueError(f"A scope is written as type/name, with a type of {kinds}")
        return cls(MemoryScopeType(kind), name)

    def __str__(self) -> str:
        return f"{self.type}/{self.name}"


Identity: TypeAlias = tuple[str, str, str, str | None]
"""What makes two places the same: scope type, scope name, subject name, entity."""


def identity_of(subject: MemorySubject, scope: MemoryScope) -> Identity:
    """Return the identity of a place.

    Raises:
        UnboundSubjectError: The subject is per entity and has no entity.
        TypeError: They are not a subject and a scope.
    """
    try:
        if subject.per_entity and (subject.entity is None or subject.entity[:3] == EVERY):
            subject.check_bound()
        identity = (scope.type.value, scope.name, subject.name, subject.entity)
    except AttributeError:
        raise TypeError(
            f"subject and scope must be a MemorySubject and a MemoryScope, in this order, not "
            f'{type(subject).__name__} and {type(scope).__name__}: USER.of("alice") and '
            f'MemoryScope.Product("my-app"), or MemoryScope.parse("product/my-app"). '
            f"Place(scope, subject) has the scope first"
        ) from None
    return identity


def subject_keys(subjects: Iterable[MemorySubject]) -> tuple[tuple[str, str | None], ...]:
    """Return what makes two subjects the same: the name and the entity of each.

    Raises:
        UnboundSubjectError: A subject is per entity and has no entity.
    """
    keys: list[tuple[str, str | None]] = []
    for subject in subjects:
        subject.check_bound()
        keys.append((subject.name, subject.entity))
    return tuple(keys)


@dataclass(frozen=True, slots=True)
class Place:
    """Where facts live: a scope and a bound subject. The unit of isolation.

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
        """What makes two places the same; description and priority are no part of it."""
        return identity_of(self.subject, self.scope)

    @classmethod
    def of_identity(cls, identity: Identity) -> "Place":
        """Return a place by its identity; the subject has no description.

        Raises:
            ValueError: A name or the type is invalid.
            TypeError: It is not an identity: scope type, scope name, subject name, entity or None.
        """
        given: object = identity
        if not isinstance(given, tuple | list) or len(given) != 4:
            raise TypeError(
                f"identity must be a tuple of four, not {kind_of(given)}: "
                f"Place.of_identity(place.identity)"
            )
        kind, scope, subject, entity = identity
        is_named = type(kind) is str and type(scope) is str
        # Field by field: a listing makes 100,000 of these, and a subject and a scope that were
        # just made need no second look.
        place = object.__new__(cls)
        put = object.__setattr__
        put(place, "scope", (_scope_of if is_named else _new_scope)(kind, scope))
        put(place, "subject", _stored_subject(subject, entity))
        return place

    def __str__(self) -> str:
        entity = "" if self.subject.entity is None else f"({self.subject.entity})"
        return f"{self.scope} {self.subject.name}{entity}"


LOWEST_PRIORITY = 2**31 - 1
"""The level of `MemorySubject.EVERYTHING`: every other subject is more specific."""

MemorySubject.EVERYTHING = MemorySubject(
    "everything", "Everything that concerns no one in particular", LOWEST_PRIORITY
)


def _new_scope(kind: str, name: str) -> MemoryScope:
    return MemoryScope(expect_member(kind, MemoryScopeType, "type"), name)


_scope_of = lru_cache(maxsize=1024)(_new_scope)
"""A list of places has many subjects in few scopes."""


@lru_cache(maxsize=256)
def _subject_of_entities(name: str) -> MemorySubject:
    return MemorySubject(name, "", LOWEST_PRIORITY, per_entity=True)


def _stored_subject(name: str, entity: str | None) -> MemorySubject:
    """Return a subject as stores know it, without a description."""
    if entity is None or type(name) is not str or entity[:3] == EVERY:
        per_entity = entity is not None
        return MemorySubject(name, "", LOWEST_PRIORITY, per_entity=per_entity, entity=entity)
    checked, subject = _subject_of_entities(name), object.__new__(MemorySubject)
    put = object.__setattr__
    put(subject, "name", checked.name)
    put(subject, "prompt_description", "")
    put(subject, "priority_level", LOWEST_PRIORITY)
    put(subject, "per_entity", True)
    put(subject, "entity", checked_name(entity, "entity"))
    return subject
