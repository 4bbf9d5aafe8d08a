"""A store in local files: one journal per place, durable when a save returns."""

import os
import weakref
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, Self, TypeAlias, TypeVar

from anyio import CancelScope
from anyio.lowlevel import checkpoint_if_cancelled

from factmem._concepts import checked_concept, checked_concepts
from factmem._workers import Workers
from factmem.boundary import UNBOUNDED
from factmem.entries import Entry, encoded
from factmem.history import history
from factmem.ledger import Ledger
from factmem.models import (
    AnyFact,
    Concept,
    FactSource,
    Identity,
    MemoryScope,
    MemorySubject,
    MultipleFacts,
    SingleFact,
)
from factmem.provider import (
    Amendment,
    ErasureReceipt,
    HistoryEntry,
    PlaceChanges,
    PlaceInfo,
    TimeProvider,
)
from factmem.providers._arguments import (
    check_span,
    condition_of,
    stamp_of,
    stored_facts,
)
from factmem.providers._clock import StoreClock, system_clock
from factmem.providers._description import described, phrase_of
from factmem.providers._folder_upkeep import KeepsFolder
from factmem.providers._group_commit import GroupCommit
from factmem.providers._local_arguments import folder_of, storage_of
from factmem.providers._local_places import LocalPlaces, Save
from factmem.providers._place_info import changes_of
from factmem.providers._store_keys import ProviderKeys
from factmem.storage.base import Storage

__all__ = ["LocalFileMemoryProvider", "ProviderKeys"]

L = TypeVar("L", bound="SingleFact[Any] | MultipleFacts[Any]")

_Restart: TypeAlias = "weakref.WeakMethod[Callable[[], None]]"

_FEW = 1000
"""Up to how many values a whole place is presented on the event loop, about 4 ms at most."""


class LocalFileMemoryProvider(KeepsFolder):
    """A `FactStore` in a folder of local files.

    When a save returns, its facts survive kill -9 and a power cut. Saves that are under way at the
    same time share one durable write. Any number of tasks, threads with loops of their own, and
    processes may use one folder at once, through one instance or many; each sees what any other
    has saved. After a fork, parent and child may both go on.

    Nothing touches the disk before the first call, and nothing is created before the first save.
    Reading takes no lock. A warm `load` takes no thread: it makes one check of a few microseconds
    whether the file is still what was read. Up to 1,024 places are kept warm in memory.

    A save that raises is not acknowledged, and is in the store whole or not at all. Cancelled
    before its write has begun it is not kept; cancelled later, it is, and it is waited for. Only a
    task that asyncio itself cancels (`Task.cancel`, `wait_for`) does not wait: either may be.

    Args:
        root: The folder. It is made, for its owner only, when the first fact is saved.
        storage: How files are kept: `SimpleStorage()`, the default, or `EncryptedStorage(...)`.
        clock: Tells the time, as an aware datetime; this machine's by default.
        keep_history: How long what was replaced or forgotten stays readable by `history` and
            `as_of`. None, the default, keeps it for ever; otherwise a journal is compacted now and
            then, when more than half of it is older history.

    Raises:
        TypeError: An argument is of the wrong kind, such as a key in the place of a storage.
        ValueError: `root` is no path, or `keep_history` is negative.
        StorageError: (from every method) The disk refused, or the store is damaged.
        StoreBusyError: (from writing methods) The lock was held past the storage's deadline.
        DecryptionError: (from every method) The key is missing or wrong, or files do not verify.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        storage: Storage | None = None,
        clock: TimeProvider = system_clock,
        keep_history: timedelta | None = None,
    ) -> None:
        if keep_history is not None:
            check_span(keep_history)
        self._root = folder_of(root)
        self._journals = storage_of(storage).open(self._root)
        self._clock = StoreClock(clock)
        self._places = LocalPlaces(self._journals, self._clock, keep_history)
        self._is_closed = False
        self._start_afresh()
        _restarts[self] = weakref.WeakMethod(self._start_in_child)

    def _start_afresh(self) -> None:
        self._workers = Workers()
        self._commits = GroupCommit(self._places.commit, self._workers)

    def __repr__(self) -> str:
        return f"LocalFileMemoryProvider({str(self._root)!r})"

    async def save(self, fact: AnyFact, subject: MemorySubject, scope: MemoryScope) -> None:
        """See `AgentMemoryProvider.save`."""
        identity = self._enter(subject, scope)
        await self._commits.submit(Save(identity, encoded(stored_facts([fact]))))

    async def save_many(
        self, facts: Iterable[AnyFact], subject: MemorySubject, scope: MemoryScope
    ) -> None:
        """See `FactStore.save_many`."""
        identity = self._enter(subject, scope)
        if stored := stored_facts(facts):
            await self._commits.submit(Save(identity, encoded(stored)))
        else:
            await checkpoint_if_cancelled()

    async def load(
        self,
        concept: Concept[Any, L],
        subject: MemorySubject,
        scope: MemoryScope,
        *,
        as_of: datetime | None = None,
    ) -> list[L]:
        """See `FactStore.load`."""
        checked_concept(concept)
        until = stamp_of(as_of)
        identity = self._enter(subject, scope)

        def present(ledger: Ledger, now: str) -> list[L]:
            return ledger.load(concept, now)

        await checkpoint_if_cancelled()
        if until is not None:
            return await self._workers.run(lambda: present(self._ledger(identity, until), until))
        facts = self._places.warm(identity, present)
        if facts is None:
            facts = await self._workers.run(lambda: self._places.present(identity, present))
        return facts

    async def load_all(
        self,
        subject: MemorySubject,
        scope: MemoryScope,
        *,
        concepts: Iterable[Concept[Any, Any]] = (),
        as_of: datetime | None = None,
    ) -> list[AnyFact]:
        """See `FactStore.load_all`."""
        named = checked_concepts(concepts)
        until = stamp_of(as_of)
        identity = self._enter(subject, scope)

        def present(ledger: Ledger, now: str) -> list[AnyFact]:
            return ledger.load_all(named, now)

        def present_few(ledger: Ledger, now: str) -> list[AnyFact] | None:
            return present(ledger, now) if len(ledger) <= _FEW else None

        await checkpoint_if_cancelled()
        if until is not None:
            return await self._workers.run(lambda: present(self._ledger(identity, until), until))
        facts = self._places.warm(identity, present_few)
        if facts is None:
            facts = await self._workers.run(lambda: self._places.present(identity, present))
        return facts

    def _ledger(self, identity: Identity, until: str) -> Ledger:
        return Ledger(self._places.entries(identity), until=until)

    async def load_by_description(
        self, description: str, subject: MemorySubject, scope: MemoryScope
    ) -> list[AnyFact]:
        """See `AgentMemoryProvider.load_by_description`."""
        phrase = phrase_of(description)
        return described(await self.load_all(subject, scope), phrase)

    async def history(
        self, concept: Concept[Any, Any], subject: MemorySubject, scope: MemoryScope
    ) -> list[HistoryEntry]:
        """See `FactStore.history`."""
        checked_concept(concept)
        identity = self._enter(subject, scope)
        return await self._workers.run(lambda: history(self._places.entries(identity), concept))

    async def forget(
        self,
        subject: MemorySubject,
        scope: MemoryScope,
        *,
        concept: Concept[Any, Any] | None = None,
        value: object = ...,
        fact_id: str | None = None,
        source: FactSource | None = None,
        older_than: datetime | timedelta | None = None,
        purge: bool = False,
    ) -> int:
        """See `FactStore.forget`.

        With `purge` the journal's file is written anew, and copies that `salvage` kept are removed.
        """
        condition = condition_of(
            self._clock.now(),
            concept=concept,
            value=value,
            fact_id=fact_id,
            source=source,
            older_than=older_than,
        )
        identity = self._enter(subject, scope)
        return await self._work(lambda: self._places.forget(identity, condition, purge=purge))

    async def erase(self, subject: MemorySubject, scope: MemoryScope) -> ErasureReceipt:
        """See `FactStore.erase`.

        In an encrypted store the random bytes that the file's key is derived from are overwritten
        first, so that a copy of its blocks that the disk may keep cannot be read with the key.
        """
        identity = self._enter(subject, scope)
        return await self._work(lambda: self._places.erase(identity, scope, subject))

    async def places(
        self,
        *,
        subjects: Iterable[MemorySubject] | None = None,
        scopes: Iterable[MemoryScope] | None = None,
    ) -> list[PlaceInfo]:
        """See `FactStore.places`.

        Where both are given and their combinations are few, only the files of these are opened;
        else the folder is listed, and each file that is new to this instance asked for its name.
        """
        wanted = UNBOUNDED.narrowed(subjects=subjects, scopes=scopes)
        self._check_open()
        return await self._work(lambda: self._places.places(wanted))

    async def entries(self, subject: MemorySubject, scope: MemoryScope) -> list[Entry]:
        """See `FactStore.entries`."""
        identity = self._enter(subject, scope)
        return await self._work(lambda: self._places.entries(identity))

    async def replay(
        self, entries: Sequence[Entry], subject: MemorySubject, scope: MemoryScope
    ) -> int:
        """See `FactStore.replay`."""
        identity = self._enter(subject, scope)
        return await self._work(lambda: self._places.replay(identity, entries))

    async def amend(self, change: Amendment, subject: MemorySubject, scope: MemoryScope) -> int:
        """See `FactStore.amend`. `change` runs in a worker thread, with the store's lock held."""
        identity = self._enter(subject, scope)
        return await self._work(lambda: self._places.amend(identity, change))

    async def version(self, subject: MemorySubject, scope: MemoryScope) -> str:
        """See `IndexedStore.version`. Warm, it takes no thread."""
        identity = self._enter(subject, scope)
        await checkpoint_if_cancelled()
        version = self._places.warm(identity, Ledger.version)
        if version is None:
            version = await self._workers.run(
                lambda: self._places.present(identity, Ledger.version)
            )
        return version

    async def changes(
        self,
        subject: MemorySubject,
        scope: MemoryScope,
        *,
        since: str,
        concepts: Iterable[Concept[Any, Any]] = (),
    ) -> PlaceChanges | None:
        """See `FollowedStore.changes`.

        None also after a compaction or a purge, and when more than 1,024 facts were touched.
        """
        named = checked_concepts(concepts)
        identity = self._enter(subject, scope)

        def present(ledger: Ledger, now: str) -> PlaceChanges | None:
            return changes_of(ledger, since, named, now)

        def present_few(ledger: Ledger, now: str) -> PlaceChanges | None:
            return present(ledger, now) if len(ledger) <= _FEW else None

        await checkpoint_if_cancelled()
        found = self._places.warm(identity, present_few)
        if found is None:
            found = await self._workers.run(lambda: self._places.present(identity, present))
        return found

    async def read_index(self, subject: MemorySubject, scope: MemoryScope) -> bytes | None:
        """See `IndexedStore.read_index`."""
        identity = self._enter(subject, scope)
        return await self._work(lambda: self._places.index(identity))

    async def write_index(
        self, subject: MemorySubject, scope: MemoryScope, index: bytes, *, version: str
    ) -> bool:
        """See `IndexedStore.write_index`. The file lies in `indexes`, beside `journals`."""
        identity = self._enter(subject, scope)
        return await self._work(lambda: self._places.keep_index(identity, index, version))

    async def aclose(self) -> None:
        """Finish the saves that were accepted and let go of everything; twice is no error."""
        if not self._is_closed:
            self._is_closed = True
            await self._commits.close()
            with CancelScope(shield=True):  # cancelled or not, no descriptor stays open
                await self._workers.run(self._journals.close)

    async def __aenter__(self) -> Self:
        self._check_open()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()

    def _start_in_child(self) -> None:
        """Begin anew in a forked child, where no thread of the parent's goes on."""
        self._clock.start_in_child()
        self._places.start_afresh()
        self._start_afresh()


_restarts: "weakref.WeakKeyDictionary[LocalFileMemoryProvider, _Restart]" = (
    weakref.WeakKeyDictionary()
)


def _start_in_child() -> None:
    for restart in list(_restarts.values()):
        if (begin_anew := restart()) is not None:
            begin_anew()


os.register_at_fork(after_in_child=_start_in_child)
