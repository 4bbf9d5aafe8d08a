"""Merging values with the same meaning, and undoing a merge."""

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from factmem.errors import ChatModelError, ExtractionError, MemoryAccessError
from factmem.events import MemoryEvent, MemoryOperation
from factmem.ledger._items import name_of
from factmem.ledger._undo import undoing
from factmem.ledger.entries import Entry, decoded, encoded_entry, stamped, stored
from factmem.ledger.ledger import Ledger
from factmem.memory.agent_memory import AgentMemory
from factmem.memory.consolidation import ConsolidationReport, Merge, merging
from factmem.models.facts import AnyFact, Concept, FactSource, FactType, MultipleFacts, SourceKind
from factmem.models.places import Place
from factmem.providers.in_memory import InMemoryProvider
from factmem.providers.store import FactStore
from factmem.testing.chat import ScriptedChatModel
from factmem.testing.clock import START
from tests.doubles import BareProvider
from tests.tables import table
from tests.world import AGENT, ALICE, BOB, LANGUAGES, PRODUCT, THEME, languages, memory_of

HERE = Place(AGENT, ALICE)
MONDAY = FactSource(SourceKind.USER, "monday", 3, "I speak German")
FRIDAY = FactSource(SourceKind.USER, "friday", 1, "Deutsch")
GROUP = {"groups": [{"same": [0, 1], "keep": 1}]}


async def _german(store: FactStore, **fields: Any) -> None:
    """Fill the place with three values, the first two of which have the same meaning."""
    await store.save(languages("Deutsch", source=FRIDAY, **fields), ALICE, AGENT)
    await store.save(languages("German", source=MONDAY), ALICE, AGENT)
    await store.save(languages("Korean"), ALICE, AGENT)


async def _merged(
    store: FactStore, model: ScriptedChatModel, concept: Concept[Any, Any] = LANGUAGES
) -> ConsolidationReport:
    """Merge what the model proposes."""
    consolidation = memory_of(store, model).consolidation
    return await consolidation.merge(await consolidation.propose(concept))


async def _held(store: FactStore, subject: Any = ALICE, scope: Any = AGENT) -> list[str]:
    found = await store.load(LANGUAGES, subject, scope)
    return [value for fact in found for value in fact.values]


class TestAsking:
    """Return the request to the model, and the proposals from its answer."""

    async def test_a_dry_run_writes_nothing(self) -> None:
        """It shows what would be merged, in the stored words."""
        store, model = InMemoryProvider(), ScriptedChatModel(GROUP)
        await _german(store)
        before = await store.entries(ALICE, AGENT)

        report = await memory_of(store, model).consolidation.propose(LANGUAGES)

        assert report.is_dry_run
        (merge,) = report.merges
        assert (merge.place, merge.keyword) == (HERE, "languages")
        assert (merge.kept, merge.dropped) == ("German", ("Deutsch",))
        assert (report.count, report.usage.calls) == (1, 1)
        assert await store.entries(ALICE, AGENT) == before

    async def test_the_model_sees_numbered_values_of_one_place(self) -> None:
        """Each place takes one call: values of two users are never in one prompt."""
        store = InMemoryProvider()
        model = ScriptedChatModel({"groups": []}, {"groups": []})
        await _german(store)
        await store.save(languages("Kannada", "Hindi"), BOB, AGENT)
        await store.save(languages("French"), ALICE, PRODUCT)

        await memory_of(store, model).view(subjects=[ALICE, BOB]).consolidation.propose(LANGUAGES)

        first, second = (str(call[-1]["content"]) for call in model.calls)
        assert '"number": 1, "value": "German"' in first
        assert "Kannada" in second
        assert "German" not in second
        assert "French" not in first + second

    async def test_one_value_needs_no_model(self) -> None:
        """The same holds for no values."""
        store, model = InMemoryProvider(), ScriptedChatModel()
        await store.save(languages("German"), ALICE, AGENT)

        report = await memory_of(store, model).consolidation.propose(LANGUAGES)

        assert report == ConsolidationReport(is_dry_run=True)

    async def test_many_values_are_sent_in_parts(self) -> None:
        """The parts have one size, and similar spellings are next to each other."""
        store = InMemoryProvider()
        model = ScriptedChatModel({"groups": []}, {"groups": [{"same": [0, 1], "keep": 0}]})
        values = [f"language {number:03}" for number in range(201)]
        await store.save(languages(*reversed(values)), ALICE, AGENT)

        report = await memory_of(store, model).consolidation.propose(LANGUAGES)

        assert [str(call[-1]["content"]).count('"number"') for call in model.calls] == [101, 100]
        (merge,) = report.merges
        assert (merge.kept, merge.dropped) == (values[101], (values[102],))

    async def test_long_values_are_left_out_and_stay(self) -> None:
        """A long value is a document of its own; it is counted."""
        store, model = InMemoryProvider(), ScriptedChatModel(GROUP)
        long = "x" * 1_001
        await store.save(languages("Deutsch", "German", long), ALICE, AGENT)

        report = await _merged(store, model)

        assert report.not_shown == 1
        assert long not in str(model.calls)
        assert await _held(store) == ["German", long]

    @table(
        ("item", "reason"),
        [
            ("all of them", "malformed"),
            ({"same": [0, 1]}, "malformed"),
            ({"same": [0, "one"], "keep": 0}, "malformed"),
            ({"same": 1, "keep": 0}, "malformed"),
            ({"same": [1], "keep": 1}, "malformed"),
            ({"same": [0, True], "keep": 0}, "malformed"),
            ({"same": [0, 1.5], "keep": 0}, "malformed"),
            ({"same": [0, 1], "keep": 2}, "malformed"),
            ({"same": [0, 3], "keep": 0}, "not stored"),
            ({"same": [-1, 1], "keep": 1}, "not stored"),
            ({"same": [1, 2], "keep": 1}, "duplicate"),
        ],
    )
    async def test_a_bad_group_is_rejected_and_affects_no_other(
        self, item: JsonValue, reason: str
    ) -> None:
        """A number outside of the list belongs to no value."""
        store = InMemoryProvider()
        good = {"same": [0, 1], "keep": "1"}
        await _german(store)
        model = ScriptedChatModel({"groups": [good, item]})

        report = await _merged(store, model)

        assert [(each.position, each.reason) for each in report.rejected] == [(1, reason)]
        assert await _held(store) == ["German", "Korean"]

    async def test_the_value_to_keep_may_be_missing_in_the_group(self) -> None:
        """Models leave it out of the group, or name others twice."""
        store = InMemoryProvider()
        await _german(store)
        model = ScriptedChatModel({"groups": [{"same": [0, 0], "keep": 1}]})

        await _merged(store, model)

        assert await _held(store) == ["German", "Korean"]

    @pytest.mark.parametrize("answer", [ChatModelError("down"), "I would rather not."])
    async def test_a_failure_merges_nothing(self, answer: object) -> None:
        """Answers for earlier places are not used either."""
        store = InMemoryProvider()
        await _german(store)
        await store.save(languages("Hindi", "Hindee"), BOB, AGENT)
        model = ScriptedChatModel(GROUP, answer, answer)

        with pytest.raises((ChatModelError, ExtractionError)):
            await (
                memory_of(store, model)
                .view(subjects=[ALICE, BOB])
                .consolidation.merge(
                    await memory_of(store, model)
                    .view(subjects=[ALICE, BOB])
                    .consolidation.propose(LANGUAGES)
                )
            )

        assert await _held(store) == ["Deutsch", "German", "Korean"]

    async def test_typed_values_are_merged(self) -> None:
        """The report has plain JSON, the store the declared type."""
        store = InMemoryProvider()
        days = Concept("days", "Days off", FactType.MULTIPLE, value_type=date | str)
        await store.save(MultipleFacts(days, (date(2026, 5, 1), "May Day")), ALICE, AGENT)
        model = ScriptedChatModel({"groups": [{"same": [0, 1], "keep": 0}]})

        report = await _merged(store, model, concept=days)

        assert [(each.kept, each.dropped) for each in report.merges] == [
            ("2026-05-01", ("May Day",))
        ]
        (fact,) = await store.load(days, ALICE, AGENT)
        assert fact.values == (date(2026, 5, 1),)


class TestRefusing:
    """Errors before a model call."""

    async def test_a_concept_with_one_value(self) -> None:
        """The newest wins, so there is nothing to merge."""
        with pytest.raises(ValueError, match=r"has one value.*MULTIPLE"):
            await memory_of(model=ScriptedChatModel()).consolidation.propose(THEME)

    async def test_no_chat_model(self) -> None:
        """Only a model can compare meanings."""
        with pytest.raises(ValueError, match="chat_model="):
            await memory_of().consolidation.propose(LANGUAGES)

    async def test_a_provider_that_cannot_amend(self) -> None:
        """A dry run works; merging does not."""
        provider = BareProvider()
        await provider.save(languages("Deutsch", "German"), ALICE, AGENT)
        memory = memory_of(provider, ScriptedChatModel(GROUP))

        report = await memory.consolidation.propose(LANGUAGES)
        with pytest.raises(TypeError, match="BareProvider"):
            await memory.consolidation.merge(report)

        assert report.count == 1

    async def test_views(self) -> None:
        """A view shows its own values only; a read-only one merges nothing."""
        store, model = InMemoryProvider(), ScriptedChatModel(GROUP, GROUP)
        await _german(store)
        memory = memory_of(store, model)
        reader = memory.view(subjects=[ALICE], read_only=True)
        stranger = memory.view(subjects=[BOB])
        report = await reader.consolidation.propose(LANGUAGES)

        assert report.count == 1
        assert (await stranger.view(subjects=[ALICE]).consolidation.propose(LANGUAGES)).merges == []
        for view in (reader, stranger):
            with pytest.raises(MemoryAccessError):
                await view.consolidation.merge(report)
        assert len(model.calls) == 1
        assert await _held(store) == ["Deutsch", "German", "Korean"]


class TestMerging:
    """Return the facts after a merge."""

    async def test_a_report_is_merged_unchanged(self, store: FactStore) -> None:
        """This takes no model call, and repeating it has no effect."""
        model = ScriptedChatModel(GROUP)
        await _german(store)
        memory = memory_of(store, model)
        proposal = await memory.consolidation.propose(LANGUAGES)

        done = await memory.consolidation.merge(proposal)
        again = await memory.consolidation.merge(proposal)

        assert done == again
        assert (done.merges, done.outdated, done.is_dry_run) == (proposal.merges, [], False)
        assert len(model.calls) == 1
        assert await _held(store) == ["German", "Korean"]
        assert len(await store.entries(ALICE, AGENT)) == 4

    async def test_the_kept_value_has_the_sources_of_the_others(self, store: FactStore) -> None:
        """Forgetting one conversation keeps what the other one stated too."""
        await _german(store)
        memory = memory_of(store, ScriptedChatModel(GROUP))
        await memory.consolidation.merge(await memory.consolidation.propose(LANGUAGES))
        (german, _) = await store.load(LANGUAGES, ALICE, AGENT)

        origin = await memory.why(german)

        assert origin is not None
        assert origin.sources == [MONDAY, FRIDAY]
        assert await store.forget(ALICE, AGENT, source=MONDAY) == 0
        assert await store.forget(ALICE, AGENT, source=FRIDAY) == 0
        assert await _held(store) == ["German", "Korean"]

    async def test_the_kept_value_has_the_highest_importance_and_latest_expiry(
        self, store: FactStore
    ) -> None:
        """It expires no earlier than any of the merged values."""
        later = START + timedelta(days=36_500)
        await store.save(languages("a", importance=0.9, expires_at=later), ALICE, AGENT)
        soon = later - timedelta(days=1)
        await store.save(languages("b", importance=0.2, expires_at=soon), ALICE, AGENT)
        await store.save(languages("c", expires_at=soon), ALICE, AGENT)
        await store.save(languages("d"), ALICE, AGENT)
        groups = [{"same": [0, 1], "keep": 1}, {"same": [2, 3], "keep": 2}]

        await _merged(store, ScriptedChatModel({"groups": groups}))

        first, second = await store.load(LANGUAGES, ALICE, AGENT)
        assert (first.values, first.importance, first.expires_at) == (("b",), 0.9, later)
        assert (second.values, second.importance, second.expires_at) == (("c",), 0.5, None)

    async def test_a_kept_value_that_was_forgotten_does_not_return(self, store: FactStore) -> None:
        """Statements made in the meantime win over a proposal."""
        await _german(store)
        memory = memory_of(store, ScriptedChatModel(GROUP))
        proposal = await memory.consolidation.propose(LANGUAGES)
        await store.forget(ALICE, AGENT, concept=LANGUAGES, value="German")

        done = await memory.consolidation.merge(proposal)

        assert (done.merges, done.outdated) == ([], proposal.merges)
        assert await _held(store) == ["Deutsch", "Korean"]

    async def test_an_undo_returns_the_dropped_values(self, store: FactStore) -> None:
        """They have their sources, importance and expiry."""
        later = START + timedelta(days=36_500)
        await _german(store, importance=0.8, expires_at=later)
        before = (await store.load(LANGUAGES, ALICE, AGENT))[0]
        memory = memory_of(store, ScriptedChatModel(GROUP))
        report = await memory.consolidation.merge(await memory.consolidation.propose(LANGUAGES))

        await _undo(memory, report)

        facts = await store.load(LANGUAGES, ALICE, AGENT)
        (after,) = [fact for fact in facts if fact.values == before.values]
        assert sorted(await _held(store)) == ["Deutsch", "German", "Korean"]
        for name in ("values", "importance", "expires_at", "source"):
            assert getattr(after, name) == getattr(before, name), name


async def test_each_call_is_reported_once() -> None:
    """The event has the changes and the cost, and no value."""
    events: list[MemoryEvent] = []
    store = InMemoryProvider()
    await _german(store)
    memory = memory_of(store, ScriptedChatModel(GROUP, "no"), listeners=[events.append])
    report = await memory.consolidation.propose(LANGUAGES)
    await memory.consolidation.merge(report)
    with pytest.raises(AssertionError):
        await memory.consolidation.propose(LANGUAGES)

    told = [
        (event.operation, event.count, event.llm_calls, event.is_failed)
        for event in events
        if event.operation is MemoryOperation.CONSOLIDATE
    ]

    assert told == [
        (MemoryOperation.CONSOLIDATE, 1, 1, False),
        (MemoryOperation.CONSOLIDATE, 1, 0, False),
        (MemoryOperation.CONSOLIDATE, 0, 0, True),
    ]
    assert events[-1].places == (HERE, Place(PRODUCT, ALICE))
    assert "German" not in repr(events) + repr(report)


async def _undo(memory: AgentMemory, report: ConsolidationReport) -> None:
    """Undo the merges of a report."""
    for merge in report.merges:
        assert merge.change is not None
        await memory.review.undo(merge.change)


SPOKEN = st.lists(st.sampled_from("abc"), min_size=1, max_size=3, unique=True)
ACTIONS = st.one_of(
    SPOKEN.map(lambda values: ("save", values)),
    st.sampled_from("abc").map(lambda value: ("forget", value)),
    st.lists(st.sampled_from("abc"), min_size=2, max_size=3, unique=True).map(
        lambda values: ("merge", values)
    ),
    st.just(("undo", None)),
)


@given(st.lists(ACTIONS, min_size=1, max_size=12))
def test_merging_and_undoing_change_only_the_proposed_values(
    actions: Sequence[tuple[str, Any]],
) -> None:
    """In any order: a merge drops its own values only, and an undo after it restores those."""
    entries: list[Entry] = []
    held: list[str] = []
    undo: tuple[str, list[str]] | None = None
    for number, (action, given_) in enumerate(actions):
        now = f"2026-01-01T00:00:{number:02}.000000Z"
        if action == "save":
            fact: AnyFact = languages(*given_, timestamp=datetime.fromisoformat(now))
            entries.append(_entry(fact, now))
            held += [value for value in given_ if value not in held]
        elif action == "forget":
            found = Ledger(entries).items("languages", now)
            names = [name_of("languages", item) for item in found.values()]
            values = [item.value for item in found.values()]
            gone = [name for name, value in zip(names, values, strict=True) if value == given_]
            entries.append({"at": now, "forget": gone})
            held = [value for value in held if value != given_]
        elif action == "merge":
            merge = Merge(HERE, "languages", given_[0], tuple(given_[1:]))
            done: list[Merge] = []
            entries += merging([merge], done)(entries, now)
            lost = [value for value in given_[1:] if value in held] if given_[0] in held else []
            assert bool(done) == bool(lost)
            held = [value for value in held if value not in lost]
            if lost:
                undo = (str(done[0].change), lost)
        if action == "undo" and undo:
            entries += undoing(HERE.identity, undo[0])(entries, now)
            held += undo[1]
        if action != "merge":
            undo = None
    current = Ledger(entries).items("languages", "2026-01-02T00:00:00.000000Z")
    assert sorted(str(item.value) for item in current.values()) == sorted(held)


def _entry(fact: AnyFact, now: str) -> Entry:
    return decoded(stamped(encoded_entry({"facts": [stored(fact)]}), now))
