"""Resolution of facts when several entities are loaded together."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from factmem.errors import StoredFactError
from factmem.ledger.resolution import (
    PlacedFact,
    UnreadableConcept,
    resolve,
    resolve_entities,
    seen_together,
)
from factmem.models.places import MemoryScope, MemorySubject, Place
from tests.world import AGENT, ALICE, BOB, COMPANY, PRODUCT, USER, bare_note, bare_notes

ALICES, BOBS, COMPANYS = (Place(AGENT, each) for each in (ALICE, BOB, COMPANY))
EVERYBODY = [ALICES, BOBS, COMPANYS]


def shown(placed: list[PlacedFact[Any]]) -> set[tuple[str, Any]]:
    return {(each.place.subject.entity or "", v) for each in placed for v in each.fact.values}


def test_entities_do_not_compete() -> None:
    """Alice's home is not an older version of Bob's."""
    found = [
        PlacedFact(ALICES, bare_note("home", "Busan")),
        PlacedFact(BOBS, bare_note("home", "Seoul")),
    ]

    assert shown(resolve_entities(found, [], EVERYBODY)) == {("alice", "Busan"), ("bob", "Seoul")}


def test_a_shared_value_applies_to_those_without_their_own() -> None:
    """The company's language is overridden for Alice and applies to Bob."""
    found = [
        PlacedFact(ALICES, bare_note("language", "Kotlin")),
        PlacedFact(COMPANYS, bare_note("language", "Java")),
    ]

    assert shown(resolve_entities(found, [], EVERYBODY)) == {("alice", "Kotlin"), ("", "Java")}
    assert shown(resolve_entities(found, [], [ALICES, COMPANYS])) == {("alice", "Kotlin")}


def test_a_fact_that_every_place_overrides_is_not_found() -> None:
    """It is superseded for each of them."""
    found = [
        PlacedFact(ALICES, bare_note("language", "Kotlin")),
        PlacedFact(BOBS, bare_note("language", "Rust")),
        PlacedFact(COMPANYS, bare_note("language", "Java")),
    ]

    assert shown(resolve_entities(found, [], EVERYBODY)) == {("alice", "Kotlin"), ("bob", "Rust")}


def test_a_value_of_two_entities_is_found_for_both() -> None:
    """Within an entity it counts once, in the most specific place."""
    shared = PlacedFact(COMPANYS, bare_notes("pets", "cat", "dog"))
    found = [
        PlacedFact(ALICES, bare_notes("pets", "cat")),
        PlacedFact(BOBS, bare_notes("pets", "cat")),
        shared,
    ]

    assert shown(resolve_entities(found, [], EVERYBODY)) == {
        ("alice", "cat"),
        ("bob", "cat"),
        ("", "dog"),
    }


def test_entities_may_see_different_parts_of_a_fact() -> None:
    """Then it is returned as the widest view sees it."""
    found = [
        PlacedFact(ALICES, bare_notes("pets", "cat")),
        PlacedFact(COMPANYS, bare_notes("pets", "cat", "dog")),
    ]

    assert shown(resolve_entities(found, [], EVERYBODY)) == {
        ("alice", "cat"),
        ("", "cat"),
        ("", "dog"),
    }


def test_an_unreadable_value_hides_others_for_its_own_entity_only() -> None:
    """Alice's damaged value is not replaced by the company's; Bob sees the company's value."""
    found = [PlacedFact(COMPANYS, bare_note("language", "Java"))]
    broken = UnreadableConcept(ALICES, "language", StoredFactError("no such type"))

    assert shown(resolve_entities(found, [broken], [ALICES, COMPANYS])) == set()
    assert shown(resolve_entities(found, [broken], EVERYBODY)) == {("", "Java")}


subjects = [COMPANY, MemorySubject("device", "", 2), ALICE]
scopes = [AGENT, PRODUCT, MemoryScope.CrossProduct()]
found_facts = st.lists(
    st.tuples(
        st.sampled_from(subjects),
        st.sampled_from(scopes),
        st.sampled_from(["a", "b"]),
        st.sampled_from(["x", "y", "z"]),
        st.booleans(),
    ),
    max_size=12,
)


@given(found_facts)
def test_one_entity_gives_the_same_result_as_resolution(rows: list[Any]) -> None:
    """The facts and their order are equal, for any input order."""
    found: list[Any] = [
        PlacedFact(
            Place(scope, subject), bare_note(key, value) if single else bare_notes(key, value)
        )
        for subject, scope, key, value, single in rows
    ]
    places = [Place(scope, subject) for scope in scopes for subject in subjects]

    held = resolve_entities(found, [], places)

    assert shown(held) == shown(resolve(found).placed)


def test_the_places_of_many_users_are_grouped_in_linear_time() -> None:
    """Each was compared with each: a question over 3,000 users took a minute."""
    users = [Place(AGENT, USER.of(f"u{number}")) for number in range(30_000)]
    shared = Place(AGENT, MemorySubject.EVERYTHING)

    together = seen_together([shared, *users])

    assert together[users[7].identity] == [shared.identity]
    assert len(together[shared.identity]) == len(users)
