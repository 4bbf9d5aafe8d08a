"""Resolution of facts that several places have for one keyword."""

import itertools
from typing import Any

import pytest

from factmem.errors import StoredFactError
from factmem.ledger.resolution import PlacedFact, UnreadableConcept, resolve
from factmem.memory.agent_memory import AgentMemory
from factmem.models.facts import AnyFact, Concept, FactType, MultipleFacts
from factmem.models.places import MemoryScope, MemoryScopesProfile, MemoryScopeType, Place
from factmem.providers.in_memory import InMemoryProvider
from factmem.testing.clock import SettableClock
from tests.world import ALICE, COMPANY, DEVICE, THEME, theme

SUBJECTS = [ALICE, DEVICE, COMPANY]
PROFILE = MemoryScopesProfile("bot", "chat", "my-app", "acme")
SCOPES = PROFILE.scopes()
PLACES = [Place(scope, subject) for subject in SUBJECTS for scope in SCOPES]


def at(place: Place, fact: AnyFact) -> PlacedFact:
    return PlacedFact(place, fact)


def expected_winner(one: tuple[Place, int], other: tuple[Place, int]) -> Place:
    """Return the winner by the documented rule: subject, then scope, then age."""
    (a, heard_a), (b, heard_b) = one, other
    if SUBJECTS.index(a.subject) != SUBJECTS.index(b.subject):
        return a if SUBJECTS.index(a.subject) < SUBJECTS.index(b.subject) else b
    if SCOPES.index(a.scope) != SCOPES.index(b.scope):
        return a if SCOPES.index(a.scope) < SCOPES.index(b.scope) else b
    return a if heard_a > heard_b else b


TABLE = [
    (one, other, is_old)
    for one, other in itertools.permutations(PLACES, 2)
    for is_old in (False, True)
]
"""3 subjects x 4 scopes, each against each, with either one saved first."""


async def test_every_pair_of_places() -> None:
    """In 264 pairs the most specific place wins, whichever was saved last."""
    assert len(TABLE) == 12 * 11 * 2
    for one, other, is_old in TABLE:
        store = InMemoryProvider(clock=(clock := SettableClock()))
        memory = AgentMemory(store, scopes=PROFILE, subjects=SUBJECTS)
        order = [one, other] if is_old else [other, one]
        heard = {}
        for number, place in enumerate(order):
            clock.advance()
            heard[place.identity] = number
            await store.save(theme(str(place)), place.subject, place.scope)

        [fact] = await memory.current(THEME)

        winner = expected_winner((one, heard[one.identity]), (other, heard[other.identity]))
        assert fact.value == str(winner), (str(one), str(other), is_old)


async def test_the_last_confirmation_decides_between_two_places_of_one_rank() -> None:
    """In two products of one company, a repeated statement counts as newer."""
    store = InMemoryProvider(clock=(clock := SettableClock()))
    memory = AgentMemory(store, subjects=[ALICE])
    one, other = MemoryScope.Product("one"), MemoryScope.Product("other")
    for value, scope in (("first", one), ("second", other), ("first", one)):
        clock.advance()
        await store.save(theme(value), ALICE, scope)

    for scopes in ([one, other], [other, one]):
        [fact] = await memory.view(scopes=scopes).current(THEME)
        assert fact.value == "first"


def test_values_are_compared_by_their_json() -> None:
    concept = Concept("sizes", "Sizes", FactType.MULTIPLE, value_type=dict[str, int])
    one = MultipleFacts(concept, ({"a": 1, "b": 2},))
    other = MultipleFacts(concept, ({"b": 2, "a": 1}, {"a": 2}))

    resolved = resolve([at(PLACES[0], one), at(PLACES[1], other)])

    assert [fact.values for fact in resolved.facts] == [({"a": 1, "b": 2},), ({"a": 2},)]


def test_values_without_json_equal_no_other() -> None:
    """Only a user's own provider returns such values; rendering reports them."""
    concept = Concept("ratios", "Ratios", FactType.MULTIPLE, value_type=float)
    one, other = MultipleFacts(concept, (float("nan"),)), MultipleFacts(concept, (float("nan"),))

    assert len(resolve([at(PLACES[0], one), at(PLACES[1], other)]).facts) == 2


def test_the_most_specific_place_decides_between_one_value_and_many() -> None:
    """An application that changed a concept's type has both kinds stored."""
    many = Concept("ide-theme", "Themes", FactType.MULTIPLE)
    specific, general = PLACES[0], PLACES[5]

    one = resolve([at(general, MultipleFacts(many, ("a", "b"))), at(specific, theme("c"))])
    united = resolve([at(general, theme("c")), at(specific, MultipleFacts(many, ("a", "c")))])

    assert [fact.values for fact in one.facts] == [("c",)]
    assert [fact.values for fact in united.facts] == [("a", "c")]


def unreadable(place: Place, keyword: str = "ide-theme") -> UnreadableConcept:
    return UnreadableConcept(place, keyword, StoredFactError("does not fit"))


@pytest.mark.parametrize(("misfit", "values"), [(0, []), (5, ["c"]), (11, ["c"])])
def test_an_unreadable_value_hides_less_specific_ones(misfit: int, values: list[str]) -> None:
    """The company's value instead of Alice's own would be wrong."""
    resolved = resolve([at(PLACES[4], theme("c"))], [unreadable(PLACES[misfit])])

    assert [fact.values[0] for fact in resolved.facts] == values
    assert [each.place for each in resolved.unreadable] == [PLACES[misfit]]


def scope_types(profile: MemoryScopesProfile, *choices: Any) -> list[str]:
    return [str(scope) for scope in profile.scopes(choices or None)]


def test_a_profile_maps_types_to_scopes() -> None:
    """A type without a name is ignored on load and refused on save."""
    profile = MemoryScopesProfile(agent="bot", product="my-app")

    assert scope_types(profile) == ["agent/bot", "product/my-app"]
    assert scope_types(profile, MemoryScopeType.FEATURE) == []
    assert scope_types(profile, MemoryScopeType.PRODUCT, MemoryScope.Feature("x")) == [
        "product/my-app",
        "feature/x",
    ]
    assert profile.writable(MemoryScopeType.AGENT) == MemoryScope.Agent("bot")
    with pytest.raises(ValueError, match=r"'feature'.*MemoryScopesProfile\(feature=\.\.\.\)"):
        profile.writable(MemoryScopeType.FEATURE)
    with pytest.raises(ValueError, match="empty"):
        MemoryScopesProfile(agent=" ")
