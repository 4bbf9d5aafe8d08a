"""The sync of devices without await."""

import os
from collections.abc import Callable, Iterable
from typing import Any

from factmem.encryption.key import Key
from factmem.models.places import Place
from factmem.sync.portal import SHARED_PORTAL, Portal
from factmem.sync.stores import StoreSync
from factmem.transfer import devices

__all__ = ["sync_devices"]


def sync_devices(
    store: StoreSync[Any],
    folder: str | os.PathLike[str],
    *,
    key: Key,
    state: str | os.PathLike[str],
    places: Iterable[Place] | None = None,
    conversations: bool = False,
    dry_run: bool = False,
    progress: Callable[[int, int], None] | None = None,
    portal: Portal = SHARED_PORTAL,
) -> devices.SyncReport:
    """Exchange facts with the other devices that use a folder; see `transfer.sync_devices`."""
    return portal.call(
        devices.sync_devices,
        store.wrapped,
        folder,
        key=key,
        state=state,
        places=places,
        conversations=conversations,
        dry_run=dry_run,
        progress=progress,
    )
