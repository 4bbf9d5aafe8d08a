"""Resolution: selects the facts that apply from several places. Pure.

A SINGLE concept has the value of the subject with the lowest priority level; on a tie that of the
narrower scope; on a tie that of the place that confirmed it last. The values of a MULTIPLE concept
are combined, and a value in several places counts once, in the first of them.

`resolve` does this for one user's places. `resolve_entities` does it for places of several users:
facts of different users never hide each other, so it resolves once for each of them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import sha256
from typing import Any, Generic, TypeAlias

from typing_extensions import TypeVar

from factmem.errors import StoredFactError
from factmem.ledger.entries import stored
from factmem.models._display import Displayed, Sheet, fact_cells
from factmem.models._values import Canonical, canonical
from factmem.models.facts import AnyFact, FactType, MultipleFacts
from factmem.models.places import Identity, MemoryScopeType, Place
from factmem.models.when import stamp

__all__ = ["PlacedFact"]

_DIGITS = 32
"""The length of the digest in a version."""

F_co = TypeVar("F_co", bound="AnyFact", default="AnyFact", covariant=True)

F = TypeVar("F", bound="AnyFact")

_Entity: TypeAlias = tuple[str, str | None]
"""The name of a subject, and an entity of it."""

_WIDTH = {scope_type: width for width, scope_type in enumerate(MemoryScopeType)}


def version_of(fact: AnyFact) -> str:
    """Return a digest of a fact, with the time of its last confirmation if it was loaded."""
    entry: Any = {**stored(fact), "description": ""}
    form: Any = canonical(entry)  # bytes, as an entry is no string
    digest = sha256(form).hexdigest()[:_DIGITS]
    return digest if fact.confirmed_at is None else f"{digest}-{stamp(fact.confirmed_at)}"


def is_version(wanted: str, fact: AnyFact) -> bool:
    """Return whether a fact has a version; that of a fact before its save has no time."""
    present = version_of(fact)
    return wanted in (present, present[:_DIGITS])


@dataclass(frozen=True, slots=True)
class PlacedFact(Displayed, Generic[F_co]):
    """A fact and its place."""

    place: Place
    fact: F_co

    @property
    def heard_at(self) -> datetime:
        """When its place last recorded it; when it was said if the provider does not know that."""
        return self.fact.confirmed_at or self.fact.timestamp

    @property
    def version(self) -> str:
        """A string that changes with each write of the fact: for `if_unchanged`, or as an ETag."""
        return version_of(self.fact)

    def _sheet(self) -> Sheet:
        rows = [("place", self.place), *fact_cells(self.fact).items()]
        return Sheet(type(self).__name__, ("field", "value"), rows)


@dataclass(frozen=True, slots=True)
class UnreadableConcept:
    """A concept with stored values that do not fit its type. The values stay stored."""

    place: Place
    keyword: str
    error: StoredFactError
    """The error of the first of these values."""
    count: int = 1
    """The number of values that do not fit."""


@dataclass(frozen=True, slots=True)
class Resolution(Generic[F_co]):
    """The resolved facts of several places, ordered by keyword, the most specific place first."""

    placed: list[PlacedFact[F_co]]
    unreadable: list[UnreadableConcept]
    """The concepts left out because a value could not be read."""

    @property
    def facts(self) -> list[F_co]:
        """The facts without their places."""
        return [placed.fact for placed in self.placed]


def resolve(
    found: Iterable[PlacedFact[F]], unreadable: Sequence[UnreadableConcept] = ()
) -> Resolution[F]:
    """Resolve the facts found in one place or several.

    An unreadable value hides less specific ones: if Alice's own value cannot be read, the value of
    her organisation is not returned instead.

    Facts of one keyword with different types are resolved in the type of the most specific place.
    The result does not depend on the order of places; the facts of a place keep their order.
    """
    by_keyword: dict[str, list[PlacedFact[F]]] = {}
    for placed in found:
        by_keyword.setdefault(placed.fact.concept.keyword, []).append(placed)
    hidden_from: dict[str, tuple[int, int]] = {}
    for each in unreadable:
        rank = _specificity(each.place)
        hidden_from[each.keyword] = min(rank, hidden_from.get(each.keyword, rank))
    holding: list[PlacedFact[F]] = []
    for keyword in sorted(by_keyword):
        holding += _of_concept(by_keyword[keyword], hidden_from.get(keyword))
    return Resolution(holding, sorted(unreadable, key=lambda u: (u.keyword, _name(u.place))))


def _of_concept(
    found: list[PlacedFact[F]], hidden_from: tuple[int, int] | None
) -> list[PlacedFact[F]]:
    if len(found) > 1:
        found.sort(key=_order)
    if found[0].fact.concept.fact_type is FactType.SINGLE:
        # Reversed, so that of equals in one place the last one wins, which is the newest.
        best = min(reversed(found), key=_single_order) if len(found) > 1 else found[0]
        is_hidden = hidden_from is not None and hidden_from <= _specificity(best.place)
        return [] if is_hidden else [best]
    if found[0].place is found[-1].place:
        return found
    return _united(found)


def _specificity(place: Place) -> tuple[int, int]:
    """Return the sort key of a place by how specific it is, the most specific first."""
    return place.subject.priority_level, _WIDTH[place.scope.type]


def _order(placed: PlacedFact[Any]) -> tuple[tuple[int, int], tuple[str, ...]]:
    return _specificity(placed.place), _name(placed.place)


def _name(place: Place) -> tuple[str, ...]:
    scope_type, scope, subject, entity = place.identity
    return scope_type, scope, subject, entity or ""


def _single_order(placed: PlacedFact[Any]) -> tuple[tuple[int, int], float, tuple[str, ...]]:
    age = -placed.heard_at.timestamp()
    return _specificity(placed.place), age, _name(placed.place)


def _united(found: list[PlacedFact[F]]) -> list[PlacedFact[F]]:
    """Return the facts, each value only in the most specific place that has it."""
    seen: set[Canonical] = set()
    united: list[PlacedFact[F]] = []
    for placed in found:
        fact: AnyFact = placed.fact
        new: list[object] = []
        for value in fact.values:
            key = _key(fact, value)
            if key not in seen:
                seen.add(key)
                new.append(value)
        if len(new) == len(fact.values):
            united.append(placed)
        elif new:
            united.append(PlacedFact(placed.place, _with_values(placed.fact, new)))
    return united


def _key(fact: AnyFact, value: object) -> Canonical:
    if type(value) is str:
        return value
    try:
        return canonical(fact.concept.codec.dump(value, fact.concept.keyword))
    except ValueError:  # a custom provider's value without a JSON form, equal to no other
        return f"{id(value)}".encode()


def _with_values(fact: F, values: list[object]) -> F:
    """Return a MULTIPLE fact with some of its values; never called with a SINGLE fact."""
    if isinstance(fact, MultipleFacts):
        fewer: Any = replace(fact, values=tuple(values))
        fact = fewer
    return fact


def resolve_entities(
    found: Sequence[PlacedFact[AnyFact]],
    unreadable: Sequence[UnreadableConcept],
    places: Iterable[Place],
) -> list[PlacedFact[AnyFact]]:
    """Return the facts that apply over several places, as seen from any of the entities.

    Args:
        found: The current facts of the places.
        unreadable: Their unreadable values, which hide less specific ones.
        places: All places, including those without facts.
    """
    apart = _entities_apart(places)
    if not apart:
        return resolve(found, unreadable).placed
    by_keyword: dict[str, list[PlacedFact[AnyFact]]] = {}
    for placed in found:
        by_keyword.setdefault(placed.fact.concept.keyword, []).append(placed)
    kept: list[PlacedFact[AnyFact]] = []
    for keyword, facts in by_keyword.items():
        hidden = [each for each in unreadable if each.keyword == keyword]
        kept += _of_entities(facts, hidden, apart)
    return kept


def seen_together(places: Iterable[Place]) -> Mapping[Identity, Sequence[Identity]]:
    """Return for each place those whose facts decide which of its facts apply."""
    places = list(places)
    apart = _entities_apart(places)
    everything = [place.identity for place in places]
    groups: dict[_Entity | None, list[Identity]] = {}
    for place in places:
        groups.setdefault(_among(apart, place), []).append(place.identity)
    shared = groups.get(None, [])
    return {
        identity: [each for each in (*shared, *own) if each != identity]
        if entity
        else [each for each in everything if each != identity]
        for entity, own in groups.items()
        for identity in own
    }


def _entities_apart(places: Iterable[Place]) -> set[_Entity]:
    """Return the entities of the subjects of which there are several here."""
    entities: dict[str, set[_Entity]] = {}
    for place in places:
        entities.setdefault(place.subject.name, set()).add(_entity(place))
    return {each for those in entities.values() if len(those) > 1 for each in those}


def _entity(place: Place) -> _Entity:
    return place.subject.name, place.subject.entity


def _among(apart: set[_Entity], place: Place) -> _Entity | None:
    """Return the entity of a place; None if all entities share the place."""
    entity = _entity(place)
    return entity if entity in apart else None


def _of_entities(
    facts: list[PlacedFact[AnyFact]], unreadable: list[UnreadableConcept], apart: set[_Entity]
) -> Iterable[PlacedFact[AnyFact]]:
    own: dict[_Entity | None, list[PlacedFact[AnyFact]]] = {}
    hidden: dict[_Entity | None, list[UnreadableConcept]] = {}
    for placed in facts:
        own.setdefault(_among(apart, placed.place), []).append(placed)
    for each in unreadable:
        hidden.setdefault(_among(apart, each.place), []).append(each)
    shared, hiding = own.pop(None, []), hidden.pop(None, [])
    # Resolved once for each entity with facts about the keyword, and once for all others.
    views = own.keys() | hidden.keys()
    kept: dict[tuple[Identity, str], PlacedFact[AnyFact]] = {}
    if len(views) < len(apart):  # an entity has no facts of its own about it
        _add(kept, resolve(shared, hiding).placed)
    for entity in views:
        theirs = resolve([*shared, *own.get(entity, ())], [*hiding, *hidden.get(entity, ())])
        _add(kept, theirs.placed)
    return kept.values()


def _add(
    kept: dict[tuple[Identity, str], PlacedFact[AnyFact]], more: Iterable[PlacedFact[AnyFact]]
) -> None:
    """Add facts; of a fact with different visible values, keep the version with the most."""
    for placed in more:
        key = placed.place.identity, placed.fact.id
        before = kept.get(key)
        if before is None or _size(before) < _size(placed):
            kept[key] = placed


def _size(placed: PlacedFact[Any]) -> int:
    return len(placed.fact.values)
