"""The keys of a store in local files, for its user: the slots, changed from worker threads."""

from factmem._workers import Workers
from factmem.encryption import Encryption, Key, encryption_of
from factmem.storage.base import KeySlots

__all__ = ["ProviderKeys"]


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
