"""MemoryContents: lists, updates, deletes, tidies, moves and exports the contents of a memory."""

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from heapq import nlargest
from types import EllipsisType
from typing import Any

from pydantic import JsonValue
from typing_extensions import TypeVar, Unpack

from factmem._arguments import expect, expect_all, expect_within, guided
from factmem.errors import ChangedError, InputValueError, MemoryAccessError
from factmem.events import MemoryOperation
from factmem.ledger._items import Condition, name_of
from factmem.ledger._reads import facts_of, last_said
from factmem.ledger.entries import Entry, exported, stored
from factmem.ledger.history import History, HistoryAction, HistoryEntry
from factmem.ledger.ledger import Ledger
from factmem.ledger.resolution import PlacedFact, is_version
from factmem.memory._parts import MemoryParts, compared_definitions, store_definitions
from factmem.memory._statements import Expected, changed, expected_version
from factmem.memory.concept_changes import ConceptChanges
from factmem.memory.listing import (
    ConceptInfo,
    MemoryStats,
    MemoryTree,
    RecordPage,
    ResetReport,
    branch_of,
    keys_of,
)
from factmem.models._display import Displayed
from factmem.models._values import Canonical, canonical
from factmem.models.facts import (
    AnyFact,
    Concept,
    ConceptDefinition,
    FactSource,
    SingleFact,
    checked_concept,
    checked_concepts,
    checked_metadata,
    includes,
)
from factmem.models.places import (
    UNBOUNDED,
    MemorySubject,
    Place,
    ScopeChoice,
    check_writable,
    checked_places,
    checked_subjects,
)
from factmem.models.when import before, stamp
from factmem.providers.provider import fact_store
from factmem.providers.results import ErasureReceipt, ForgetConditions, Forgotten, PlaceInfo, Purge
from factmem.providers.store import FactStore

__all__ = ["MemoryContents"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TidyReport(Displayed):
    """The result of `tidy`."""

    places: list[Place]
    """The places that were rewritten."""
    entries: int
    """The number of entries of their histories that were removed or shortened."""


@dataclass(frozen=True, slots=True)
class MoveReport(Displayed):
    """The result of `move`."""

    entries: int
    """The number of entries that were new in the target."""
    receipt: ErasureReceipt
    """The receipt of the source's erasure, which was already empty."""


async def move_place(store: FactStore, source: Place, target: Place) -> MoveReport:
    """Copy the history of a place to another one, remove it from the source, then erase the source.

    Copying again adds nothing: repeat the call to finish an interrupted move. Only copied entries
    are removed, in one atomic step. Entries that are saved in the meantime are copied in the next
    round. The source is erased only if it is empty.
    """
    if source.identity == target.identity:
        raise InputValueError("source and target must be two places: move(guest, account)")
    new = 0
    while True:
        while entries := await store.entries(source.subject, source.scope):
            new += await store.replay(entries, target.subject, target.scope)
            await store.rewrite(partial(_without, entries), source.subject, source.scope)
        receipt = await store.erase(source.subject, source.scope, only_empty=True)
        if not await store.entries(source.subject, source.scope):
            return MoveReport(new, receipt)


def _without(copied: Sequence[Entry], entries: Sequence[Entry]) -> Sequence[Entry | None]:
    """Return a ledger without its copied entries; unchanged if these were rewritten meanwhile."""
    count = len(copied)
    if exported([each.copy() for each in entries[:count]]) != list(copied):
        return entries
    return [*[None] * count, *entries[count:]]


_AT_ONCE = 32
"""The number of places that are read at a time; more are not faster."""


@guided(
    {
        "list all get_all facts": "await contents.records(limit=20), or memory.current()",
        "search find": "await memory.recall(question)",
        "erase delete_all clear": "await contents.reset(confirm=True)",
    },
    arguments={"*": "await contents.forget(concept=CONCEPT), with value=... for one value"},
    calls=("forget",),
)
class MemoryContents(ConceptChanges):
    """The contents of a memory, place by place.

    The contents of a view are its places. For a memory that is not a view, they are the whole
    store: all subjects and scopes, not only the memory's own.

    Nothing is cached: each call reads the places from the store and sees the writes of other
    instances and processes. No call to a model.
    """

    async def places(self, *, within: Sequence[str] | None = None) -> list[PlaceInfo]:
        """Return the places that are not empty, ordered by identity.

        Args:
            within: Only entities with these first levels, such as `["acme"]` for a tenant:
                `USER.of("acme")` and `USER.of("acme", "alice")`, but not `USER.of("acme2")`.

        Raises:
            TypeError: The provider is not a `FactStore`, as in every method here.
            StorageError: A place could not be read, as in every method here.
        """
        async with self._events.before(MemoryOperation.LIST):
            store = fact_store(self._provider)
            example = "within=['acme']"
            first = None if within is None else expect_all(within, str, "within", example)
            if first == ():
                raise InputValueError(f"within must contain at least one level: {example}")
        found = await store.places()
        if first is None:
            return found
        return [info for info in found if info.subject.levels[: len(first)] == first]

    async def tree(self) -> MemoryTree:
        """Return all places as a tree: scopes, subjects, entities. `print` shows it.

        The tree of a view is a subtree: `memory.view(scopes=[...]).contents.tree()`.
        """
        found = await self.places()
        return branch_of(
            "memory", [((str(i.scope), i.subject.name, *i.subject.levels), i) for i in found]
        )

    async def concepts(self) -> list[ConceptInfo]:
        """Return the concepts that have current values, ordered by keyword."""
        found: dict[str, ConceptInfo] = {}
        last: dict[str, Place] = {}
        async for placed in self._all_facts():
            concept, newest = placed.fact.concept, placed.heard_at
            known = found.get(concept.keyword)
            info = known or ConceptInfo(concept.keyword, "", concept.fact_type, 0, 0, newest)
            if known is None or newest >= known.newest:
                kind = concept.fact_type
                info = replace(info, description=concept.description, fact_type=kind, newest=newest)
            is_elsewhere = last.get(concept.keyword) != placed.place
            count, places = info.count + len(placed.fact.values), info.places + is_elsewhere
            found[concept.keyword] = replace(info, count=count, places=places)
            last[concept.keyword] = placed.place
        return [found[keyword] for keyword in sorted(found)]

    async def definitions(self) -> list[ConceptDefinition]:
        """Return the definitions of concepts that programs have stored, by keyword.

        `differs` names those that the memory declares in another way; `async with memory` reports
        them in an event. Compatible changes are stored: more values, a type that accepts more, a
        concept with `read` or `was`. Empty for a provider with four methods.
        """
        await store_definitions(self._parts)
        return await compared_definitions(self._parts)

    async def stats(self) -> MemoryStats:
        """Return the number of places, entities and values, and their size.

        The facts are not loaded. In a view of `USER.every()` the numbers cover all entities.
        """
        infos = await self.places()
        return MemoryStats(
            places=len(infos),
            entities=len({(i.subject.name, i.subject.entity) for i in infos if i.subject.entity}),
            count=sum(info.count for info in infos),
            bytes=sum(info.bytes for info in infos),
            oldest=min((info.oldest for info in infos if info.oldest is not None), default=None),
            newest=max((info.newest for info in infos if info.newest is not None), default=None),
        )

    async def records(
        self,
        limit: int = 50,
        offset: int = 0,
        *,
        concepts: Iterable[Concept[Any, Any]] | None = None,
        metadata: Mapping[str, JsonValue] | None = None,
    ) -> RecordPage:
        """Return current facts of all places, last confirmed first.

        The result is a list. Its `total` is the number of all facts that meet the conditions,
        `is_last` is true on the last page, and `to_rows()` returns rows for a data frame.

        Values of the memory's `concepts` have their types if they fit; all others are plain JSON.
        Facts of several places are not resolved: a concept with facts in two places appears twice.
        The order of facts with the same time is stable.

        Args:
            limit: The maximum of facts to return.
            offset: The number of facts to skip.
            concepts: Only facts of these concepts.
            metadata: Only facts whose metadata has all of these keys, with equal values.

        Raises:
            TypeError: `limit` or `offset` is not an integer.
            ValueError: `limit` or `offset` is negative.
        """
        async with self._events.before(MemoryOperation.LIST):
            expect_within(limit, int, "limit", "limit=50", least=0)
            expect_within(offset, int, "offset", "offset=50", least=0)
            named = None if concepts is None else {c.keyword for c in checked_concepts(concepts)}
            wanted = {} if metadata is None else checked_metadata(metadata)
        most, total = offset + limit, 0
        newest: list[tuple[datetime, int, PlacedFact]] = []
        async for placed in self._all_facts():
            is_named = named is None or placed.fact.concept.keyword in named
            if is_named and includes(placed.fact.metadata, wanted):
                total += 1
                newest.append((placed.heard_at, total, placed))
                if len(newest) > 2 * most:  # at each fact it would take too long
                    newest = nlargest(most, newest)
        found = [placed for _, _, placed in nlargest(most, newest)]
        return RecordPage(found[offset:], offset=offset, total=total)

    async def get(self, fact_id: str) -> PlacedFact | None:
        """Return the current fact with this id, from any place of the memory; or None."""
        async with self._events.before(MemoryOperation.LIST):
            store = fact_store(self._provider)
            expect(fact_id, str, "fact_id", "get(placed.fact.id)")
        known = self._parts.reader.concepts.values()
        for place in await store.list_places():
            fact = await store.find(fact_id, place, concepts=known)
            if fact is not None:
                return PlacedFact(place, fact)
        return None

    async def update(
        self,
        fact_id: str,
        *,
        value: Any = ...,
        values: Iterable[Any] | EllipsisType = ...,
        metadata: Mapping[str, JsonValue] | EllipsisType = ...,
        importance: float | EllipsisType = ...,
        expires_at: datetime | EllipsisType | None = ...,
        source: FactSource | EllipsisType | None = ...,
        if_unchanged: Expected | None = None,
    ) -> PlacedFact | None:
        """Change a fact in one atomic step and return it; None if no current fact has the id.

        The fact keeps its id, and its history contains each version. Omitted fields do not change,
        but new values remove the old source, because it does not prove them. A change of metadata,
        importance or expiry confirms and renews nothing.

        Args:
            fact_id: The id of the fact, as `records` returns it.
            value: The new value, for a concept with one value.
            values: The new values, for a concept with many values; all others are forgotten.
            metadata: The new metadata, which replaces the old; `{}` removes it.
            importance: From 0 to 1.
            expires_at: When the fact expires; None for never.
            source: The source of the new values.
            if_unchanged: The fact that was read, or its `version`: a change made since then is
                not overwritten.

        Raises:
            ValueError: A value does not fit the concept, or no change was passed.
            ChangedError: The fact is not as it was read, or was deleted. Nothing was written.
            MemoryAccessError: The view is read-only.
        """
        async with self._events.before(MemoryOperation.SAVE):
            store = fact_store(self._provider)
            given = {"value": value, "values": values, "metadata": metadata}
            given |= {"importance": importance, "expires_at": expires_at, "source": source}
            changes = {name: each for name, each in given.items() if each is not ...}
            if not changes:
                raise InputValueError("update needs a field to change: update(id, value='dark')")
            wanted = None if if_unchanged is None else expected_version(if_unchanged)
        placed = await self.get(fact_id)
        if placed is None and wanted is not None:
            raise await self._deleted(fact_id)
        check = None if wanted is None or placed is None else self._check(placed, wanted)
        if placed is None or not await update_record(store, placed, changes, check):
            return None
        return await self.get(fact_id)

    async def delete(
        self, *fact_ids: str, purge: Purge = False, if_unchanged: Expected | None = None
    ) -> Forgotten:
        """Forget facts by their ids, in all places of the memory.

        Returns the number of forgotten values. `purge` also removes them from history; see
        `forget`. With `if_unchanged`, the fact that was read or its `version`, one fact is
        forgotten only if it was not changed since.

        Raises:
            ChangedError: The fact is not as it was read, or was deleted. Nothing was forgotten.
            ValueError: `if_unchanged` was passed with several ids.
        """
        async with self._events.before(MemoryOperation.FORGET):
            store = fact_store(self._provider)
            wanted = None if if_unchanged is None else expected_version(if_unchanged)
            if wanted is not None and len(fact_ids) != 1:
                raise InputValueError(
                    "if_unchanged is about one fact: delete(id, if_unchanged=...)"
                )
        count = 0 if wanted is None else await self._delete_unchanged(fact_ids[0], wanted)
        if wanted is not None and not purge:
            return Forgotten(count)
        places = await store.list_places() if fact_ids else []
        counts = [
            await store.forget(place.subject, place.scope, fact_ids=fact_ids, purge=purge)
            for place in places
        ]
        return Forgotten.total([count, *counts])

    async def _delete_unchanged(self, fact_id: str, wanted: str) -> int:
        """Forget a fact that is as it was read, and return the number of its values."""
        placed = await self.get(fact_id)
        if placed is None:
            raise await self._deleted(fact_id)
        check, count = self._check(placed, wanted), 0

        def change(ledger: Ledger, now: str) -> Entry:
            nonlocal count
            check(ledger, now)
            names = ledger.matching(Condition(fact_ids=frozenset([fact_id])), now)
            count = len(names)
            return {"at": now, "forget": names}

        store = fact_store(self._provider)
        await store.amend_current(change, placed.place.subject, placed.place.scope)
        return count

    def _check(self, placed: PlacedFact, wanted: str) -> Callable[[Ledger, str], None]:
        """Return a function that raises `ChangedError` unless a fact is as it was read."""
        place, concept, fact_id = placed.place, placed.fact.concept, placed.fact.id
        known = self._parts.reader.concepts.get(concept.keyword)

        def check(ledger: Ledger, now: str) -> None:
            every = facts_of(
                ledger.at(now), concept.keywords, [] if known is None else [known], now
            )
            found = [each for each in every if each.id == fact_id]
            if not any(is_version(wanted, each) for each in found):
                raise changed(found or every, place)

        return check

    async def _deleted(self, fact_id: str) -> ChangedError:
        """Return the error for a fact that is not current any more, with what replaced it."""
        store, known = fact_store(self._provider), self._parts.reader.concepts.values()
        places = await store.list_places()
        for place in places:
            concept = _concept_of(await store.entries(place.subject, place.scope), fact_id)
            if concept is not None:
                every = await store.load_all(place.subject, place.scope, concepts=known)
                of_it = [each for each in every if each.concept.keyword == concept.keyword]
                return changed(of_it, place)
        return ChangedError("No place of this memory has or had the fact: it was erased or purged")

    async def history(self, fact_id: str) -> History:
        """Return the history of one record, oldest first; empty if no place ever had it.

        It contains saves and updates, confirmations of its values, and deletions. Values of the
        memory's `concepts` have their types if they fit; all others are plain JSON. A deleted
        record is found as long as its history is stored.
        """
        async with self._events.before(MemoryOperation.HISTORY):
            store = fact_store(self._provider)
        concepts = self._parts.reader.concepts.values()
        known = {word: each for each in concepts for word in each.keywords}
        for place in await store.list_places():
            entries = await store.entries(place.subject, place.scope)
            if (concept := _concept_of(entries, fact_id)) is not None:
                concept = known.get(concept.keyword, concept)
                history = await store.history(concept, place.subject, place.scope)
                return _concerning(history, fact_id)
        return History()

    async def forget(
        self,
        *,
        purge: Purge = False,
        subjects: Iterable[MemorySubject] | None = None,
        scopes: Iterable[ScopeChoice] | None = None,
        **conditions: Unpack[ForgetConditions[T]],
    ) -> Forgotten:
        """Forget the current values that meet all conditions; return their number. See `delete`.

        Without current ones, it forgets those of the concepts that have held before: then no
        question about another time finds them.

        It searches the places of `subjects` and `scopes`, by default the memory's own. Places are
        written in sequence: if one fails, the values forgotten in others stay forgotten, and the
        call can be repeated.

        Args:
            purge: Also remove the values from history. `quoting` of the result lists facts whose
                quotes contain them; `purge="quotes"` removes the values from these quotes.
                `mentioning` lists facts whose keyword, description or metadata contains them.
            subjects: The subjects to search; by default those of the memory.
            scopes: The scopes to search; by default all scopes of the memory.
            conditions: What selects the values, such as `concept` and `value`. `ForgetConditions`
                has all of them.

        Raises:
            UnboundSubjectError: A subject is per entity and has no entity. Nothing was forgotten.
            MemoryAccessError: One of the places is not writable in this view. Nothing was
                forgotten.
            ValueError: No condition was passed, `value` was passed without `concept`, or
                `older_than` is naive. Nothing was forgotten.
        """
        # All places are checked before the first write: a rejected call forgets nothing.
        async with self._events.before(MemoryOperation.FORGET) as operation:
            store = fact_store(self._provider)
            those = None if subjects is None else checked_subjects(subjects)
            where = None if scopes is None else self._selection.profile.scopes(scopes)
            operation.places = self._selection.requested(those, where)
            places = self._selection.writable_places(those, where)
        counts: list[int] = []
        for place in places:
            count = await store.forget(place.subject, place.scope, purge=purge, **conditions)
            counts.append(count)
        return Forgotten.total(counts)

    async def reset(self, *, confirm: bool = False, everything: bool = False) -> ResetReport:
        """Erase all places of a view, or of the whole store, with their history.

        Without `confirm` nothing is erased, and the report lists the places that would be. Places
        are erased physically, in sequence. If one fails, those before it are erased, and the call
        can be repeated. `memory.store.erase` erases a single place.

        Args:
            confirm: Whether to erase.
            everything: Whether to allow erasing the whole store, if the memory is not a view.

        Raises:
            ValueError: The memory is not a view, and `everything` is not set.
            MemoryAccessError: The view is read-only, and `confirm` is set. Nothing was read.
        """
        async with self._events.before(MemoryOperation.ERASE):
            store = fact_store(self._provider)
            if self._selection.boundary == UNBOUNDED and not everything:
                raise InputValueError(
                    "This would erase the whole store: create a view of the places to erase, as in "
                    "memory.view(subjects=[USER.of('alice')]).contents.reset(confirm=True), or "
                    "pass everything=True"
                )
            if confirm and self._selection.boundary.is_read_only:
                raise MemoryAccessError(
                    "This view is read-only, so nothing in it can be erased: use the memory that "
                    "the view was created from"
                )
        found = await store.places()
        receipts: list[ErasureReceipt] = []
        if confirm:
            for info in found:
                receipts.append(await store.erase(info.subject, info.scope))  # noqa: PERF401
        return ResetReport(found, receipts)

    async def tidy(
        self, *, expired: bool = True, history_older_than: timedelta | None = None
    ) -> TidyReport:
        """Remove expired values and old history from the disk, in every place of the memory.

        Current values do not change. Each place is rewritten in one atomic step.

        Args:
            expired: Whether to remove expired values with their history.
            history_older_than: Remove values that were replaced, forgotten or expired longer ago
                than this; None keeps them.

        Raises:
            ValueError: The time span is negative.
            MemoryAccessError: The view is read-only.
        """
        async with self._events.before(MemoryOperation.FORGET):
            store, keep, now = fact_store(self._provider), history_older_than, stamp(self._clock())
            if keep is not None:
                example = "history_older_than=timedelta(days=365)"
                expect_within(keep, timedelta, "history_older_than", example, least=timedelta(0))
        cutoff = "" if keep is None else before(now, keep)

        def edit(entries: Sequence[Entry]) -> Sequence[Entry | None]:
            from factmem.ledger._removal import tidied  # slow to import

            return tidied(entries, now, expired=expired, cutoff=cutoff)

        changed: dict[Place, int] = {}
        for info in await store.places():
            if count := await store.rewrite(edit, info.subject, info.scope):
                changed[info.place] = count
        return TidyReport([*changed], sum(changed.values()))

    async def move(self, source: Place, target: Place) -> MoveReport:
        """Move a place with its history to another one, such as a guest to an account.

        The source is copied, emptied and erased. To finish an interrupted move, repeat the call:
        nothing is duplicated. Facts that are saved to the source in the meantime move as well. If
        both places have a concept with one value, the value of the source becomes the newest.
        Entries older than the target's newest entry are recorded with the time of that entry.

        Raises:
            ValueError: Source and target are the same place.
            MemoryAccessError: One of the places is not writable in this view. Nothing was moved.
        """
        async with self._events.before(MemoryOperation.SAVE):
            store = fact_store(self._provider)
            for place in checked_places([source, target]):
                check_writable(place, self._selection.boundary)
        return await move_place(store, source, target)

    async def export(self) -> dict[str, JsonValue]:
        """Return all data of the memory's places with their history, as plain JSON.

        Use it when a person asks for their stored data: `memory.of("alice").contents.export()`,
        then `json.dumps`. `entries` are the ledger's entries: saves with value, dates, source,
        quote and metadata, and deletions. To move facts, use `export_facts`.
        """
        async with self._events.before(MemoryOperation.HISTORY):
            store = fact_store(self._provider)
        places: list[JsonValue] = []
        for info in await store.places():
            entries: Any = await store.entries(info.subject, info.scope)
            places.append(
                {
                    "scope": str(info.scope),
                    "subject": info.subject.name,
                    "entity": info.subject.entity,
                    "current_values": info.count,
                    "entries": entries,
                }
            )
        return {"exported_at": stamp(self._clock()), "places": places}

    async def _all_facts(self) -> AsyncGenerator[PlacedFact]:
        """Yield all current facts; a fixed number of places is read at a time."""
        places = [info.place for info in await self.places()]
        for first in range(0, len(places), _AT_ONCE):
            for each in await self._parts.reader.as_stored(places[first : first + _AT_ONCE]):
                yield each


async def clear_in(parts: MemoryParts, concept: Concept[Any, Any]) -> Forgotten:
    """Forget the current values of a concept."""
    places = parts.selection.places()
    found = await parts.reader.concept(checked_concept(concept), places)
    if not found.placed and not found.unreadable:  # else values that held before are forgotten
        return Forgotten(0)
    return await MemoryContents(parts).forget(concept=concept)


def _updated(fact: AnyFact, changes: Mapping[str, Any]) -> AnyFact:
    right, wrong = ("value", "values") if isinstance(fact, SingleFact) else ("values", "value")
    if wrong in changes:
        raise InputValueError(
            f"Concept {fact.concept.keyword!r} needs {right}, not {wrong}: update(id, {right}=...)"
        )
    # The old quote does not prove a new value.
    before: Any = replace(fact, source=None) if right in changes else fact
    updated: AnyFact = replace(before, **changes)
    return updated


async def update_record(
    store: FactStore,
    placed: PlacedFact[AnyFact],
    changes: Mapping[str, Any],
    check: Callable[[Ledger, str], None] | None = None,
) -> bool:
    """Write an update as one entry; False if the fact is no longer current.

    Unchanged values keep their dates, and are confirmed unless only metadata, importance or expiry
    change; other values are forgotten, and new values are added with the same id.
    """
    new = _updated(placed.fact, changes)

    def change(entries: Sequence[Entry], now: str) -> list[Entry]:
        ledger, keyword = Ledger(entries), new.concept.keyword
        if check is not None:
            check(ledger, now)
        names = ledger.matching(
            Condition(fact_ids=frozenset([new.id]), keywords=frozenset(new.concept.keywords)), now
        )
        if not names:
            return []
        fact = stored(new)
        items = ledger.items(keyword, now)
        kept = {canonical(each) for each in fact.get("values", [fact.get("value")])}
        own = [item for item in items.values() if item.fact_id == new.id]
        if "value" in fact and own:  # of the values of another program only the one that was shown
            own = [last_said(own)]
        if not kept <= items.keys():
            fact["timestamp"] = now
        elif changes.keys() <= {"metadata", "importance", "expires_at"}:
            fact["edited"] = True
        if "metadata" in changes:
            fact["metadata"] = dict(checked_metadata(changes["metadata"]))
        gone = {name_of(keyword, item) for item in own if canonical(item.value) not in kept}
        former = [name for name in names if name[0] != keyword]
        forget = (
            former
            if "value" in fact and not ledger.is_wide(keyword, now)
            else [each for each in names if each in gone or each in former]
        )
        entry: Entry = {"at": now, "facts": [fact]}
        return [{**entry, "forget": forget} if forget else entry]

    return await store.amend(change, placed.place.subject, placed.place.scope) > 0


def _concept_of(entries: Iterable[Entry], fact_id: str) -> Concept[Any, Any] | None:
    for entry in entries:
        for fact in entry.get("facts", ()):
            if fact["id"] == fact_id:
                return Concept(fact["keyword"], fact["description"], value_type=JsonValue)
    return None


def _concerning(history: Iterable[HistoryEntry], fact_id: str) -> History:
    """Return the entries of one fact, and those that confirmed a value while it had that value."""
    found = History()
    values: set[Canonical] = set()
    for entry in history:
        fact = entry.fact
        if fact is None:
            if fact_id in entry.forgotten:
                found.append(entry)
            continue
        theirs = set(keys_of(fact))
        if fact.id == fact_id:
            values |= theirs
            found.append(entry)
        elif entry.action is HistoryAction.CONFIRMED and values & theirs:
            found.append(entry)
    return found
