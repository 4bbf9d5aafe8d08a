"""A store in local files: one journal per place, durable when a save returns."""

import os
import weakref
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Self, TypeAlias, TypeVar

from anyio import CancelScope
from anyio.lowlevel import checkpoint_if_cancelled

from factmem.concurrency.workers import Workers
from factmem.ledger.entries import Amendment, Entry, encoded
from factmem.ledger.history import HistoryEntry, history
from factmem.ledger.ledger import Ledger
from factmem.models.boundary import UNBOUNDED
from factmem.models.checked import checked_concept, checked_concepts
from factmem.models.clock import TimeProvider, system_clock
from factmem.models.facts import (
    AnyFact,
    Concept,
    MultipleFacts,
    SingleFact,
)
from factmem.models.places import (
    Identity,
    MemoryScope,
    MemorySubject,
    identity_of,
)
from factmem.models.sources import FactSource
from factmem.providers._description import described, phrase_of
from factmem.providers._group_commit import GroupCommit
from factmem.providers._ledger_store import (
    StoreClock,
    changes_of,
    check_span,
    condition_of,
    stamp_of,
    stored_facts,
)
from factmem.providers._local_backend import LocalPlaces, Save
from factmem.providers.base import ErasureReceipt, PlaceInfo
from factmem.providers.indexed import PlaceChanges
from factmem.storage.base import Journals, KeySlots, SalvagedJournal, Storage
from factmem.storage.encryption.aes256gcm import Encryption, encryption_of
from factmem.storage.encryption.key import Key
from factmem.storage.simple import SimpleStorage

__all__ = ["KeepsFolder", "LocalFileMemoryProvider", "ProviderKeys", "folder_of", "storage_of"]


L = TypeVar("L", bound="SingleFact[Any] | MultipleFacts[Any]")

_Restart: TypeAlias = "weakref.WeakMethod[Callable[[], None]]"

_FEW = 1000
"""Up to how many values a whole place is presented on the event loop, about 4 ms at most."""

R = TypeVar("R")


class ProviderKeys:
    """The keys that open an encrypted store; a key may be given as its base64 text."""

    def __init__(self, slots: KeySlots, workers: Workers) -> None:
        self._slots = slots
        self._workers = workers

    async def ids(self) -> list[str]:
        """Return the ids of the key slots; an id tells nothing about its key."""
        return await self._workers.run(self._slots.ids)

    async def add(self, key: Key | str | Encryption) -> None:
        """Let another key open the store."""
        encryption = encryption_of(key)
        await self._workers.run(lambda: self._slots.add(encryption))

    async def remove(self, key: Key | str | Encryption) -> None:
        """Close the store to a key.

        Whoever has that key and an old copy of `factmem.json` can still read the files as they
        are; `rotate` shuts them out.

        Raises:
            WrongKeyError: It does not open the store.
            ValueError: It is the only one.
        """
        encryption = encryption_of(key)
        await self._workers.run(lambda: self._slots.remove(encryption))

    async def rotate(self, key: Key | str | Encryption, *, rewrite: bool = True) -> None:
        """Give the store a new key and new data keys, and rewrite every journal with them.

        All other keys stop at once; this provider goes on with the new one, others need it too.
        Keep the new key safe before you call, and the old one until the call returns; after a
        crash or an error call it again. With `rewrite=False` only the wrapping of the data keys
        changes, at once: right for a changed passphrase, not for a key that got out.
        """
        encryption = encryption_of(key)
        await self._workers.run(lambda: self._slots.rotate(encryption, rewrite=rewrite))


class KeepsFolder:
    """The part of a provider that does what facts do not need and a folder does."""

    _journals: Journals
    _places: LocalPlaces
    _workers: Workers
    _is_closed: bool

    async def compact(
        self,
        subject: MemorySubject,
        scope: MemoryScope,
        *,
        keep_history: timedelta = timedelta(0),
    ) -> int:
        """Write a place's journal anew without older history, and return how many bytes it freed.

        What is current stays as it is; `history` and `as_of` reach back as far as `keep_history`.
        """
        check_span(keep_history)
        identity = self._enter(subject, scope)
        return await self._work(lambda: self._places.compact(identity, keep_history))

    async def salvage(self, subject: MemorySubject, scope: MemoryScope) -> SalvagedJournal:
        """Go on with what can be read of a damaged place, and keep a copy of its file.

        Raises:
            ValueError: There is no file of that place.
        """
        identity = self._enter(subject, scope)
        return await self._work(lambda: self._places.salvage(identity))

    async def anchor(self) -> str:
        """Return how far every place has come, as a text to be kept elsewhere.

        A folder cannot tell by itself that the whole of it was put back to an older copy;
        `verify` tells it by an anchor. Reads every file; an anchor stays good for ever.
        """
        self._check_open()
        return await self._work(self._journals.anchor)

    async def verify(self, anchor: str) -> None:
        """Raise unless every place has come at least as far as the anchor says. Reads every file.

        Raises:
            TamperedError: The store, or a place, is gone or was put back to an older copy.
            CorruptJournalError: The same, in a store that is not encrypted.
            ValueError: The text is no anchor.
        """
        self._check_open()
        await self._work(lambda: self._journals.verify(anchor))

    @property
    def keys(self) -> ProviderKeys:
        """The keys of an encrypted store.

        Raises:
            ValueError: The store is not encrypted.
        """
        self._check_open()
        if self._journals.keys is None:
            raise ValueError(
                "A store in the clear has no keys: make one with "
                "storage=EncryptedStorage(Aes256GCMEncryptor(key))"
            )
        return ProviderKeys(self._journals.keys, self._workers)

    async def _work(self, work: Callable[[], R]) -> R:
        await checkpoint_if_cancelled()
        return await self._workers.run(work)

    def _enter(self, subject: MemorySubject, scope: MemoryScope) -> Identity:
        if self._is_closed:
            self._check_open()
        return identity_of(subject, scope)

    def _check_open(self) -> None:
        if self._is_closed:
            raise ValueError("This LocalFileMemoryProvider is closed: make a new one")


class LocalFileMemoryProvider(KeepsFolder):
    """A `FactStore` in a folder of local files.

    When a save returns, its facts survive kill -9 and a power cut. Saves that are under way at the
    same time share one durable write. Any number of tasks, threads with loops of their own, and
    processes may use one folder at once, through one instance or many; each sees what any other
    has saved. After a fork, parent and child may both go on.

    Nothing touches the disk before the first call, and nothing is created before the first save.
    Reading takes no lock. A warm `load` takes no thread: it makes one check of a few microseconds
    whether the file is still what was read. Up to 1,024 places are kept warm in memory.

    The first save starts a thread that commits; it ends after ten idle seconds. A batch for many
    places starts up to eight threads that sync. The lock file and the folders stay open between
    calls. `aclose` ends the threads and closes the files.

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


def folder_of(root: str | os.PathLike[str]) -> Path:
    """Return the folder that `root` names; the disk is not looked at.

    Raises:
        TypeError: It is no path.
        ValueError: It is empty, or no file can have it as its path.
    """
    try:
        path = os.fspath(root)
    except TypeError:
        path = None
    if not isinstance(path, str):
        raise TypeError(
            f"root is the path of a folder, a text or a Path, not {type(root).__name__}: "
            f"LocalFileMemoryProvider('memory')"
        )
    if not path:
        raise ValueError("root is empty: name a folder, or '.' for the current one")
    try:
        is_possible = b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        is_possible = False
    if not is_possible:
        raise ValueError("root holds a character that no path can have, such as NUL: leave it out")
    return Path(path)


def storage_of(storage: Storage | None) -> Storage:
    """Return `storage` if it is one, and the one in the clear for None and nothing else.

    Raises:
        TypeError: It is something else: a key, an encryption, a name, a class.
    """
    if storage is None:
        return SimpleStorage()
    if isinstance(storage, type) or not callable(getattr(storage, "open", None)):
        given = storage.__name__ if isinstance(storage, type) else type(storage).__name__
        raise TypeError(
            f"storage is a Storage, not {given}: SimpleStorage() keeps files in the clear, "
            f"EncryptedStorage(Aes256GCMEncryptor(key)) encrypts them"
        )
    return storage
