"""The public methods of a `FactStore` that write, written once over a backend.

There are two ways to write. `save` and `learn` encode an entry and append it, whatever the place
has: concurrent ones can share a durable write, and what an entry changes is decided when it is
folded. The others depend on what is there. They pass a pure function, which the backend calls under
the lock of the place, and again if a transaction is repeated; so each call overwrites what the last
one noted.
"""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import TypeVar

from anyio.lowlevel import checkpoint_if_cancelled
from typing_extensions import Unpack, override

from factmem._arguments import expect, expect_function
from factmem.ledger._replay import CurrentChange, amended, edited, received
from factmem.ledger.entries import Amendment, Edit, Entry, StoredFact, encoded, encoded_entry
from factmem.ledger.ledger import Ledger
from factmem.models.actors import present_actor
from factmem.models.boundary import UNBOUNDED
from factmem.models.clock import moment
from factmem.models.facts import AnyFact
from factmem.models.places import Identity, MemoryScope, MemorySubject, Place
from factmem.providers._arguments import (
    check_purge,
    retracted_values,
    statements,
    stored_fact,
    stored_facts,
)
from factmem.providers._backend import Backend, Change, ErasedSinceError
from factmem.providers._ledger_reader import LedgerReader
from factmem.providers.conditions import ForgetConditions, condition_of
from factmem.providers.limits import PlaceLimit
from factmem.providers.results import (
    ErasureReceipt,
    Forgotten,
    Learned,
    Moment,
    Purge,
    RetractedFact,
)

T = TypeVar("T")


class LedgerStore(LedgerReader):
    """A `FactStore` over a backend: it checks arguments and decides how the ledger changes.

    The contract of each method is the docstring that it inherits from `FactStore`.

    Args:
        backend: Stores the entries. Closing the store closes it.
        limit: The most that one place may have.
    """

    def __init__(self, backend: Backend, limit: PlaceLimit | None = None) -> None:
        super().__init__(backend)
        example = "limit=PlaceLimit(values=10_000)"
        self._limit = None if limit is None else expect(limit, PlaceLimit, "limit", example)

    @override
    async def save(self, fact: AnyFact, subject: MemorySubject, scope: MemoryScope) -> None:
        identity = self._enter(subject, scope)
        body = encoded(facts := [stored_fact(fact)])
        if self._limit is not None:
            await self._check_room(self._limit, identity, facts, body)
        await self._backend.append(identity, body)

    @override
    async def save_many(
        self, facts: Iterable[AnyFact], subject: MemorySubject, scope: MemoryScope
    ) -> None:
        identity = self._enter(subject, scope)
        if stored := stored_facts(facts):
            body = encoded(stored)
            if self._limit is not None:
                await self._check_room(self._limit, identity, stored, body)
            await self._backend.append(identity, body)
        else:
            await checkpoint_if_cancelled()

    @override
    async def moment(self, subject: MemorySubject, scope: MemoryScope) -> Moment:
        return Moment(await self._backend.moment(self._enter(subject, scope)))

    @override
    async def learn(
        self,
        facts: Iterable[AnyFact],
        subject: MemorySubject,
        scope: MemoryScope,
        *,
        retracted: Iterable[RetractedFact] = (),
        since: Moment | None = None,
    ) -> Learned:
        identity = self._enter(subject, scope)
        stated, ended = statements(facts), list(retracted)
        records = [retracted_values(each) for each in ended]
        if not stated and not records:
            await checkpoint_if_cancelled()
            return Learned()
        body = encoded(stated, retract=chain.from_iterable(records))
        if self._limit is not None and stated:
            await self._check_room(self._limit, identity, stated, body)
        try:
            await self._backend.append(identity, body, since=None if since is None else since.state)
        except ErasedSinceError:
            return Learned(is_erased=True)

        # The fold decides what the statements changed: later ones may have been there already.
        def present(ledger: Ledger, _: str) -> Learned:
            refused = also = list(zip(ended, records, strict=True))
            return Learned(
                frozenset(fact["id"] for fact in stated if ledger.is_superseded(fact)),
                tuple(each for each, made in refused if any(map(ledger.is_refused, made))),
                proposed=frozenset(fact["id"] for fact in stated if ledger.is_proposed(fact)),
                disputed=tuple(each for each, made in also if any(map(ledger.is_disputed, made))),
            )

        return await self._presented(identity, present)

    @override
    async def forget(
        self,
        subject: MemorySubject,
        scope: MemoryScope,
        *,
        purge: Purge = False,
        **conditions: Unpack[ForgetConditions[T]],
    ) -> int:
        condition_at = condition_of(**conditions)
        check_purge(purge)
        identity, by = self._enter(subject, scope), present_actor()
        left: list[tuple[str, ...]] = []
        is_over, former = False, 0

        def decide(ledger: Ledger, now: str) -> Change:
            nonlocal is_over
            condition = condition_at(now)
            forgotten = ledger.matching(condition, now)
            is_over = not (forgotten or purge) and ledger.knows(condition.names or ())
            if not purge:
                return Change(forget=forgotten, is_whole=condition.is_of_keywords, by=by)
            from factmem.ledger._purging import purged
            from factmem.ledger._quotes import QuotedValues, turn_without  # slow to import

            values = QuotedValues(())

            def edit(entries: Sequence[Entry]) -> Sequence[Entry | None]:
                nonlocal values
                found = purged(entries, condition, now, quotes=purge == "quotes")
                left[:] = [found.quoting, found.mentioning]  # a transaction may be repeated
                values = found.values
                return found.entries

            def turns(entries: Sequence[Entry]) -> Sequence[Entry]:
                return [turn_without(each, values) for each in entries]

            return Change(forget=forgotten, edit=edit, turns=turns, by=by)

        def end_former(entries: Sequence[Entry], now: str) -> list[Entry]:
            nonlocal former
            from factmem.ledger._validity import former_values  # few forgettings find no value

            forgotten = former_values(entries, condition_at(now), now)
            former = len(forgotten)
            return [{"at": now, "forget": forgotten}] if forgotten else []

        count = await self._backend.change(identity, decide)
        # `change` saw current values only; what has ended is in the entries.
        if is_over:
            await self.amend(end_former, subject, scope)
            count = former
        return Forgotten(count, *left)

    @override
    async def erase(
        self, subject: MemorySubject, scope: MemoryScope, *, only_empty: bool = False
    ) -> ErasureReceipt:
        erased = await self._backend.erase(self._enter(subject, scope), only_empty=only_empty)
        return ErasureReceipt(
            scope=scope,
            subject=subject,
            erased_at=moment(erased.at),
            count=erased.count,
            bytes=erased.bytes,
            copies_remain=erased.copies_remain,
            is_shreddable=erased.is_shreddable,
            conversations=erased.conversations,
        )

    @override
    async def replay(
        self, entries: Sequence[Entry], subject: MemorySubject, scope: MemoryScope
    ) -> int:
        identity, by = self._enter(subject, scope), present_actor()
        if not entries:
            await checkpoint_if_cancelled()
            return 0

        def extend(known: list[Entry], now: str) -> Change:
            from factmem.ledger._merging import merged  # slow to import

            found = merged(known, received(entries), by)
            self._check_fitting(identity, known, found.new, now)
            is_edited, is_purge = found.order is not None, found.purged is not None
            edit, turns = found.edit if is_edited else None, found.turns if is_purge else None
            return Change(entries=found.new, edit=edit, turns=turns)

        return await self._backend.extend(identity, extend)

    @override
    async def amend(self, change: Amendment, subject: MemorySubject, scope: MemoryScope) -> int:
        identity, by = self._enter(subject, scope), present_actor()

        def extend(known: list[Entry], now: str) -> Change:
            new = amended(known, now, change, by)
            self._check_fitting(identity, known, new, now)
            return Change(entries=new)

        return await self._backend.extend(identity, extend)

    @override
    async def amend_current(
        self, change: CurrentChange, subject: MemorySubject, scope: MemoryScope
    ) -> int:
        expect_function(change, "change", "amend_current(change, subject, scope)")
        if self._limit is not None:  # which counts the bytes of all entries
            return await super().amend_current(change, subject, scope)
        count: int | None = None
        by = present_actor()

        def decide(ledger: Ledger, now: str) -> Change:
            nonlocal count
            made = amended((), now, lambda _, at: _listed(change(ledger, at)))
            count = len(made)  # of the last call: a transaction may be repeated
            entry: Entry = made[0] if made else {"at": now}
            facts, forget = entry.get("facts", ()), entry.get("forget", ())
            return Change(facts, forget, retract=entry.get("retract", ()), by=by)

        await self._backend.change(self._enter(subject, scope), decide)
        # A backend does not ask about a place that does not exist.
        if count is None:
            return await super().amend_current(change, subject, scope)
        return count

    @override
    async def rewrite(self, edit: Edit, subject: MemorySubject, scope: MemoryScope) -> int:
        identity = self._enter(subject, scope)
        changed = 0

        def rewritten(entries: Sequence[Entry]) -> Sequence[Entry | None]:
            nonlocal changed
            after = edited(entries, edit)
            changed = sum(new is not old for new, old in zip(after, entries, strict=True))
            return after

        await self._backend.change(identity, lambda ledger, now: Change(edit=rewritten))
        return changed

    @override
    async def write_index(
        self, subject: MemorySubject, scope: MemoryScope, index: bytes, *, version: str
    ) -> bool:
        return await self._backend.write_index(self._enter(subject, scope), index, version)

    async def _check_room(
        self, limit: PlaceLimit, identity: Identity, facts: Sequence[StoredFact], body: bytes
    ) -> None:
        """Raise `PlaceFullError` if a place has no room for an entry; retractions always fit."""
        if limit.values is not None:
            await self._backend.present(
                identity, lambda ledger, now: limit.check_values(identity, ledger, facts, now)
            )
        if limit.bytes is not None:
            boundary = UNBOUNDED.narrowed(places=[Place.of_identity(identity)])
            size = sum(info.bytes for info in await self._backend.places(boundary))
            limit.check_bytes(identity, size + len(body))

    def _check_fitting(
        self, identity: Identity, known: list[Entry], new: list[Entry], now: str
    ) -> None:
        """Raise `PlaceFullError` if a place has no room for new entries; forgettings always fit."""
        facts = [fact for entry in new for fact in entry.get("facts", ())]
        if self._limit is not None and facts:
            forget = [name for entry in new for name in entry.get("forget", ())]
            ledger = Ledger([*known, {"at": now, "forget": forget}])
            self._limit.check_values(identity, ledger, facts, now)
            lines = sum(len(encoded_entry(entry)) for entry in (*known, *new))
            self._limit.check_bytes(identity, lines)


def _listed(entry: Entry | None) -> list[Entry]:
    return [] if entry is None else [entry]
