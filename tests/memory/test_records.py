"""Records by id, and maintenance over years, on every store: plain, encrypted, in memory."""

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any
from unicodedata import normalize

import pytest

from factmem.errors import ChangedError, MemoryAccessError
from factmem.ledger.history import HistoryAction
from factmem.memory.agent_memory import AgentMemory
from factmem.models.facts import AnyFact, Concept, FactSource, MultipleFacts, SingleFact, SourceKind
from factmem.models.places import Place
from factmem.providers.in_memory import InMemoryProvider
from factmem.providers.store import FactStore
from factmem.testing.clock import START, SettableClock
from tests.world import (
    AGE,
    AGENT,
    ALICE,
    BOB,
    LANGUAGES,
    PRODUCT,
    THEME,
    USER,
    languages,
    memory_of,
    theme,
)

TEXT_AGE = Concept("age", "The user's age in years")


async def test_a_record_is_found_by_its_id_only_inside_the_view(
    store: FactStore, memory: AgentMemory
) -> None:
    """Ids of other users are unknown."""
    fact = theme("dark")
    await store.save(fact, BOB, PRODUCT)

    placed = await memory.contents.get(fact.id)
    alice = memory.view(subjects=[ALICE])

    assert placed is not None
    assert (placed.fact.values, placed.place.subject.entity) == (("dark",), "bob")
    assert await alice.contents.get(fact.id) is None
    assert await alice.contents.history(fact.id) == []
    assert await alice.contents.delete(fact.id) == 0
    assert await alice.contents.update(fact.id, value="light") is None
    with pytest.raises(ChangedError):
        await alice.contents.update(fact.id, value="light", if_unchanged="0" * 32)
    assert await store.load(THEME, BOB, PRODUCT) == [fact]


async def test_an_update_keeps_the_id_and_its_history(
    store: FactStore, memory: AgentMemory, clock: SettableClock
) -> None:
    """Each update adds an entry; the deletion is the last one."""
    fact = theme("dark", metadata={"form": "1"})
    await store.save(fact, ALICE, AGENT)
    clock.advance(timedelta(hours=1))
    updated = await memory.contents.update(fact.id, value="light")
    clock.advance(timedelta(hours=1))
    await memory.contents.update(fact.id, metadata={}, importance=0.9)

    (now,) = await store.load(THEME, ALICE, AGENT)
    assert updated is not None
    assert (updated.fact.id, updated.fact.values) == (fact.id, ("light",))
    assert updated.fact.metadata == {"form": "1"}
    assert (now.value, now.metadata, now.importance) == ("light", {}, 0.9)
    assert now.timestamp == START + timedelta(hours=1)
    assert len(await store.entries(ALICE, AGENT)) == 3
    (then,) = await store.load(THEME, ALICE, AGENT, as_of=START)
    assert then.value == "dark"

    assert await memory.contents.delete(fact.id) == 1
    assert await memory.contents.get(fact.id) is None
    assert await memory.contents.update(fact.id, value="red") is None
    assert [each.action for each in await memory.contents.history(fact.id)] == [
        HistoryAction.SAVED,
        HistoryAction.SAVED,
        HistoryAction.CONFIRMED,
        HistoryAction.FORGOTTEN,
    ]


async def test_a_record_s_history_has_the_types_of_the_memory(store: FactStore) -> None:
    """Values of an older type are read as the current ones are."""
    await store.save(SingleFact(Concept("years", "Age"), "36 years"), ALICE, AGENT)
    age = Concept(
        "age", "Age", value_type=int, was=["years"], read=lambda text: int(text.split()[0])
    )
    typed = memory_of(store, concepts=[age])

    (fact,) = await typed.current(age)
    (saved,) = await typed.contents.history(fact.id)

    assert getattr(await typed.contents.get(fact.id), "fact", None) == fact
    assert (fact.value, saved.fact and saved.fact.values) == (36, (36,))


async def test_an_update_of_many_values_is_one_step(
    store: FactStore, memory: AgentMemory, clock: SettableClock
) -> None:
    """Other values keep their date, and other facts of the concept do not change."""
    first, other = languages("en", "ko", "fr"), languages("de")
    await store.save(first, ALICE, AGENT)
    await store.save(other, ALICE, AGENT)

    updated = await memory.contents.update(first.id, values=["ko", "ja"])

    assert updated is not None
    assert sorted(updated.fact.values) == ["ja", "ko"]
    assert await memory.contents.get(other.id) is not None
    assert len(await store.entries(ALICE, AGENT)) == 3
    clock.advance()
    again = await memory.contents.update(first.id, values=["en"])
    assert again is not None
    assert again.fact.values == ("en",)


@pytest.mark.parametrize(
    "fields", [{}, {"values": ["light"]}, {"value": 7}, {"importance": 2}, {"metadata": {"a": {1}}}]
)
async def test_wrong_updates_change_nothing(
    store: FactStore, memory: AgentMemory, fields: dict[str, Any]
) -> None:
    """The error names the field, never a value."""
    fact = theme("dark secret")
    await store.save(fact, ALICE, AGENT)

    with pytest.raises(ValueError, match=r"update|IDE|ide-theme|importance|metadata") as error:
        await memory.contents.update(fact.id, **fields)

    assert "secret" not in str(error.value)
    assert len(await store.entries(ALICE, AGENT)) == 1


async def test_records_and_forgetting_by_metadata_and_concepts(
    store: FactStore, memory: AgentMemory
) -> None:
    """The filters can be combined; metadata are in no prompt and no event."""
    events: list[object] = []
    memory = memory_of(store, listeners=[events.append])
    await store.save(theme("dark", metadata={"ticket": "T-77"}), ALICE, AGENT)
    await store.save(languages("en", metadata={"ticket": "T-77"}), ALICE, AGENT)
    await store.save(languages("ko"), ALICE, AGENT)
    contents = memory.contents

    found = await contents.records(metadata={"ticket": "T-77"}, concepts=[LANGUAGES])
    chat: list[dict[str, Any]] = []
    await memory.load_facts_to_agent(chat)

    assert [each.fact.values for each in found] == [("en",)]
    assert "T-77" not in str(chat)
    assert "T-77" not in str(events)
    assert await contents.forget(metadata={"ticket": "T-77"}, concepts=[LANGUAGES, THEME]) == 2
    assert [each.fact.values for each in await contents.records()] == [("ko",)]


async def test_resetting_everything_needs_two_confirmations(
    store: FactStore, memory: AgentMemory
) -> None:
    """A memory that is not a view is cleared only with both arguments."""
    await store.save(theme("dark"), BOB, AGENT)

    with pytest.raises(ValueError, match="everything=True"):
        await memory.contents.reset(confirm=True)
    assert (await memory.contents.reset(everything=True)).count == 1
    assert len(await store.places()) == 1
    await memory.contents.reset(confirm=True, everything=True)
    assert await store.places() == []


async def test_maintenance_removes_expired_values_and_old_history(
    store: FactStore, memory: AgentMemory, clock: SettableClock
) -> None:
    """Current facts and the recent past read as before."""
    await store.save(theme("old"), ALICE, AGENT)
    clock.advance(timedelta(days=30))
    await store.save(theme("young"), ALICE, AGENT)
    await store.save(languages("soon gone", expires_at=clock() + timedelta(hours=1)), ALICE, AGENT)
    clock.advance(timedelta(days=1))
    await store.save(theme("now"), ALICE, AGENT)

    await memory.contents.tidy()
    after_expired = json.dumps(await store.entries(ALICE, AGENT))
    assert (await memory.contents.tidy(history_older_than=timedelta.max)).places == []

    report = await memory.contents.tidy(history_older_than=timedelta(hours=12))
    left = json.dumps(await store.entries(ALICE, AGENT))

    assert "soon gone" not in after_expired
    assert "old" in after_expired
    assert '"old"' not in left
    assert "young" in left
    assert report.entries > 0
    assert [fact.value for fact in await store.load(THEME, ALICE, AGENT)] == ["now"]
    assert (await memory.contents.tidy(history_older_than=timedelta(hours=12))).places == []


async def test_moving_a_guest_to_an_account(
    store: FactStore, memory: AgentMemory, clock: SettableClock
) -> None:
    """The history moves too; repeating a move that was killed before the erasure completes it."""
    guest, account = Place(AGENT, USER.of("guest-1")), Place(AGENT, ALICE)
    dark, fact = theme("dark"), theme("light")
    await store.save(dark, guest.subject, AGENT)
    clock.advance(timedelta(hours=1))
    await store.save(fact, guest.subject, AGENT)
    entries = await store.entries(guest.subject, AGENT)
    await store.replay(entries, ALICE, AGENT)  # killed here

    report = await memory.contents.move(guest, account)

    assert report.entries == 0
    assert await store.load(THEME, ALICE, AGENT) == [fact]
    assert [each.value for each in await store.load(THEME, ALICE, AGENT, as_of=START)] == ["dark"]
    assert [str(info.place) for info in await store.places()] == [str(account)]
    again = await memory.contents.move(guest, account)
    assert (again.entries, again.receipt.count) == (0, 0)
    with pytest.raises(MemoryAccessError):
        await memory.view(subjects=[ALICE]).contents.move(account, guest)


async def test_changing_the_type_of_a_concept(store: FactStore, memory: AgentMemory) -> None:
    """A dry run counts; one unconvertible value leaves its place unchanged."""
    bad = SingleFact(TEXT_AGE, "thirty")
    for text, who in [("36", ALICE), ("37", ALICE), ("52", BOB)]:
        await store.save(SingleFact(TEXT_AGE, text), who, AGENT)
    await store.save(bad, USER.of("carol"), AGENT)

    dry = await memory.contents.convert(AGE, int, operation="ages", dry_run=True)
    assert [each.value for each in await store.load(TEXT_AGE, ALICE, AGENT)] == ["37"]
    done = await memory.contents.convert(AGE, int, operation="ages")

    assert dry == replace(done, is_dry_run=True)
    assert (done.values, len(done.places)) == (3, 2)
    assert [each.failed for each in done.refused] == [(bad.id,)]
    assert (await memory.contents.convert(AGE, int, operation="ages")).values == 0
    assert "thirty" not in repr(done)
    assert [each.value for each in await store.load(AGE, ALICE, AGENT)] == [37]
    assert [
        entry.fact.values
        for entry in await store.history(AGE, ALICE, AGENT)
        if entry.fact is not None
    ] == [(36,), (37,)]
    assert await store.load(TEXT_AGE, USER.of("carol"), AGENT) == [bad]


async def test_the_export_of_a_user_is_complete_and_has_no_other_user(
    store: FactStore, memory: AgentMemory
) -> None:
    """It is plain JSON with values, history and metadata."""
    await store.save(theme("dark", metadata={"form": "settings"}), ALICE, AGENT)
    await store.save(theme("light"), ALICE, AGENT)
    await store.save(theme("hers alone"), BOB, AGENT)

    text = json.dumps(await memory.view(subjects=[ALICE]).contents.export())

    for held in ("dark", "light", "settings", "alice", "agent/support-bot"):
        assert held in text
    assert "hers alone" not in text


async def test_a_listing_shows_if_more_follow() -> None:
    """Fifty are not all."""
    memory = memory_of(InMemoryProvider())
    await memory.store.save(MultipleFacts(LANGUAGES, ["a"]), ALICE, AGENT)
    await memory.store.save(MultipleFacts(LANGUAGES, ["b"]), ALICE, AGENT)

    first, second = await memory.contents.records(1), await memory.contents.records(1, 1)

    assert (len(first), first.total, first.is_last) == (1, 2, False)
    assert (len(second), second.total, second.is_last) == (1, 2, True)
    assert (await memory.contents.records(0, 9)).is_last


async def test_purging_quotes_in_all_places() -> None:
    """The result names all facts that still quote the value."""
    memory = memory_of(InMemoryProvider())
    said = FactSource(SourceKind.USER, "chat", 1, "Dark, and Java")
    facts: list[AnyFact] = []
    for scope in (AGENT, PRODUCT):
        fact = MultipleFacts(LANGUAGES, ["java"], source=said)
        facts.append(fact)
        await memory.store.save_many([SingleFact(THEME, "dark"), fact], ALICE, scope)
    options: Any = {"concept": THEME, "subjects": [ALICE], "scopes": [AGENT, PRODUCT]}

    count = await memory.contents.forget(**options, value="dark", purge=True)

    assert (count, set(count.quoting)) == (2, {fact.id for fact in facts})
    count = await memory.contents.forget(**options, value="dark", purge="quotes")
    assert (count, count.quoting) == (0, ())
    assert "dark" not in str(await memory.store.entries(ALICE, AGENT))


async def test_an_edit_of_metadata_or_importance_renews_nothing() -> None:
    """Retention and ranking go by what was said or confirmed, not by notes about it."""
    clock = SettableClock()
    memory = memory_of(InMemoryProvider(clock=clock), clock=clock)
    await memory.save(THEME, "dark")
    (fact,) = await memory.current(THEME)
    clock.now += timedelta(days=700)
    await memory.contents.update(fact.id, metadata={"project": "x"})
    await memory.contents.update(fact.id, importance=0.2)

    (edited,) = await memory.current(THEME)
    assert (edited.metadata, edited.importance) == ({"project": "x"}, 0.2)
    assert (edited.confirmed_at, edited.timestamp) == (fact.confirmed_at, fact.timestamp)
    assert await memory.contents.forget(older_than=timedelta(days=365)) == 1


async def test_two_forms_of_one_letter_are_one_value() -> None:
    """A Mac writes accents and Hangul decomposed; nobody can see the difference."""
    store = InMemoryProvider()
    for word in ("카페", "café"):
        one, other = normalize("NFD", word), normalize("NFC", word)
        await store.save(languages(one), ALICE, AGENT)
        await store.save(languages(other), ALICE, AGENT)
        assert sum(len(each.values) for each in await store.load(LANGUAGES, ALICE, AGENT)) == 1
        assert await store.forget(ALICE, AGENT, concept=LANGUAGES, value=other) == 1
