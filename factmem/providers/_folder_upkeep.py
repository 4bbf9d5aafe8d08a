"""Looking after the folder of a store in local files: its journals, its keys, its older copies."""

from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

from anyio.lowlevel import checkpoint_if_cancelled

from factmem._workers import Workers
from factmem.models import Identity, MemoryScope, MemorySubject, identity_of
from factmem.providers._arguments import check_span
from factmem.providers._local_places import LocalPlaces
from factmem.providers._store_keys import ProviderKeys
from factmem.storage.base import Journals, SalvagedJournal

__all__ = ["KeepsFolder"]

R = TypeVar("R")


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
