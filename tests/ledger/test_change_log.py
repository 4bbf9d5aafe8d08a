"""The changes that a ledger returns, applied to the earlier facts, give the current ones."""

from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from factmem.ledger._items import Condition
from factmem.ledger.entries import Entry, StoredFact
from factmem.ledger.ledger import Ledger
from factmem.models.facts import AnyFact, Concept, FactType
from tests.properties import examples

KEYWORDS = ["a", "b"]
VALUES: list[str | int] = ["x", "y", "z", 1, 2]
TYPED: list[Concept[Any, Any]] = [
    Concept("a", "As the application says", FactType.MULTIPLE, value_type=str | int),
    Concept("a", "As the application says", value_type=str | int),
]


def at(minute: int) -> str:
    return f"2026-11-01T{minute // 60:02}:{minute % 60:02}:00.000000Z"


@st.composite
def stored_facts(draw: st.DrawFn) -> StoredFact:
    fact: StoredFact = {
        "id": draw(st.sampled_from(["i", "j", "k"])),
        "keyword": draw(st.sampled_from(KEYWORDS)),
        "description": draw(st.sampled_from(["", "", "", "other"])),
        "type": "MULTIPLE",
        "timestamp": at(0),
    }
    if draw(st.integers(0, 4)) == 0:
        fact["type"], fact["value"] = "SINGLE", draw(st.sampled_from(VALUES))
    else:
        fact["values"] = draw(st.lists(st.sampled_from(VALUES), min_size=1, max_size=3))
    if draw(st.booleans()):
        fact["expires_at"] = at(draw(st.integers(1, 12)))
    return fact


steps = st.one_of(
    st.lists(stored_facts(), min_size=1, max_size=2),
    st.lists(stored_facts(), min_size=1, max_size=2),
    st.builds(Condition, keyword=st.sampled_from(KEYWORDS), key=st.sampled_from(["x", "y", b"1"])),
    st.builds(Condition, keyword=st.sampled_from(KEYWORDS)),
    st.integers(1, 4),
)


def by_keyword(facts: Sequence[AnyFact]) -> dict[str, list[AnyFact]]:
    found: dict[str, list[AnyFact]] = {}
    for fact in facts:
        found.setdefault(fact.concept.keyword, []).append(fact)
    return found


def shown(found: dict[str, list[AnyFact]]) -> Any:
    """Return all fields of each fact: a confirmation is a change, though the fact stays equal."""
    return {key: [(type(f), f, f.confirmed_at) for f in facts] for key, facts in found.items()}


def follow(known: dict[str, list[AnyFact]], changes: dict[str, list[AnyFact | str]]) -> Any:
    followed = dict(known)
    for keyword, found in changes.items():
        before = {fact.id: fact for fact in known.get(keyword, [])}
        followed[keyword] = [before[each] if isinstance(each, str) else each for each in found]
        if not found:
            del followed[keyword]
    return followed


@settings(max_examples=examples(400))
@given(st.lists(st.tuples(steps, st.booleans()), max_size=16), st.sampled_from([[], *TYPED]))
def test_changes_turn_one_version_into_the_next(done: list[Any], typed: Any) -> None:
    """This holds after any mix of saves, confirmations, removals, new descriptions and expiry."""
    concepts = [typed] if isinstance(typed, Concept) else []
    ledger, minute = Ledger(), 0
    known, version = by_keyword(ledger.load_all(concepts, at(0))), ledger.version(at(0))
    for step, is_asked in done:
        entry: Entry = {"at": at(minute)}
        if isinstance(step, int):
            minute += step
        elif isinstance(step, Condition):
            ledger.apply({**entry, "forget": ledger.matching(step, at(minute))})
        else:
            ledger.apply({**entry, "facts": step})
        if is_asked:
            changes = ledger.changes(version, concepts, at(minute))
            assert changes is not None
            known, version = follow(known, changes), ledger.version(at(minute))
            assert shown(known) == shown(by_keyword(ledger.load_all(concepts, at(minute))))


def test_only_touched_facts_are_returned() -> None:
    """The others are returned as ids, in the order of their oldest values."""
    ledger = Ledger()
    saves = [("i", ["x"]), ("j", ["y"]), ("k", ["z"])]
    for name, values in saves:
        ledger.apply({"at": at(0), "facts": [fact(name, values)]})
    version = ledger.version(at(0))

    ledger.apply({"at": at(1), "facts": [fact("l", ["y", "w"])]})
    changes = ledger.changes(version, [], at(1))

    assert changes is not None
    assert [each if isinstance(each, str) else each.id for each in changes["a"]] == list("ijkl")
    assert [isinstance(each, str) for each in changes["a"]] == [True, False, True, False]
    assert ledger.changes(ledger.version(at(1)), [], at(1)) == {}


def test_a_fact_whose_expired_value_was_saved_by_another_is_returned() -> None:
    """The only trace of the expiry is the place that the value was in."""
    ledger = Ledger()
    ledger.apply({"at": at(0), "facts": [fact("i", ["x", "y"])]})
    ledger.apply({"at": at(1), "facts": [{**fact("k", ["x"]), "expires_at": at(5)}]})
    version = ledger.version(at(1))
    ledger.apply({"at": at(6), "facts": [fact("j", ["x"])]})

    changes = ledger.changes(version, [], at(6))

    assert changes is not None
    shown = [each if isinstance(each, str) else (each.id, each.values) for each in changes["a"]]
    assert shown == [("i", ("y",)), ("j", ("x",))]


def fact(name: str, values: list[Any]) -> StoredFact:
    return {
        "id": name,
        "keyword": "a",
        "description": "",
        "type": "MULTIPLE",
        "timestamp": at(0),
        "values": values,
    }


def test_unknown_versions_return_nothing() -> None:
    """The version is of another ledger, too old, or of a time in the future."""
    ledger = Ledger()
    ledger.apply({"at": at(0), "facts": [{**fact("i", ["x"]), "expires_at": at(5)}]})
    early, late = ledger.version(at(0)), ledger.version(at(9))

    assert ledger.changes("", [], at(9)) is None
    assert ledger.changes(Ledger().version(at(0)), [], at(9)) is None
    assert ledger.changes(late, [], at(0)) is None
    assert ledger.changes(early, [], at(9)) == {"a": []}
    for number in range(1024):
        ledger.apply({"at": at(0), "facts": [fact("j", [number])]})
    assert ledger.changes(early, [], at(9)) is not None
    ledger.apply({"at": at(0), "facts": [fact("j", ["more"])]})
    assert ledger.changes(early, [], at(9)) is None
