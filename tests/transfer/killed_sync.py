"""A process that syncs a device and is killed at one of its writes."""

import os
import signal
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import anyio

from factmem import Key, LocalFileMemoryProvider
from factmem.transfer.devices import sync_devices
from tests.world import storage_of

WRITES = ("os.rename", "os.remove", "os.link")


def killed_sync(
    path: Path, secret: str | None, *, folder: Path, state: Path, key: str, now: datetime, left: int
) -> None:
    """Sync a store's device, and kill this process at a write; exit with 0 if there were fewer.

    Args:
        path: The store.
        secret: Its key, if it is encrypted.
        folder: The shared folder.
        state: What the device knows of it.
        key: The key of the folder.
        now: The time.
        left: How many writes are done: files that are opened for writing, flushed, renamed,
        removed.
    """
    fsync = os.fsync

    def count() -> None:
        nonlocal left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        is_write = event == "open" and bool((arguments[2] or 0) & (os.O_WRONLY | os.O_RDWR))
        if event in WRITES or is_write:
            count()

    def counted_fsync(fd: int) -> None:
        count()
        fsync(fd)

    async def main() -> None:
        async with LocalFileMemoryProvider(
            path, storage=storage_of(*filter(None, [secret])), clock=lambda: now
        ) as store:
            shared: Any = {"key": Key.from_base64(key), "state": state, "clock": lambda: now}
            await sync_devices(store, folder, conversations=True, **shared)

    os.fsync = counted_fsync  # type: ignore[assignment]
    sys.addaudithook(hook)
    anyio.run(main)
