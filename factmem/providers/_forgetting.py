"""Forgetting: how a `forget` changes the ledger of a place, and erasures that are done again."""

from collections.abc import Callable, Sequence
from typing import Protocol

from factmem.errors import StorageError
from factmem.ledger._items import Condition
from factmem.ledger.entries import Edit, Entry
from factmem.ledger.ledger import Ledger
from factmem.models.actors import present_actor
from factmem.models.places import MemoryScope, MemorySubject
from factmem.models.when import stamp
from factmem.providers._backend import Change
from factmem.providers.conversation_store import ConversationStore
from factmem.providers.results import ErasureReceipt, Purge, check_purge


class Forgetting:
    """One call of `forget`; its functions may be called again if a transaction is repeated."""

    def __init__(self, condition_at: Callable[[str], Condition], purge: Purge) -> None:
        check_purge(purge)
        self._condition_at = condition_at
        self._purge = purge
        self._by = present_actor()
        self.left: list[tuple[str, ...]] = []
        """The facts and messages that still contain purged values; see `Forgotten`."""
        self.is_over = False
        """Whether nothing is current, but the keywords have ended values."""
        self.former = 0
        """How many ended values `end_former` found."""

    def decide(self, ledger: Ledger, now: str) -> Change:
        condition, purge = self._condition_at(now), self._purge
        forgotten = ledger.matching(condition, now)
        self.is_over = not (forgotten or purge) and ledger.knows(condition.names or ())
        if not purge:
            return Change(forget=forgotten, is_whole=condition.is_of_keywords, by=self._by)
        from factmem.ledger._purging import (  # slow to import
            QuotedValues,
            message_with,
            purged,
            turn_without,
        )

        values = QuotedValues(())

        def edit(entries: Sequence[Entry]) -> Sequence[Entry | None]:
            nonlocal values
            found = purged(entries, condition, now, quotes=purge == "quotes")
            self.left[:] = [found.quoting, found.mentioning, ()]
            values = found.values
            return found.entries

        def turns(entries: Sequence[Entry]) -> Sequence[Entry]:
            rest = [turn_without(each, values) for each in entries]
            found = [name for each in rest if (name := message_with(each, values)) is not None]
            self.left[-1] += tuple(found)
            return rest

        return Change(forget=forgotten, edit=edit, turns=turns, by=self._by)

    def end_former(self, entries: Sequence[Entry], now: str) -> list[Entry]:
        """Forget the values that held before, if none is current."""
        from factmem.ledger.history import former_values  # few forgettings find no value

        forgotten = former_values(entries, self._condition_at(now), now)
        self.former = len(forgotten)
        return [{"at": now, "forget": forgotten}] if forgotten else []


class Erasable(Protocol):
    """The part of a `FactStore` that a repeated erasure needs."""

    @property
    def conversations(self) -> ConversationStore: ...

    async def entries(self, subject: MemorySubject, scope: MemoryScope) -> list[Entry]: ...

    async def erase(self, subject: MemorySubject, scope: MemoryScope) -> ErasureReceipt: ...

    async def rewrite(self, edit: Edit, subject: MemorySubject, scope: MemoryScope) -> int: ...


async def erased_again(store: Erasable, receipt: ErasureReceipt) -> bool:
    """Remove what a place has from before an erasure; return whether it had anything."""
    subject, scope, until = receipt.subject, receipt.scope, receipt.erased_at
    entries = await store.entries(subject, scope)
    is_old = [entry["at"] <= stamp(until) for entry in entries]
    try:
        keeper = store.conversations
    except StorageError:  # this store keeps none
        keeper = None
    chats = [] if keeper is None else await keeper.conversations(receipt.place)
    if all(is_old) and all(chat.last_at <= until for chat in chats):
        if entries or chats:
            await store.erase(subject, scope)
        return bool(entries or chats)
    for chat in chats:
        assert keeper is not None  # noqa: S101 - it has returned the conversations
        await keeper.remove(chat.id, receipt.place, before=until)
    if any(is_old):
        kept = stamp(until)
        await store.rewrite(
            lambda entries: [each if each["at"] > kept else None for each in entries],
            subject,
            scope,
        )
    return any(is_old) or any(chat.first_at <= until for chat in chats)
