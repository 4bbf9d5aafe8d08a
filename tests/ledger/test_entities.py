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
from tests.tables import table
from tests.world import AGENT, ALICE, BOB, COMPANY, PRODUCT, USER, bare_note, bare_notes

ALICES, BOBS, COMPANYS = (Place(AGENT, each) for each in (ALICE, BOB, COMPANY))
EVERYBODY = [ALICES, BOBS, COMPANYS]


def shown(placed: list[PlacedFact[Any]]) -> set[tuple[str, Any]]:
    return {(each.place.subject.entity or "", v) for each in placed for v in each.fact.values}


def of(place: Place, keyword: str, *values: str) -> PlacedFact[Any]:
    make = bare_notes if keyword == "pets" else bare_note
    return PlacedFact(place, make(keyword, *values))


KOTLIN, RUST = of(ALICES, "language", "Kotlin"), of(BOBS, "language", "Rust")
JAVA = of(COMPANYS, "language", "Java")
CATS = [of(ALICES, "pets", "cat"), of(COMPANYS, "pets", "cat", "dog")]


@table(
    ("found", "places", "expected"),
    [
        # Alice's home is not an older version of Bob's.
        (
            [of(ALICES, "home", "Busan"), of(BOBS, "home", "Seoul")],
            EVERYBODY,
            {("alice", "Busan"), ("bob", "Seoul")},
        ),
        # A shared value applies to those without their own.
        ([KOTLIN, JAVA], EVERYBODY, {("alice", "Kotlin"), ("", "Java")}),
        ([KOTLIN, JAVA], [ALICES, COMPANYS], {("alice", "Kotlin")}),
        # What every place overrides is superseded for each of them.
        ([KOTLIN, RUST, JAVA], EVERYBODY, {("alice", "Kotlin"), ("bob", "Rust")}),
        # Within an entity a value counts once, in the most specific place.
        (
            [*CATS, of(BOBS, "pets", "cat")],
            EVERYBODY,
            {("alice", "cat"), ("bob", "cat"), ("", "dog")},
        ),
        # A fact of which they see different parts is that of the widest view.
        (CATS, EVERYBODY, {("alice", "cat"), ("", "cat"), ("", "dog")}),
    ],
)
def test_each_entity_sees_its_own_values_and_the_shared_ones(
    found: list[PlacedFact[Any]], places: list[Place], expected: set[tuple[str, Any]]
) -> None:
    """Entities that are loaded together do not compete."""
    assert shown(resolve_entities(found, [], places)) == expected


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
