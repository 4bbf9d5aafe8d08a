"""Stores with one fault each, and the tests of the contract that must notice."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import anyio.lowlevel
import orjson

from factmem.ledger.entries import (
    Entry,
    StoredFact,
    decoded,
    encoded,
    encoded_entry,
    stamped,
    stored,
)
from factmem.ledger.ledger import Ledger
from factmem.models.facts import (
    AnyFact,
    Concept,
    FactType,
    MultipleFacts,
    SingleFact,
)
from factmem.models.places import MemoryScope, MemorySubject
from factmem.models.when import TimeProvider
from factmem.providers._backend import StoreClock
from factmem.providers.in_memory import InMemoryProvider, Shelves, _Shelf
from factmem.providers.results import Purge


def shelves_of(store: InMemoryProvider) -> Shelves:
    assert isinstance(store._backend, Shelves)
    return store._backend


class ReadsThenWrites(InMemoryProvider):
    """Reads all, waits, and writes all back: what came between is lost."""

    async def save(self, fact: AnyFact, subject: MemorySubject, scope: MemoryScope) -> None:
        lines = [_line(entry) for entry in await self.entries(subject, scope)]
        await anyio.lowlevel.checkpoint()
        await super().save(fact, subject, scope)
        (shelf,) = shelves_of(self).by_place.values()
        shelf.lines = [*lines, shelf.lines[-1]]
        shelf.ledger = Ledger(map(decoded, shelf.lines))


class LastSavedWins(InMemoryProvider):
    """Believes that what is recorded last was said last."""

    async def save(self, fact: AnyFact, subject: MemorySubject, scope: MemoryScope) -> None:
        now = shelves_of(self).clock.now()
        lost = replace(fact, timestamp=datetime.fromisoformat(now), id=f"{now}{fact.id}")
        await super().save(lost, subject, scope)


class AppendsReplays(InMemoryProvider):
    """Records what it gets from a copy after its own entries, and keeps what the copy has purged."""

    async def replay(self, entries: Any, subject: Any, scope: Any) -> int:
        before = await self.entries(subject, scope)
        new = await super().replay(entries, subject, scope)
        shelf = shelves_of(self).by_place.get(self._enter(subject, scope))
        if shelf is not None and before:
            added = [each for each in await self.entries(subject, scope) if each not in before]
            left = [*before, *added[:new]]
            shelf.lines = [stamped(encoded_entry(each), each["at"]) for each in left]
            shelf.ledger = Ledger(map(decoded, shelf.lines))
        return new


class FirstWins(InMemoryProvider):
    """Keeps the first value of a concept."""

    async def save(self, fact: AnyFact, subject: MemorySubject, scope: MemoryScope) -> None:
        if isinstance(fact, MultipleFacts) or not await self.load(fact.concept, subject, scope):
            await super().save(fact, subject, scope)


class MatchesWholeConcepts(InMemoryProvider):
    """Finds facts by all of their concept instead of its keyword."""

    async def load(self, concept: Any, subject: Any, scope: Any, **options: Any) -> list[Any]:
        found = await super().load_all(subject, scope)
        known = {(fact.concept.keyword, fact.concept.description) for fact in found}
        if (concept.keyword, concept.description) not in known:
            return []
        return await super().load(concept, subject, scope, **options)


class IgnoresTheKindOfScope(InMemoryProvider):
    """Takes the product of a name for the agent of that name."""

    def _enter(self, subject: MemorySubject, scope: MemoryScope) -> Any:
        return super()._enter(subject, MemoryScope.Agent(scope.name))


class IgnoresTheEntity(InMemoryProvider):
    """Tells Bob what Alice said."""

    def _enter(self, subject: MemorySubject, scope: MemoryScope) -> Any:
        subject.check_bound()
        return super()._enter(MemorySubject(subject.name, "", 1), scope)


class TakesUnboundForEveryone(InMemoryProvider):
    """Files what has no entity under the subject itself."""

    def _enter(self, subject: MemorySubject, scope: MemoryScope) -> Any:
        if subject.per_entity and subject.entity is None:
            subject = MemorySubject(subject.name, "", 1)
        return super()._enter(subject, scope)


class RunsNamesTogether(InMemoryProvider):
    """Makes one path of the parts of a place's name."""

    def _enter(self, subject: MemorySubject, scope: MemoryScope) -> Any:
        kind, *names = super()._enter(subject, scope)
        return (kind, "/".join(filter(None, names)), "", None)


class DoublesConfirmations(InMemoryProvider):
    """Appends what is there already."""

    async def load(self, concept: Any, subject: Any, scope: Any, **options: Any) -> list[Any]:
        if not await super().load(concept, subject, scope, **options):
            return []
        told = await self.history(concept, subject, scope)
        saved = [entry.fact for entry in told if entry.fact]
        return saved if concept.fact_type is FactType.MULTIPLE else saved[-1:]


class ForgetsUntilTheNextSave(InMemoryProvider):
    """Drops values from what it holds in memory, but not from what it reads again later."""

    async def forget(self, subject: Any, scope: Any, **conditions: Any) -> int:
        count = await super().forget(subject, scope, **conditions)
        shelf = shelves_of(self).by_place.get(self._enter(subject, scope), _Shelf())
        shelf.lines = [line for line in shelf.lines if b'"forget"' not in line]
        return count

    async def save(self, fact: AnyFact, subject: MemorySubject, scope: MemoryScope) -> None:
        await super().save(fact, subject, scope)
        shelf = shelves_of(self).by_place[self._enter(subject, scope)]
        shelf.ledger = Ledger(map(decoded, shelf.lines))


class ForgetsWholeFacts(InMemoryProvider):
    """Takes the id of a fact for the name of each of its values."""

    async def forget(self, subject: Any, scope: Any, **conditions: Any) -> int:
        before = await self.entries(subject, scope)
        count = await super().forget(subject, scope, **conditions)
        for entry in (await self.entries(subject, scope))[len(before) :]:
            for _, fact_id, _ in entry.get("forget", ()):
                await super().forget(subject, scope, fact_ids=[fact_id])
        return count


class PurgesTheCurrentOnly(InMemoryProvider):
    """Leaves a purged value in history."""

    async def forget(self, subject: Any, scope: Any, **conditions: Any) -> int:
        conditions.pop("purge", None)
        return await super().forget(subject, scope, **conditions)


class PurgesWhatReplaced(InMemoryProvider):
    """Takes out the saves of a purged value, and with them what they had replaced."""

    async def forget(self, subject: Any, scope: Any, *, purge: Purge = False, **rest: Any) -> int:
        count = await super().forget(subject, scope, **rest)
        if purge and "value" in rest:
            shelf = shelves_of(self).by_place[self._enter(subject, scope)]
            secret = orjson.dumps(rest["value"])
            shelf.lines = [
                line for line in shelf.lines if secret not in line and b"forget" not in line
            ]
            shelf.ledger = Ledger(map(decoded, shelf.lines))
        return count


class SavesInPart(InMemoryProvider):
    """Saves the facts of a batch one by one."""

    async def save_many(self, facts: Iterable[AnyFact], subject: Any, scope: Any) -> None:
        for fact in facts:
            await super().save_many([fact], subject, scope)


class SavesValuesOneByOne(InMemoryProvider):
    """Can be cancelled between two values of a fact."""

    async def save(self, fact: AnyFact, subject: MemorySubject, scope: MemoryScope) -> None:
        if not isinstance(fact, MultipleFacts):
            await super().save(fact, subject, scope)
            return
        for value in fact.values:
            await super().save(replace(fact, values=(value,)), subject, scope)


class AsksTheWallClock(InMemoryProvider):
    """Has a clock of its own."""

    def __init__(self, *, clock: TimeProvider) -> None:
        super().__init__(clock=lambda: datetime.now(UTC))


class _Naive(StoreClock):
    def now(self, recorded_at: str = "") -> str:
        self._latest = ""
        return super().now("")

    def recording(self, recorded_at: str = "") -> str:
        return super().recording("")


class LetsTheClockGoBack(InMemoryProvider):
    """Judges expiry by whatever the clock says at the moment."""

    def __init__(self, *, clock: TimeProvider) -> None:
        super().__init__(clock=clock)
        shelves_of(self).clock = _Naive(clock)


class _Stubborn(StoreClock):
    def recording(self, recorded_at: str = "") -> str:
        self._latest = max(super().recording(recorded_at), self._latest)
        return self._latest


class RecordsWhatItRead(InMemoryProvider):
    """Takes the latest time that it ever got for the present."""

    def __init__(self, *, clock: TimeProvider) -> None:
        super().__init__(clock=clock)
        shelves_of(self).clock = _Stubborn(clock)


class _NoPast(Shelves):
    async def present(self, identity: Any, present: Any, **_: Any) -> Any:
        return await super().present(identity, present)


class KnowsNoPast(InMemoryProvider):
    """Answers every question about the past with the present."""

    def __init__(self, *, clock: TimeProvider) -> None:
        super().__init__(clock=clock)
        self._backend = _NoPast(StoreClock(clock))


class TakesAnything(InMemoryProvider):
    """Writes what cannot be read back as it was."""

    async def save(self, fact: AnyFact, subject: MemorySubject, scope: MemoryScope) -> None:
        await self.save_many([fact], subject, scope)

    async def save_many(self, facts: Iterable[AnyFact], subject: Any, scope: Any) -> None:
        for fact in facts:
            concept = Concept(fact.concept.keyword, fact.concept.description)
            try:
                stored(fact)
            except ValueError:
                text = SingleFact(concept, repr(fact.values).encode(errors="ignore").decode())
                await super().save_many([text], subject, scope)
            else:
                await super().save_many([fact], subject, scope)


class _Rounding(Shelves):
    async def present(self, identity: Any, present: Any, **options: Any) -> Any:
        def rounded(ledger: Ledger, now: str) -> Any:
            for topic in ledger._by_keyword.values():
                for item in topic.items.values():
                    if isinstance(item.value, int) and abs(item.value) >= 2**64:
                        item.value = float(item.value)
            return present(ledger, now)

        return await super().present(identity, rounded, **options)


class RoundsWideNumbers(InMemoryProvider):
    """Reads JSON with a reader that makes floats of large integers."""

    def __init__(self, *, clock: TimeProvider) -> None:
        super().__init__(clock=clock)
        self._backend = _Rounding(StoreClock(clock))


class TrimsTexts(InMemoryProvider):
    """Tidies up what it was given."""

    async def save(self, fact: AnyFact, subject: MemorySubject, scope: MemoryScope) -> None:
        await self.save_many([fact], subject, scope)

    async def save_many(self, facts: Iterable[AnyFact], subject: Any, scope: Any) -> None:
        tidy: list[AnyFact] = [
            replace(fact, value=fact.value.strip())
            if isinstance(fact, SingleFact) and type(fact.value) is str
            else fact
            for fact in facts
        ]
        await super().save_many(tidy, subject, scope)


class SharesItsObjects(InMemoryProvider):
    """Hands out what it keeps."""

    def __init__(self, *, clock: TimeProvider) -> None:
        super().__init__(clock=clock)
        self._given: dict[str, AnyFact] = {}

    async def save(self, fact: AnyFact, subject: MemorySubject, scope: MemoryScope) -> None:
        self._given[fact.id] = fact
        await super().save(fact, subject, scope)

    async def load(self, concept: Any, subject: Any, scope: Any, **options: Any) -> list[Any]:
        found = await super().load(concept, subject, scope, **options)
        return [self._given[fact.id] for fact in found]


class RepeatsReplays(InMemoryProvider):
    """Appends whatever it is given to replay."""

    async def replay(self, entries: Sequence[Entry], subject: Any, scope: Any) -> int:
        if entries:
            shelf = shelves_of(self).by_place.setdefault(self._enter(subject, scope), _Shelf())
            for entry in entries:
                shelf.append(_line(entry))
        return len(entries)


class AmendsWhatItRead(InMemoryProvider):
    """Reads the ledger, waits, and appends what was made of it."""

    async def amend(self, change: Any, subject: Any, scope: Any) -> int:
        known = await self.entries(subject, scope)
        shelf = shelves_of(self).by_place.get(self._enter(subject, scope), _Shelf())
        new = list(change(known, shelves_of(self).now(shelf)))
        await anyio.lowlevel.checkpoint()
        return await super().amend(lambda entries, now: new, subject, scope)


class ListsNamesakes(InMemoryProvider):
    """Compares the names of subjects and scopes, not their entities and types."""

    async def places(self, *, subjects: Any = None, scopes: Any = None) -> list[Any]:
        for subject in subjects or ():
            subject.check_bound()
        return [
            info
            for info in await super().places()
            if (subjects is None or info.subject.name in {each.name for each in subjects})
            and (scopes is None or info.scope.name in {each.name for each in scopes})
        ]


class TakesAnEmptyListForNone(InMemoryProvider):
    """Lists everything for a boundary that allows nothing."""

    async def places(self, *, subjects: Any = None, scopes: Any = None) -> list[Any]:
        return await super().places(subjects=subjects or None, scopes=scopes or None)


class AnswersWhenClosed(InMemoryProvider):
    """Goes on as if nothing had happened."""

    def _check_open(self) -> None:
        return


def _line(entry: Entry) -> bytes:
    facts: Iterable[StoredFact] = entry.get("facts", ())
    return stamped(encoded(facts, entry.get("forget", ())), entry["at"])


WRONG_PROVIDERS: dict[type[InMemoryProvider], set[str]] = {
    ReadsThenWrites: {"test_concurrent_saves_all_land", "test_each_task_reads_what_it_saved"},
    LastSavedWins: {
        "test_what_was_said_last_is_current",
        "test_of_equal_times_the_greater_id_counts",
    },
    AppendsReplays: {"test_copies_become_equal", "test_a_purge_reaches_the_copies"},
    FirstWins: {"test_what_was_said_last_is_current", "test_an_earlier_value_can_be_saved_again"},
    MatchesWholeConcepts: {"test_descriptions_are_no_part_of_a_place"},
    IgnoresTheKindOfScope: {"test_scopes_of_one_name_are_apart"},
    IgnoresTheEntity: {"test_names_never_mix", "test_entities_of_one_subject_are_apart"},
    TakesUnboundForEveryone: {
        "test_an_unbound_subject_is_refused",
        "test_no_call_takes_an_unbound_subject",
        "test_an_unbound_subject_has_no_version",
        "test_an_unbound_subject_has_no_index",
        "test_an_unbound_subject_has_no_changes",
    },
    RunsNamesTogether: {"test_names_are_not_run_together"},
    DoublesConfirmations: {
        "test_a_value_is_held_once",
        "test_saving_what_is_current_confirms_it",
        "test_concurrent_saves_leave_one_current_value",
    },
    ForgetsUntilTheNextSave: {"test_forgotten_values_do_not_come_back"},
    ForgetsWholeFacts: {"test_exactly_what_meets_all_conditions_is_forgotten"},
    PurgesTheCurrentOnly: {"test_a_purged_value_leaves_no_trace", "test_purging_frees_room"},
    PurgesWhatReplaced: {"test_what_a_purged_value_had_replaced_stays_replaced"},
    SavesInPart: {"test_one_bad_fact_refuses_the_batch", "test_no_reader_sees_a_part"},
    SavesValuesOneByOne: {"test_cancelled_tasks_disturb_no_other"},
    AsksTheWallClock: {"test_a_fact_expires_at_its_time", "test_confirmations_record_their_time"},
    LetsTheClockGoBack: {
        "test_what_expired_does_not_come_back",
        "test_a_recorded_time_is_not_undone_by_the_clock",
        "test_a_clock_set_back_changes_nothing",
    },
    RecordsWhatItRead: {"test_a_clock_that_was_put_right_spoils_no_later_save"},
    KnowsNoPast: {"test_each_moment_has_its_facts", "test_expiry_is_judged_then"},
    TakesAnything: {"test_a_value_that_would_change_raises"},
    RoundsWideNumbers: {"test_any_type_survives"},
    TrimsTexts: {"test_any_text_survives"},
    SharesItsObjects: {"test_what_is_loaded_is_not_what_is_stored"},
    RepeatsReplays: {"test_a_replay_can_be_repeated", "test_nonsense_is_refused"},
    AmendsWhatItRead: {"test_amendments_at_once_all_see_each_other"},
    ListsNamesakes: {"test_places_of_some_subjects_and_scopes_are_listed"},
    TakesAnEmptyListForNone: {"test_places_that_are_asked_for_may_not_be_there"},
    AnswersWhenClosed: {
        "test_a_closed_store_refuses",
        "test_a_closed_store_returns_no_version",
        "test_a_closed_store_keeps_no_index",
        "test_a_closed_store_returns_no_changes",
    },
}
"""Each wrong store, and tests that it fails."""
