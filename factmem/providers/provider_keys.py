"""ProviderKeys: the keys that open an encrypted store."""

from collections.abc import Callable

from factmem._arguments import expect_function
from factmem._concurrency.per_loop import Workers
from factmem.encryption.aes256gcm import Encryption, encryption_of
from factmem.encryption.key import Key
from factmem.providers._sql.keys import StoreKeys

__all__ = ["ProviderKeys"]


class ProviderKeys:
    """The keys that open an encrypted store; a key may be a base64 string."""

    _slots: StoreKeys
    _workers: Workers

    async def ids(self) -> list[str]:
        """Return the ids of the key slots; an id reveals nothing about its key."""
        return await self._workers.run(self._slots.ids)

    async def add(self, key: Key | str | Encryption) -> None:
        """Add a key that opens the store."""
        encryption = encryption_of(key)
        await self._workers.run(lambda: self._slots.add(encryption))

    async def remove(self, key: Key | str | Encryption) -> None:
        """Remove a key, so that it no longer opens the store.

        With that key and an old copy of the store the present rows can still be read; `rotate`
        prevents that.

        Raises:
            WrongKeyError: The key does not open the store.
            ValueError: It is the only key.
        """
        encryption = encryption_of(key)
        await self._workers.run(lambda: self._slots.remove(encryption))

    async def rotate(
        self,
        key: Key | str | Encryption,
        *,
        rewrite: bool = True,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        """Give the store a new key and new data keys, and rewrite every place with them.

        All other keys stop working at once. This provider continues with the new key; other processes
        need it as well. Store the new key safely before the call, and keep the old one until the call
        returns. After a crash or an error call it again. With `rewrite=False` only the wrapping of the
        data keys changes, at once: right for a changed passphrase, wrong for a leaked key. `progress`
        is called in a worker thread after each place, with the number done and the total.
        """
        encryption = encryption_of(key)
        check_progress(progress)
        await self._workers.run(
            lambda: self._slots.rotate(encryption, rewrite=rewrite, progress=progress)
        )


def open_keys(slots: StoreKeys, workers: Workers) -> ProviderKeys:
    """Return the keys of a store; the public class has no constructor of its own."""
    keys = ProviderKeys()
    keys._slots, keys._workers = slots, workers  # pyright: ignore[reportPrivateUsage]
    return keys


def check_progress(progress: Callable[[int, int], None] | None) -> None:
    """Raise TypeError unless a progress callback can be called."""
    if progress is not None:
        expect_function(progress, "progress", "progress=lambda done, total: print(done, total)")
