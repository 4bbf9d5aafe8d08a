"""What holds where facts of several entities are looked at together: pure.

Of one entity, "home-city" has one value: the most specific place gives it. Alice's and Bob's do not
compete. So what holds is what holds as seen from each entity: in its own places and in those that
it shares with the others.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from factmem.models import AnyFact, Identity, Place
from factmem.resolution import PlacedFact, UnreadableConcept, resolve

__all__ = ["holding", "seen_together"]

_Entity: TypeAlias = tuple[str, str | None]
_Placed: TypeAlias = PlacedFact[AnyFact]


def holding(
    found: Sequence[_Placed], unreadable: Sequence[UnreadableConcept], places: Iterable[Place]
) -> list[_Placed]:
    """Return what holds over several places, as seen from any of the entities.

    Args:
        found: What is current in the places.
        unreadable: What of it could not be read: it hides what is less specific.
        places: All of the places, those without facts too.
    """
    apart = _entities_apart(places)
    if not apart:
        return resolve(found, unreadable).placed
    by_keyword: dict[str, list[_Placed]] = {}
    for placed in found:
        by_keyword.setdefault(placed.fact.concept.keyword, []).append(placed)
    kept: list[_Placed] = []
    for keyword, facts in by_keyword.items():
        hidden = [each for each in unreadable if each.keyword == keyword]
        kept += _of_concept(facts, hidden, apart)
    return kept


def seen_together(places: Iterable[Place]) -> Mapping[Identity, Sequence[Identity]]:
    """Return for each place the others on which it depends what holds of its facts."""
    places = list(places)
    apart = _entities_apart(places)
    return {
        place.identity: [
            other.identity
            for other in places
            if other.identity != place.identity
            and (None in (ours, theirs := _among(apart, other)) or ours == theirs)
        ]
        for place in places
        for ours in [_among(apart, place)]
    }


def _entities_apart(places: Iterable[Place]) -> set[_Entity]:
    """Return the entities of the subjects that have more than one of them here."""
    entities: dict[str, set[_Entity]] = {}
    for place in places:
        entities.setdefault(place.subject.name, set()).add(_entity(place))
    return {each for those in entities.values() if len(those) > 1 for each in those}


def _entity(place: Place) -> _Entity:
    return place.subject.name, place.subject.entity


def _among(apart: set[_Entity], place: Place) -> _Entity | None:
    """Return the entity that a place is about; None where it is about what all of them share."""
    entity = _entity(place)
    return entity if entity in apart else None


def _of_concept(
    facts: list[_Placed], unreadable: list[UnreadableConcept], apart: set[_Entity]
) -> Iterable[_Placed]:
    own: dict[_Entity | None, list[_Placed]] = {}
    hidden: dict[_Entity | None, list[UnreadableConcept]] = {}
    for placed in facts:
        own.setdefault(_among(apart, placed.place), []).append(placed)
    for each in unreadable:
        hidden.setdefault(_among(apart, each.place), []).append(each)
    shared, hiding = own.pop(None, []), hidden.pop(None, [])
    views = own.keys() | hidden.keys()
    kept: dict[tuple[Identity, str], _Placed] = {}
    if len(views) < len(apart):  # somebody has nothing of his own about it
        _add(kept, resolve(shared, hiding).placed)
    for entity in views:
        theirs = resolve([*shared, *own.get(entity, ())], [*hiding, *hidden.get(entity, ())])
        _add(kept, theirs.placed)
    return kept.values()


def _add(kept: dict[tuple[Identity, str], _Placed], more: Iterable[_Placed]) -> None:
    """Take in facts; of one that some see less of, what is seen of it most."""
    for placed in more:
        key = placed.place.identity, placed.fact.id
        before = kept.get(key)
        if before is None or _size(before) < _size(placed):
            kept[key] = placed


def _size(placed: PlacedFact[Any]) -> int:
    return len(placed.fact.values)
