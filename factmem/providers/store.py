"""FactStore, the class of stores: checks arguments and decides how a place's ledger changes."""

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from dataclasses import astuple
from datetime import datetime
from functools import partial
from itertools import chain
from typing import Any, Self, TypeVar

from anyio.lowlevel import checkpoint_if_cancelled
from anyio.to_thread import run_sync
from typing_extensions import Unpack

from factmem._arguments import expect, expect_function, guided
from factmem._concurrency import paused_collection
from factmem.errors import StorageError
from factmem.ledger._merging import CurrentChange, amended, edited, received
from factmem.ledger._reads import found_fact
from factmem.ledger.entries import (
    Amendment,
    Edit,
    Entry,
    StoredFact,
    exported,
    keywords_of,
    untimed,
)
from factmem.ledger.history import FactChange, Histories, History, HistorySeries, held_at, history
from factmem.ledger.ledger import Ledger, Proposal
from factmem.models.facts import (
    AnyFact,
    Concept,
    ConceptDefinition,
    L,
    checked_concept,
    checked_concepts,
)
from factmem.models.places import (
    DEFINITIONS,
    UNBOUNDED,
    Boundary,
    Identity,
    MemoryScope,
    MemorySubject,
    Place,
    identity_of,
    present_actor,
)
from factmem.models.when import When, WhenLike, moment, stamp
from factmem.providers._backend import (
    FEW,
    Backend,
    Change,
    ErasedSinceError,
    Present,
    check_fitting,
    check_room,
)
from factmem.providers._definitions import Definition, begun, define, definitions_in
from factmem.providers._description import described, phrase_of
from factmem.providers.conversation_store import ConversationStore
from factmem.providers.results import (
    ARGUMENTS,
    NAMES,
    ErasureReceipt,
    ForgetConditions,
    Forgotten,
    Learned,
    Moment,
    PlaceChanges,
    PlaceInfo,
    PlaceLimit,
    Purge,
    RetractedFact,
    SearchAnswer,
    SearchQuestion,
    ShredReceipt,
    TextVectors,
    TurnCandidate,
    checked_page,
    condition_of,
    in_order,
    learned,
    retracted_values,
    stamp_of,
    statements,
    stored_fact,
    stored_facts,
)

__all__ = ["FactStore"]

T = TypeVar("T")
R = TypeVar("R")


@guided(NAMES, arguments=ARGUMENTS, calls=("save",), closing=True)
class FactStore:
    """A provider with history, forgetting and listing, over a backend that stores its entries.

    It has the four methods of `AgentMemoryProvider`, and the others. `save` and `learn` encode an
    entry and append it, whatever the place has: concurrent ones can share a durable write, and what
    an entry changes is decided when it is folded. The others depend on what is there: they pass a
    pure function, which the backend calls under the lock of the place, and again if a transaction
    is repeated. Reads of the present first ask for what is in memory (`Backend.warm`).

    Every method raises `StorageError` if the store could not be read or written.

    Args:
        backend: Stores the entries. Closing the store closes it.
        limit: The most that one place may have.
    """

    _conversations: ConversationStore | None = None

    def __init__(self, backend: Backend, limit: PlaceLimit | None = None) -> None:
        self._backend = backend
        self._is_closed = False
        self._series = HistorySeries()
        example = "limit=PlaceLimit(values=10_000)"
        self._limit = None if limit is None else expect(limit, PlaceLimit, "limit", example)

    async def save(self, fact: AnyFact, subject: MemorySubject, scope: MemoryScope) -> None:
        """Store a fact as a statement about its concept; see `AgentMemoryProvider.save`."""
        identity = self._enter(subject, scope)
        await self._append(identity, [stored_fact(fact)])

    async def save_many(
        self, facts: Iterable[AnyFact], subject: MemorySubject, scope: MemoryScope
    ) -> None:
        """Store several facts of one place in one durable write, all or none.

        No reader sees a part of them, and neither does anyone after a crash or a failure. Facts of
        several places need several calls. An empty list does nothing. Raises as `save` does.
        """
        identity = self._enter(subject, scope)
        if stored := stored_facts(facts):
            await self._append(identity, stored)
        else:
            await checkpoint_if_cancelled()

    async def _append(self, identity: Identity, facts: Sequence[StoredFact]) -> None:
        entry = untimed(facts)
        if self._limit is not None:
            await check_room(self._limit, self._backend, identity, entry)
        await self._backend.append(identity, entry)

    async def load(
        self,
        concept: Concept[Any, L],
        subject: MemorySubject,
        scope: MemoryScope,
        *,
        as_of: datetime | None = None,
        valid_at: WhenLike | None = None,
    ) -> list[L]:
        """Return the facts of a concept that are current, or were at `as_of`.

        `as_of` is the time of the read, by what was recorded until then. `valid_at` is the time
        about which is asked, as known now or at `as_of`: a moment, or a day, month or year, such as
        "2026-06", for what held in it. A SINGLE concept has the last of its values then.

        Raises:
            StoredFactError: A stored value does not fit the concept's `value_type`.
            ValueError: `as_of` or `valid_at` is naive, or `valid_at` is no time.
        """
        if type(concept) is not Concept:
            checked_concept(concept)
        until = None if as_of is None else stamp_of(as_of)
        identity = self._enter(subject, scope)

        def present(ledger: Ledger, now: str) -> list[L]:
            return ledger.load(concept, now)

        await checkpoint_if_cancelled()
        if valid_at is not None:
            return await self._held(identity, until, valid_at, present)
        if until is None:
            facts = self._backend.warm(identity, present)
            if facts is not None:
                return facts
        keyword = None if concept.was else concept.keyword
        return await self._backend.present(identity, present, until=until, keyword=keyword)

    async def load_all(
        self,
        subject: MemorySubject,
        scope: MemoryScope,
        *,
        concepts: Iterable[Concept[Any, Any]] = (),
        as_of: datetime | None = None,
        valid_at: WhenLike | None = None,
    ) -> list[AnyFact]:
        """Return all facts that are current, or were at `as_of`, or held at `valid_at`.

        A store does not know value types, so values are plain JSON. The facts of the concepts in
        `concepts` are returned as by `load`, with their types. Values that do not fit the type are
        returned in facts of their own, as plain JSON; the `value_type` of such a fact's concept is
        not that of the concept in `concepts`.

        Raises:
            ValueError: `as_of` or `valid_at` is naive, or `valid_at` is no time.
        """
        named = checked_concepts(concepts)
        until = None if as_of is None else stamp_of(as_of)
        identity = self._enter(subject, scope)

        def present(ledger: Ledger, now: str) -> list[AnyFact]:
            return ledger.load_all(named, now)

        if valid_at is not None:
            return await self._held(identity, until, valid_at, present)
        if until is None:
            return await self._presented(identity, present, most=FEW)
        return await self._backend.present(identity, present, until=until)

    async def find(
        self, fact_id: str, place: Place, *, concepts: Iterable[Concept[Any, Any]] = ()
    ) -> AnyFact | None:
        """Return the fact of `load_all` with this id; None if there is none."""
        named, identity = checked_concepts(concepts), self._enter_place(place)
        found = await self._presented(
            identity, lambda ledger, now: found_fact(ledger.at(now), fact_id, named, now), most=FEW
        )
        return found[0] if found else None

    async def load_by_description(
        self, description: str, subject: MemorySubject, scope: MemoryScope
    ) -> list[AnyFact]:
        """Return the current facts that match a few words; see `AgentMemoryProvider`."""
        phrase = phrase_of(description)
        return described(await self.load_all(subject, scope), phrase)

    async def history(
        self, concept: Concept[Any, Any], subject: MemorySubject, scope: MemoryScope
    ) -> History:
        """Return every save, confirmation and forget of a concept, oldest first.

        A fact with a value that does not fit the concept's `value_type` is returned as plain JSON,
        and its entry `is_unreadable`.
        """
        checked_concept(concept)
        identity = self._enter(subject, scope)
        series = self._series
        if series.identity != identity:
            self._series = HistorySeries(identity)
            return await self._backend.entries(identity, lambda entries: history(entries, concept))
        version = await self.version(subject, scope)
        if version != series.version:
            read = await self._backend.entries(identity, Histories)
            self._series = series = HistorySeries(identity, version, read)
        return await series.of(concept)

    async def proposals(
        self,
        subject: MemorySubject,
        scope: MemoryScope,
        *,
        concepts: Iterable[Concept[Any, Any]] = (),
    ) -> list[Proposal]:
        """Return what waits for a decision in a place: values, and ends of confirmed values.

        `concepts` are those whose value types are known.
        """
        named, identity = checked_concepts(concepts), self._enter(subject, scope)

        return await self._presented(identity, lambda ledger, now: ledger.proposals(named, now))

    async def forget(
        self,
        subject: MemorySubject,
        scope: MemoryScope,
        *,
        purge: Purge = False,
        **conditions: Unpack[ForgetConditions[T]],
    ) -> Forgotten:
        """Forget the current values that meet all given conditions, and return their number.

        They disappear from all reads at once and stay forgotten until they are said again: a save
        of them with an earlier `timestamp`, whenever recorded, is history at once. The history
        still shows the earlier saves and the forget.

        What was forgotten has never held: no `valid_at` finds a time at which a forgotten value
        held, nor, if `concept` or `concepts` is the only condition, any earlier value. Values of a
        concept that are over are forgotten even if nothing is current.

        The conditions, such as `concept` and `value`, are those of `ForgetConditions`. With `purge`
        the storage is also rewritten without the values, including the history, messages and the
        reasons of changes; with `purge="quotes"` also the quotes of other facts. The result says
        where a value is left: as a part of a word, or in what no purge changes.

        Returns:
            The number of values that were current; if none was, of those of `concept` or `concepts`
            that had held before. It is an `int` that also names what a purge has left.

        Raises:
            ValueError: No condition was given (use `erase` to empty a place), `value` was given
                without `concept`, or `older_than` is naive.
        """
        from factmem.providers._forgetting import Forgetting  # most processes forget nothing

        identity = self._enter(subject, scope)
        forgetting = Forgetting(condition_of(**conditions), purge)
        count = changed = await self._backend.change(identity, forgetting.decide)
        if forgetting.is_over:  # `change` saw current values only; the others are in the entries
            await self.amend(forgetting.end_former, subject, scope)
            count = forgetting.former
        found = Forgotten(count - changed, *forgetting.left)
        return Forgotten.total([changed, found])  # `changed` may say that copies remain

    async def erase(
        self, subject: MemorySubject, scope: MemoryScope, *, only_empty: bool = False
    ) -> ErasureReceipt:
        """Remove a place with its whole history, physically, and return a receipt.

        With `only_empty`, nothing happens to a place that has an entry, and the receipt is that of
        a place that does not exist. No save can happen between the check and the erasure.
        """
        erased = await self._backend.erase(self._enter(subject, scope), only_empty=only_empty)
        return ErasureReceipt(scope, subject, moment(erased.at), *astuple(erased)[1:])

    async def places(
        self,
        *,
        subjects: Iterable[MemorySubject] | None = None,
        scopes: Iterable[MemoryScope] | None = None,
        within: Boundary = UNBOUNDED,
    ) -> list[PlaceInfo]:
        """Return the places that are not empty, ordered by identity.

        Reads each returned place, to count its facts, and no others, such as those of other
        customers. Names that only look alike are different names. An empty list matches nothing.

        Args:
            subjects: Only places of these subjects; all by default.
            scopes: Only places in these scopes; all by default.
            within: Only places inside a boundary, such as that of a view.

        Raises:
            UnboundSubjectError: One of `subjects` is per entity and has no entity.
            TypeError: `subjects` or `scopes` is not a list of these.
        """
        wanted = within.narrowed(subjects=subjects, scopes=scopes)
        self._check_open()
        return in_order(await self._backend.places(wanted))

    async def entries(self, subject: MemorySubject, scope: MemoryScope) -> list[Entry]:
        """Return the ledger of a place as plain JSON, oldest first, in the form of `replay`."""
        return await self._backend.entries(self._enter(subject, scope), exported)

    async def replay(
        self, entries: Sequence[Entry], subject: MemorySubject, scope: MemoryScope
    ) -> int:
        """Append entries recorded elsewhere, with their own times, and return how many were new.

        An entry is new unless the place already has all of its facts, by id, so the same entries
        can be replayed twice. What is current depends on when it was said, not on when it was
        replayed. After an error none of the entries is stored; after a crash all are, or none.

        Raises:
            ValueError: An entry is invalid, or was recorded over ten minutes after this moment.
        """
        identity, by = self._enter(subject, scope), present_actor()
        if not entries:
            await checkpoint_if_cancelled()
            return 0
        given = await run_sync(received, entries)

        def extend(known: list[Entry], now: str) -> Change:
            from factmem.ledger._merging import check_recorded, imported, merged  # slow to import

            found = merged(known, imported(known, given, now), by)
            check_recorded(found.new, now)
            check_fitting(self._limit, identity, known, found.new, now)
            is_edited, is_purge = found.order is not None, found.purged is not None
            edit, turns = found.edit if is_edited else None, found.turns if is_purge else None
            return Change(entries=found.new, edit=edit, turns=turns)

        # Parts of the given entries can only be in known ones that are not older than all of them.
        since = None if self._limit else given[0]["at"]
        return await self._backend.extend(identity, extend, since=since)

    async def amend(self, change: Amendment, subject: MemorySubject, scope: MemoryScope) -> int:
        """Append the entries that `change` computes from a place's ledger; return their number.

        No other write to the place happens in between. Use it for changes that depend on current
        values, such as the replacement of one value by another. Each entry is stored completely or
        not at all.

        `change` is called with the entries, oldest first, and the time of its own entries, as a
        stamp. It may run in a worker thread, with the store locked: it must be quick and must not
        call the store. Its exceptions are raised, and nothing is stored; an invalid entry is a
        `ValueError`.
        """
        identity, by = self._enter(subject, scope), present_actor()

        def extend(known: list[Entry], now: str) -> Change:
            new = amended(known, now, change, by)
            check_fitting(self._limit, identity, known, new, now)
            return Change(entries=new)

        return await self._backend.extend(identity, extend)

    async def amend_current(
        self, change: CurrentChange, subject: MemorySubject, scope: MemoryScope
    ) -> int:
        """Append what `change` computes from the current facts; `amend` without history.

        A store keeps current facts in memory, so the cost does not grow with the history. No other
        write to the place happens in between.

        `change` is called with the ledger of the place and the time as a stamp, and returns an
        entry with `facts`, `forget` or both, or None for no change. The rules for `change` of
        `amend` apply. It may be called again. The result is the number of entries, 1 or 0.
        """
        expect_function(change, "change", "amend_current(change, subject, scope)")
        count: int | None = None
        by = present_actor()

        def decide(ledger: Ledger, now: str) -> Change:
            nonlocal count
            made = amended((), now, lambda _, at: list(filter(None, [change(ledger, at)])), by)
            count = len(made)  # of the last call: a transaction may be repeated
            return Change(made[0] if made and keywords_of(made[0]) else None)

        if self._limit is None:  # which counts the bytes of all entries
            await self._backend.change(self._enter(subject, scope), decide)
        if count is None:  # a backend does not ask about a place that does not exist
            return await self.amend(
                lambda known, now: list(filter(None, [change(Ledger(known), now)])), subject, scope
            )
        return count

    async def rewrite(self, edit: Edit, subject: MemorySubject, scope: MemoryScope) -> int:
        """Rewrite the ledger of a place, history included; return how many entries changed.

        Use it to remove old history or to rename a concept, which appending cannot do. No other
        write to the place happens in between. The result is stored completely or not at all, and no
        copy of removed entries remains. Times cannot be changed.

        `edit` is called with the entries, oldest first, and returns for each one the same entry,
        another one, or None to remove it. The rules for `change` of `amend` apply.
        """
        identity = self._enter(subject, scope)
        changed = 0

        def rewritten(entries: Sequence[Entry]) -> Sequence[Entry | None]:
            nonlocal changed
            after = edited(entries, edit)
            changed = sum(new is not old for new, old in zip(after, entries, strict=True))
            return after

        await self._backend.change(identity, lambda ledger, now: Change(edit=rewritten))
        return changed

    async def aclose(self) -> None:
        """Finish accepted calls and release all resources. Later calls raise `ValueError`."""
        if not self._is_closed:
            self._is_closed = True
            await self._backend.close()

    @property
    def small_provider(self) -> str | None:
        """The class of the wrapped provider, if it has only four methods; else None."""
        return None

    @property
    def conversations(self) -> ConversationStore:
        """The conversations of the store.

        Raises:
            StorageError: This store keeps none.
        """
        if self._conversations is None:
            raise StorageError(
                f"{type(self).__name__} keeps no conversations: use LocalFileMemoryProvider, "
                f"PostgresMemoryProvider or InMemoryProvider"
            )
        return self._conversations

    async def concepts(self) -> list[ConceptDefinition]:
        """Return the definition of each concept, by keyword, as the store was given it."""
        self._check_open()
        known = await self._backend.present(DEFINITIONS, definitions_in)
        return [known[keyword] for keyword in sorted(known)]

    async def define(self, concepts: Iterable[Definition]) -> None:
        """Store the definitions of a program's concepts, in one durable write.

        A definition replaces the stored one if it can read all of its values: a wider type, one
        with `read`, MULTIPLE instead of SINGLE, a new keyword with `was`. Others change nothing;
        `compared` of the result of `concepts` names them. A definition of another store replaces
        one with a lower version.
        """
        self._check_open()
        await define(self._backend, concepts)

    async def begin(self, operation: str) -> datetime:
        """Return when an operation over the whole store was begun; the first call sets it."""
        self._check_open()
        return await begun(self._backend, operation)

    async def list_places(
        self,
        *,
        subjects: Iterable[MemorySubject] | None = None,
        scopes: Iterable[MemoryScope] | None = None,
        within: Boundary = UNBOUNDED,
        after: Place | None = None,
        limit: int | None = None,
    ) -> list[Place]:
        """Return the places that are not empty, in the store's own order, without reading them.

        A place that exists for the whole time of a listing is in exactly one page. A place that is
        created or erased meanwhile is in one page or in none. Subjects have no description.

        Args:
            subjects: Only places of these subjects; all by default. `USER.every("acme")` stands
                for all users of a tenant.
            scopes: Only places in these scopes; all by default.
            within: Only places inside a boundary, such as that of a view.
            after: The last place of the page before. It need not exist any more.
            limit: The maximum number of places to return; None for all.

        Raises:
            UnboundSubjectError: A subject is per entity and has no entity.
            TypeError: An argument is of the wrong type.
            ValueError: `limit` is less than 1.
        """
        wanted = within.narrowed(subjects=subjects, scopes=scopes)
        identity, most = checked_page(after, limit)
        self._check_open()
        found = await self._backend.identities(wanted, identity, most)
        if len(found) <= FEW:
            return list(map(Place.of_identity, found))
        return await run_sync(_places_of, found)

    async def version(self, subject: MemorySubject, scope: MemoryScope) -> str:
        """Return a string that changes whenever the result of `load_all` may have changed.

        Takes microseconds if nothing changed. Versions of different instances are not comparable.
        None means that the version is unknown.
        """
        return await self._presented(self._enter(subject, scope), Ledger.version)

    def watch(
        self,
        places: Iterable[Place],
        *,
        since: datetime | str | None = None,
        concepts: Iterable[Concept[Any, Any]] = (),
    ) -> AsyncGenerator[FactChange]:
        """Yield the changes of places as they are recorded, by any process, until it is closed.

            async for change in store.watch(memory.places):
                print(change.actor, change.kind, [fact.text for fact in change.facts])

        Each is yielded once, never before one that was committed earlier. Keep `change.position`:
        `since=position` continues after it, whatever was killed or imported meanwhile. 50 times a
        second the store is asked for what is new.

        Args:
            places: The places; they need not exist yet.
            since: A position; a place that it lacks is read from its begin. Or a time: what was
                recorded or imported from then on. By default, changes from the first iteration on.
            concepts: The concepts whose value types are known.
        """
        from factmem.providers._watching import watched  # few programs watch

        return watched(self._backend, self._check_open, places, since=since, concepts=concepts)

    async def changes(
        self,
        subject: MemorySubject,
        scope: MemoryScope,
        *,
        since: str,
        concepts: Iterable[Concept[Any, Any]] = (),
    ) -> PlaceChanges | None:
        """Return the changes since a version; None if they are unknown.

        The changes, applied to the result of `load_all` at that version, must give its present
        result with the same concepts. Forgotten, expired and confirmed facts are changes too. After
        None the caller reads the whole place. `since` is the result of `version` from before the
        place was read, or the version of the last changes.

        Raises:
            StoredFactError: A changed value does not fit the type of a concept in `concepts`.
        """
        named = checked_concepts(concepts)
        identity = self._enter(subject, scope)

        def present(ledger: Ledger, now: str) -> PlaceChanges | None:
            changes = ledger.changes(since, named, now)
            return None if changes is None else PlaceChanges(ledger.version(now), changes)

        return await self._presented(identity, present, most=FEW)

    async def read_index(self, subject: MemorySubject, scope: MemoryScope) -> bytes | None:
        """Return the index last written for a place; None if there is no complete one."""
        index = await self._backend.read_index(self._enter(subject, scope))
        return None if index is None else bytes(index)

    async def write_index(
        self, subject: MemorySubject, scope: MemoryScope, index: bytes, *, version: str
    ) -> bool:
        """Replace the index of a place, unless the place has changed.

        Concurrent readers, in other processes too, get the complete old or the complete new index.
        The write is not durable: a power failure may lose it. `version` is that from before the
        indexed facts were read. If the place has another one now, nothing is written, so that a
        value purged meanwhile is not stored again. Returns whether it was written.
        """
        return await self._backend.write_index(self._enter(subject, scope), index, version)

    async def moment(self, subject: MemorySubject, scope: MemoryScope) -> Moment:
        """Return the present moment of a place; see `learn`."""
        return Moment(await self._backend.moment(self._enter(subject, scope)))

    async def learn(
        self,
        facts: Iterable[AnyFact],
        subject: MemorySubject,
        scope: MemoryScope,
        *,
        retracted: Iterable[RetractedFact] = (),
        since: Moment | None = None,
    ) -> Learned:
        """Record statements in one place, all or none, in one durable write.

        The order is that of `save`, and the result names what it made late: a fact never replaces a
        value that was said later, and never restores a value that was retracted or forgotten later.
        A retraction never ends a value that was said later. Such late statements are recorded only
        in the history. A time after the store's clock counts as now.

        The `timestamp` of a fact is the time it was said; the values of `retracted` are no longer
        true. `since` is the moment before the chat was read. Nothing is recorded if any process has
        erased or purged the place since then. A place that did not exist at that moment counts as
        erased if any place was.

        Raises:
            ValueError: A value would change in a round trip through JSON. Nothing was recorded.
            PlaceFullError: The facts exceed the limit of the place. Nothing was recorded.
        """
        identity = self._enter(subject, scope)
        stated, ended = statements(facts), list(retracted)
        records = [retracted_values(each) for each in ended]
        if not stated and not records:
            await checkpoint_if_cancelled()
            return Learned()
        entry = untimed(stated, retract=chain.from_iterable(records))
        if self._limit is not None and stated:
            await check_room(self._limit, self._backend, identity, entry)
        try:
            await self._backend.append(identity, entry, since=since and since.state)
        except ErasedSinceError:
            return Learned(is_erased=True)

        # The fold decides what the statements changed: later ones may have been there already.
        return await self._presented(
            identity, partial(learned, stated, list(zip(ended, records, strict=True)))
        )

    async def erased_at(self, subject: MemorySubject, scope: MemoryScope) -> datetime | None:
        """Return when a place with facts was last erased; None for never, or if that is unknown.

        An import skips what was recorded before.
        """
        return None

    async def replay_erasures(self, erased: Iterable[ErasureReceipt]) -> int:
        """Erase again what an older copy of the store brought back; return the number of places.

        Each place loses what was recorded in it until the time of its receipt; later entries stay.
        The receipts are those since the copy was made, which the application keeps elsewhere. After
        an error the same call continues.
        """
        return sum([await self._erased_again(each) for each in erased])

    async def _erased_again(self, receipt: ErasureReceipt) -> bool:
        """Remove what a place has from before an erasure; return whether it had anything."""
        subject, scope, until = receipt.subject, receipt.scope, receipt.erased_at
        entries, kept = await self.entries(subject, scope), stamp(until)
        is_old = [entry["at"] <= kept for entry in entries]
        try:
            keeper = self.conversations
        except StorageError:  # this store keeps none
            keeper = None
        chats = [] if keeper is None else await keeper.conversations(receipt.place)
        if all(is_old) and all(chat.last_at <= until for chat in chats):
            if entries or chats:
                await self.erase(subject, scope)
            return bool(entries or chats)
        for chat in chats:
            await self.conversations.remove(chat.id, receipt.place, before=until)

        def younger(entries: Sequence[Entry]) -> list[Entry | None]:
            return [each if each["at"] > kept else None for each in entries]

        if any(is_old):
            await self.rewrite(younger, subject, scope)
        return any(is_old) or any(chat.first_at <= until for chat in chats)

    async def is_searched(self, places: Sequence[Place], *, meaning: bool) -> bool:
        """Return whether `candidates` searches these places, all of a recall, also by `meaning`."""
        return False

    async def facts_to_embed(
        self, place: Place, *, model: str, dimensions: int, limit: int
    ) -> Mapping[bytes, AnyFact]:
        """Return facts whose text has no vector of a model yet, by the digests of their texts.

        Empty if the store does not keep vectors.
        """
        return {}

    async def add_vectors(
        self, place: Place, vectors: TextVectors, *, model: str, dimensions: int
    ) -> None:
        """Store the vectors of texts by their digests; None marks a text that has no vector.

        Texts that no fact has any more are ignored.
        """

    async def candidates(
        self, places: Sequence[Place], question: SearchQuestion
    ) -> SearchAnswer | None:
        """Return the facts that may answer a question, from these places only.

        It finds what was saved before the call, and nothing that was forgotten before it. None if
        the index of a place could not be brought up to date: the recall then reads the places.
        """
        return None

    async def turn_candidates(
        self, places: Sequence[Place], question: SearchQuestion
    ) -> Sequence[TurnCandidate] | None:
        """Return the messages that may answer a question; None if the recall is to read them."""
        return None

    async def shred(self) -> ShredReceipt:
        """Destroy the keys of all facts that were erased or purged before now.

        The store must be opened with a `RenewableEncryption`, such as `KeyFile(path)`, whose keys
        are stored elsewhere. The data keys of all places are wrapped under a new key, and the old
        key is destroyed. Then nothing can decrypt erased places in older copies of the store: in
        logs, on standbys, in backups. Existing facts are not rewritten, and other processes can use
        the store meanwhile. Erasures are final when it returns; after a crash or an error call it
        again.

        Raises:
            ValueError: The keys of the store cannot be destroyed, or other keys open it too.
        """
        raise ValueError(f"{type(self).__name__} has no keys that can be destroyed")

    async def __aenter__(self) -> Self:
        self._check_open()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()

    async def _presented(
        self, identity: Identity, present: Present[R], *, most: int | None = None
    ) -> R:
        """Present a place as it is now, on the event loop if it has at most `most` values."""

        def present_few(ledger: Ledger, now: str) -> R | None:
            return present(ledger, now) if most is None or ledger.is_small(most) else None

        await checkpoint_if_cancelled()
        found = self._backend.warm(identity, present_few)
        return await self._backend.present(identity, present) if found is None else found

    async def _held(
        self, identity: Identity, until: str | None, valid_at: WhenLike, present: Present[R]
    ) -> R:
        """Present what held at a time, by the entries recorded until another one."""
        when = When.of(valid_at, "valid_at")
        if until is None:
            # The backend has the clock, and its time is never before the last entry.
            until = await self._backend.present(identity, lambda _, now: now)
        held = partial(held_at, when=when, known=until)
        return await self._backend.entries(identity, lambda entries: present(held(entries), ""))

    def _enter(self, subject: MemorySubject, scope: MemoryScope) -> Identity:
        self._check_open()
        return identity_of(subject, scope)

    def _enter_place(self, place: Place) -> Identity:
        return self._enter(place.subject, place.scope)

    def _check_open(self) -> None:
        if self._is_closed:
            raise ValueError(f"This {type(self).__name__} is closed: make a new one")


def _places_of(identities: list[Identity]) -> list[Place]:
    with paused_collection(len(identities)):
        return list(map(Place.of_identity, identities))
