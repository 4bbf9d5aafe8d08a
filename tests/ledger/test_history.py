"""History: listing it, and removing it without changing current facts."""

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from factmem.ledger._items import Condition, digest_of
from factmem.ledger._purging import purged
from factmem.ledger._removal import compacted
from factmem.ledger._trace import Life, Trace
from factmem.ledger.entries import Entry, encoded_entry
from factmem.ledger.history import Histories, history
from factmem.ledger.ledger import Ledger
from factmem.models.facts import Concept, FactType, MultipleFacts, SingleFact
from factmem.providers.store import FactStore
from factmem.testing.clock import SettableClock
from tests.ledgers import (
    Step,
    conditions,
    entries_of,
    entry,
    forgotten,
    ledgers,
    moments,
    names,
    saved,
    searched,
    seconds,
    shown,
    stamp,
)
from tests.world import AGENT, ALICE, KINDS, store_of


def views(entries: list[Entry], moments: list[str]) -> list[Any]:
    """Return all that can be read of a ledger at some times, with the names of the items."""
    found: list[Any] = []
    for then in moments:
        ledger = Ledger(entries, until=then)
        found.append((shown(ledger, then), names(ledger, then)))
    return found


def left(entries: list[Entry | None]) -> list[Entry]:
    """Return the remaining entries."""
    return [each for each in entries if each is not None]


@searched
@given(ledgers(), seconds)
def test_compaction_removes_all_history_before_the_cutoff(steps: list[Step], second: int) -> None:
    """Only what waits, or was decided by a person, may need more: then it keeps its history."""
    cutoff = stamp(second)
    entries = entries_of(steps)

    decided = {each["keyword"] for step in entries for each in step.get("retract", ())}
    decided |= {
        fact["keyword"]
        for step in entries
        for fact in step.get("facts", ())
        if "proposed" in fact or "stated" in fact
    }

    def lives(each: list[Entry]) -> list[Life]:
        return [life for life in Trace(each).lives if life.keyword not in decided]

    after = lives(left(compacted(entries, cutoff)))
    assert not [life for life in after if life.is_dead(cutoff)]
    assert len(after) == len([life for life in lives(entries) if not life.is_dead(cutoff)])


@searched
@given(ledgers(), seconds, seconds)
def test_compaction_can_be_repeated(steps: list[Step], first: int, second: int) -> None:
    """It changes no read and comes to an end, where unchanged entries are the same objects.

    The stub of a save that has decided a proposal may go in the second of two compactions with one
    cutoff.
    """
    entries, cutoff = entries_of(steps), stamp(max(first, second))
    once = left(compacted(entries, stamp(min(first, second))))
    twice = left(compacted(once, cutoff))
    again = left(compacted(twice, cutoff))

    assert all(new is old for new, old in zip(compacted(again, cutoff), again, strict=True))
    times = moments(entries, since=cutoff)
    assert views(twice, times) == views(again, times) == views(entries, times)


@searched
@given(ledgers(), ledgers())
def test_a_compacted_ledger_behaves_the_same(steps: list[Step], later: list[Step]) -> None:
    """Later saves and removals have the same effect, if they were said later."""
    entries = entries_of(steps)
    for said in (said for each in entries for said in each.get("retract", ())):
        said.pop("confirmed", None)  # the save that takes back a rejection may be compacted
    end = Ledger(entries).recorded_at
    rest = left(compacted(entries, end))

    for each in (entries, rest):
        ledger = Ledger(each)
        for number, step in enumerate(later):
            entry = step.entry.copy()
            entry["at"] = at = stamp(91 + number)
            facts: list[Any] = [
                {**fact, "timestamp": at, "id": f"{fact['id']}-{number}"}
                for fact in entry.get("facts", ())
            ]
            ended: list[Any] = [{**one, "timestamp": at} for one in entry.get("retract", ())]
            entry["facts"], entry["retract"] = facts, ended
            if step.condition is not None:
                entry["forget"] = ledger.matching(step.condition, entry["at"])
            ledger.apply(entry)
            each.append(entry)

    times = moments(entries, since=end)
    assert [view[0] for view in views(rest, times)] == [view[0] for view in views(entries, times)]


@searched
@given(ledgers(), conditions(), seconds)
def test_purging_removes_only_matching_values(
    steps: list[Step], condition: Condition, second: int
) -> None:
    """Current facts stay; each earlier state is the same without the purged values."""
    entries = entries_of(steps)
    now = max(stamp(second), Ledger(entries).recorded_at)
    before = Trace(entries)
    dead = [life for life in before.lives if life.is_dead(now)]
    keys = {
        (life.keyword, life.key)
        for life in dead
        if condition.is_met_by(life.keyword, life.key, life.item)
    }
    gone = {life.item.number for life in dead if (life.keyword, life.key) in keys}

    rest = left(purged(entries, condition, now).entries)

    assert (shown(Ledger(rest), now), names(Ledger(rest), now)) == (
        shown(Ledger(entries), now),
        names(Ledger(entries), now),
    )
    for then in moments(entries):
        past = _numbered(Ledger(entries, until=then), then)
        kept = [each for number, each in past if number not in gone]
        found = [each for _, each in _numbered(Ledger(rest, until=then), then)]
        assert sorted(found, key=str) == sorted(kept, key=str)


def _numbered(ledger: Ledger, now: str) -> list[tuple[int, Any]]:
    """Return each current item with its number, which both folds of a ledger share."""
    return [
        (item.number, (keyword, item.value, item.fact_id, item.timestamp, item.confirmed_at))
        for keyword, topic in ledger._by_keyword.items()
        for item in topic.items.values()
        if item.is_alive(now)
    ]


tokens = st.sampled_from([f"token-{letter}" for letter in "abcdef"])


@st.composite
def secrets(draw: st.DrawFn) -> list[Entry]:
    """Draw a ledger of strings that can be found in its bytes, quoted in their sources."""
    entries: list[Entry] = []
    ledger = Ledger()
    for second in range(draw(st.integers(1, 8))):
        if draw(st.integers(0, 3)):
            values = draw(st.lists(tokens, min_size=1, max_size=3, unique=True))
            kind = draw(st.sampled_from(["SINGLE", "MULTIPLE"]))
            keyword = draw(st.sampled_from("jk"))
            values = values[:1] if kind == "SINGLE" else values
            quote = {"kind": "user", "quote": f"I said {values}"}
            fact = saved(*values, fact_id=f"f{second}", kind=kind, keyword=keyword, source=quote)
            entries.append(entry(second, fact))
        else:
            condition = Condition("k", draw(tokens))
            gone = ledger.matching(condition, stamp(second))
            entries.append({"at": stamp(second), "forget": gone})
        ledger.apply(entries[-1])
    return entries


@searched
@given(secrets(), tokens)
def test_no_byte_of_a_purged_value_remains(entries: list[Entry], token: str) -> None:
    """Exceptions are quotes of current values, and other keywords."""
    now = stamp(99)
    gone = Ledger(entries).matching(Condition("k", token), now)
    entries.append({"at": stamp(50), "forget": gone})

    rest = left(purged(entries, Condition("k", token), now).entries)

    for save in (save for saves in Trace(rest).saved for save in saves):
        fact = save.fact
        if fact["keyword"] == "k":
            assert token not in [fact.get("value"), *fact.get("values", [])]
            if all(value.life.is_dead(now) for value in save.values):
                assert token.encode() not in encoded_entry(entry(0, fact))


def test_a_purge_removes_the_messages_before_later_quotes() -> None:
    """They may contain the purged words; earlier messages and other conversations do not."""

    def said(value: str, keyword: str, **source: Any) -> Any:
        given: Any = {"kind": "user", "before": f"before {value}", **source}
        return saved(value, fact_id=value, keyword=keyword, kind="SINGLE", source=given)

    secret = said("pin", "k", conversation="chat", message=4, quote="it is 1234")
    kept = [
        said("a", "x", conversation="chat", message=3),
        said("b", "y", conversation="other", message=5),
        said("c", "z"),
    ]
    stripped = [
        said("d", "u", conversation="chat", message=5, quote="miso"),
        said("e", "v", conversation="chat"),
    ]
    entries: list[Entry] = [
        entry(1, secret, *kept, *stripped),
        {"at": stamp(2), "forget": [forgotten("pin", "pin")]},
    ]

    rest = left(purged(entries, Condition("k", "pin"), stamp(3)).entries)

    stub, *left_over = rest[0]["facts"]
    assert "value" not in stub
    assert left_over[:3] == kept
    assert [fact["source"].get("before") for fact in left_over] == [
        *("before a", "before b", "before c", None, None)
    ]
    assert left_over[3]["source"]["quote"] == "miso"


def test_no_cutoff_keeps_all_history() -> None:
    """This is a store's default."""
    entries = [entry(1, saved("a", kind="SINGLE")), entry(2, saved("b", kind="SINGLE"))]

    rest = compacted(entries, None)

    assert all(new is old for new, old in zip(rest, entries, strict=True))


def test_remaining_parts_of_entries() -> None:
    """A stub keeps the description, and forgettings stay."""
    later: Any = {"at": stamp(4), "link": "kept as it is"}
    entries: list[Entry] = [
        entry(1, saved("a", "b", "c"), saved("x", keyword="other", fact_id="three")),
        entry(2, saved("d", fact_id="two", description="Newer")),
        {"at": stamp(3), "forget": [forgotten("a"), forgotten("d", "two")]},
        later,
        {"at": stamp(5), "forget": [forgotten("c"), forgotten("x", "three", "other")]},
    ]

    rest = compacted(entries, stamp(4))

    assert rest == [
        entry(1, saved("b", "c"), saved("x", keyword="other", fact_id="three")),
        entry(2, saved(fact_id="two", description="Newer")),
        entries[2],
        later,
        entries[4],
    ]
    assert rest[3] is later
    assert rest[4] is entries[4]


def test_a_purged_save_leaves_a_stub() -> None:
    """It goes to the copies of the place with an export, so a compaction keeps it."""
    entries: list[Entry] = [
        entry(1, saved("a", kind="SINGLE", importance=0.9)),
        entry(2, saved("b", kind="SINGLE", fact_id="two", importance=0.9)),
        {"at": stamp(3), "forget": [forgotten("b", "two")]},
    ]

    rest = purged(entries, Condition("k", "b"), stamp(3)).entries

    stub = entry(2, saved(kind="SINGLE", fact_id="two", purged=stamp(3)))
    gone: Entry = {"at": stamp(3), "forget": [("k", "two", "")]}
    assert rest == [entries[0], stub, gone]
    assert compacted(left(rest), stamp(3)) == [None, stub, gone]


def test_a_purge_of_another_save_keeps_the_end_of_a_value() -> None:
    """The retraction that ended the value has no part in the save that is purged."""
    retraction: Entry = {
        "at": stamp(20),
        "retract": [{"keyword": "k", "timestamp": stamp(20), "digest": digest_of("dark")}],
    }
    later = saved("dark", fact_id="three", timestamp=stamp(30))
    entries = [entry(10, saved("dark")), retraction, entry(30, later)]
    condition = Condition(keyword="k", key="dark", fact_ids=frozenset(["two"]))

    assert purged(entries, condition, stamp(40)).entries == entries

    whole = left(purged(entries, Condition(keyword="k", key="dark"), stamp(40)).entries)
    assert [shown(Ledger(whole, until=stamp(at)), stamp(at)) for at in (15, 25)] == [[], []]
    assert shown(Ledger(whole), stamp(40)) == shown(Ledger(entries), stamp(40))


def test_a_purge_that_no_save_meets_keeps_the_end_of_a_value() -> None:
    """Without the digest of its forgetting, the forgotten value would be current again."""
    forgetting: Entry = {"at": stamp(20), "forget": [forgotten("dark")]}
    late = entry(30, saved("dark", fact_id="late", timestamp=stamp(15)))
    entries = [entry(10, saved("dark")), forgetting, late]
    condition = Condition(keyword="k", key="dark", older_than=stamp(1))

    assert purged(entries, condition, stamp(40)).entries == entries


TOPICS: list[Any] = [
    Concept(f"k{n}", "", FactType.MULTIPLE if n % 2 else FactType.SINGLE) for n in range(6)
]


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Any) -> FactStore:
    """Return a store of each kind that needs no server."""
    return store_of(request.param, tmp_path, SettableClock())


@pytest.mark.parametrize("seed", range(4))
async def test_they_are_those_of_all_entries(store: FactStore, seed: int) -> None:
    """Random saves of several concepts, also under shared ids, forgettings and retractions."""
    random = Random(seed)
    for step in range(30):
        facts: list[Any] = []
        for concept in random.sample(TOPICS, random.randint(1, 3)):
            fact_id = f"id{random.randint(0, 3)}" if random.random() < 0.3 else f"{step}"
            value = f"v{random.randint(0, 5)}"
            if concept.fact_type is FactType.SINGLE:
                facts.append(SingleFact(concept, value, id=fact_id))
            else:
                facts.append(MultipleFacts(concept, [value], id=fact_id))
        await store.save_many(facts, ALICE, AGENT)
        if random.random() < 0.3:
            await store.forget(ALICE, AGENT, concept=random.choice(TOPICS))
    entries = await store.entries(ALICE, AGENT)

    split = Histories(entries)

    asked: list[Any] = [
        *TOPICS,
        Concept("k1", "", FactType.MULTIPLE, was=["k3"]),
        Concept("none", ""),
    ]
    for concept in (*asked, *reversed(asked)):
        assert split.of(concept) == history(entries, concept)
        assert await store.history(concept, ALICE, AGENT) == history(entries, concept)


async def test_a_series_sees_what_changes(store: FactStore) -> None:
    """Saves, forgettings, purges and erasures between two histories, and no change of a caller."""
    one, two = Concept("one", ""), Concept("two", "", value_type=list[str])
    three: Concept[Any, Any] = Concept("three", "", value_type=JsonValue)
    await store.save(SingleFact(three, {"a": [1]}), ALICE, AGENT)
    await store.save(SingleFact(one, "secret"), ALICE, AGENT)
    await store.save(SingleFact(two, ["x"]), ALICE, AGENT)

    async def values(concept: Concept[Any, Any]) -> list[Any]:
        found = await store.history(concept, ALICE, AGENT)
        return [entry.fact.values[0] for entry in found if entry.fact is not None]

    for _ in range(2):
        assert (await values(one), await values(two)) == (["secret"], [["x"]])
    (await values(two))[0].append("changed")
    (await values(three))[0]["a"].append("changed")
    assert await values(three) == [{"a": [1]}]
    (await store.history(two, ALICE, AGENT)).clear()
    assert await values(two) == [["x"]]
    await store.save(SingleFact(one, "later"), ALICE, AGENT)
    assert await values(one) == ["secret", "later"]
    await store.forget(ALICE, AGENT, concept=one, purge=True)
    assert await values(one) == []
    await store.erase(ALICE, AGENT)
    assert await values(one) == await values(two) == []
