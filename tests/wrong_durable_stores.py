"""Durable stores with one fault each, and the tests of the contract that must notice."""

# ruff: noqa: ASYNC240 - the faults touch files themselves

import fcntl
import os
from collections.abc import Awaitable
from contextlib import suppress
from functools import partial
from pathlib import Path
from time import sleep
from typing import Any

import anyio.to_thread
import orjson

from factmem.errors import CorruptJournalError, FactmemError, StorageError
from factmem.providers import LocalFileMemoryProvider, ProviderKeys
from factmem.providers._sql.store import DurableStore
from factmem.testing.durable import Damage, StoreFolder

__all__ = ["WRONG_DURABLE_STORES", "WRONG_ENCRYPTED_STORES", "damages"]


def damages(home: StoreFolder) -> list[Damage]:
    """Return two damages of each file that is not empty: a small one, and one that nothing survives."""
    files = [name for name, content in home.files().items() if content]
    return [Damage(name, partial(harm, name)) for name in files for harm in (_flip, _blot)]


def _flip(name: str, folder: Path) -> None:
    content = bytearray((folder / name).read_bytes())
    content[len(content) // 2] ^= 1
    (folder / name).write_bytes(content)


def _blot(name: str, folder: Path) -> None:
    """Spare only the header of the database."""
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content[:100] + b"\xff" * len(content[100:]))


class Local(LocalFileMemoryProvider):
    """A local store that knows its folder."""

    def __init__(self, root: Path, **options: Any) -> None:
        super().__init__(root, **options)
        self.folder = root


class LeavesACopy(Local):
    """Keeps what it erases, to undo it."""

    async def erase(self, *place: Any, **options: Any) -> Any:
        entries = await self.entries(*place)
        receipt = await super().erase(*place, **options)
        (self.folder / "undo").write_bytes(orjson.dumps(entries))
        return receipt


class PurgesNothing(Local):
    """Only forgets."""

    async def forget(self, *place: Any, purge: Any = False, **conditions: Any) -> Any:
        return await super().forget(*place, **conditions)


class CompactsNothing(Local):
    """Says that it has compacted."""

    async def compact(self, *place: Any, **options: Any) -> int:
        return 1


class SeesOnlyItself(Local):
    """Reads a place once, and again only after its own writes."""

    def __init__(self, root: Path, **options: Any) -> None:
        super().__init__(root, **options)
        self._seen: dict[str, Any] = {}

    async def load(self, concept: Any, *place: Any, **options: Any) -> Any:
        key = repr((concept.keyword, place))
        if key not in self._seen:
            self._seen[key] = await super().load(concept, *place, **options)
        return self._seen[key]

    async def save(self, *args: Any) -> None:
        await super().save(*args)
        self._seen.clear()


class WritesTheLastSaveLater(Local):
    """Writes a save with the next call."""

    _pending: tuple[Any, ...] | None = None

    async def save(self, *args: Any) -> None:
        await self._write()
        self._pending = args

    async def load(self, *args: Any, **options: Any) -> Any:
        await self._write()
        return await super().load(*args, **options)

    async def aclose(self) -> None:
        self._pending = None
        await super().aclose()

    async def _write(self) -> None:
        pending, self._pending = self._pending, None
        if pending is not None:
            await super().save(*pending)


class SharesItsLockWithChildren(Local):
    """Holds a lock of a file that is open since before a fork: the child holds it too."""

    _lock = -1

    async def save(self, *args: Any) -> None:
        if self._lock < 0:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(self.folder / "saving", os.O_RDWR | os.O_CREAT, 0o600)
        await anyio.to_thread.run_sync(fcntl.flock, self._lock, fcntl.LOCK_EX)
        await super().save(*args)
        fcntl.flock(self._lock, fcntl.LOCK_UN)


class LosesItsLockToReaders(Local):
    """Holds POSIX locks, which any close of the same file in the process drops."""

    async def save(self, *args: Any) -> None:
        await anyio.to_thread.run_sync(self._count)
        await super().save(*args)

    def _count(self) -> None:
        """Count the saves in a file, and know how many there were."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "saves").open("ab+", buffering=0) as file:
            fcntl.lockf(file, fcntl.LOCK_EX)
            size = os.fstat(file.fileno()).st_size
            sleep(0.005)
            file.write(b".")
            if os.fstat(file.fileno()).st_size != size + 1:
                raise CorruptJournalError(f"{self.folder} is damaged: it has more than was saved")


class AcceptsAnyAnchor(Local):
    """Reads everything, and no anchor."""

    async def verify(self, anchor: str | None = None, **options: Any) -> None:
        await super().verify(**options)


class ReadsDamageAsNothing(Local):
    """An unreadable place is an empty one."""

    async def load(self, *args: Any, **options: Any) -> Any:
        return await _or_nothing(super().load(*args, **options))

    async def load_all(self, *args: Any, **options: Any) -> Any:
        return await _or_nothing(super().load_all(*args, **options))

    async def history(self, *args: Any) -> Any:
        return await _or_nothing(super().history(*args))

    async def entries(self, *args: Any) -> Any:
        return await _or_nothing(super().entries(*args))


async def _or_nothing(reading: Awaitable[Any]) -> Any:
    try:
        return await reading
    except FactmemError:
        return []


class IgnoresTheDisk(Local):
    """Acknowledges what the disk refused."""

    async def save(self, *args: Any) -> None:
        with suppress(StorageError):
            await super().save(*args)


class NotesItsReadings(Local):
    """Writes a file when it is read."""

    async def load(self, *args: Any, **options: Any) -> Any:
        (self.folder / "read").touch()
        return await super().load(*args, **options)


class NamesFilesByEntities(Local):
    """Takes an entity for the name of a file."""

    async def save(self, fact: Any, subject: Any, scope: Any) -> None:
        await super().save(fact, subject, scope)
        if str(subject.entity).count("..") == 2:  # any more might leave the folder of the test too
            Path(f"{self.folder}/{subject.entity}").touch()


class IgnoresTheUmask(Local):
    """Creates a file that anyone may read."""

    async def save(self, *args: Any) -> None:
        await super().save(*args)
        (self.folder / "saved").touch()


def _as(kind: type[ProviderKeys], keys: ProviderKeys) -> ProviderKeys:
    made = kind()
    made._slots, made._workers = keys._slots, keys._workers
    return made


class _Added(ProviderKeys):
    async def rotate(self, key: Any, **options: Any) -> None:
        await self.add(key)


class KeepsTheOldKey(Local):
    """Adds the new key."""

    @property
    def keys(self) -> ProviderKeys:
        keys = super().keys
        return _as(_Added, keys)


class WritesPlainNames(Local):
    """Lists the places in a file of its own."""

    async def places(self, **options: Any) -> Any:
        found = await super().places(**options)
        names = [info.subject.entity for info in found]
        (self.folder / "names").write_bytes(orjson.dumps(names))
        return found


WRONG_DURABLE_STORES: dict[type[DurableStore], set[str]] = {
    LeavesACopy: {
        "test_an_erased_place_is_in_no_file",
        "test_nothing_is_left_after_random_histories",
    },
    PurgesNothing: {
        "test_a_purged_value_is_in_no_file",
        "test_a_value_is_purged_from_a_fact_of_many",
        "test_quotes_of_a_purged_value_are_in_no_file",
        "test_nothing_is_left_beside_another_process",
    },
    CompactsNothing: {"test_old_history_is_in_no_file"},
    SeesOnlyItself: {
        "test_processes_see_each_other",
        "test_a_folder_that_is_replaced_is_noticed",
        "test_a_folder_that_is_deleted_is_noticed",
    },
    WritesTheLastSaveLater: {"test_facts_survive_the_instance", "test_processes_see_each_other"},
    SharesItsLockWithChildren: {"test_a_forked_child_holds_no_lock"},
    LosesItsLockToReaders: {"test_a_copy_of_the_own_folder_harms_nothing"},
    AcceptsAnyAnchor: {
        "test_an_anchor_detects_an_older_copy",
        "test_an_anchor_detects_another_store",
        "test_an_anchor_detects_a_place_that_is_gone",
        "test_a_string_that_is_no_anchor_is_refused",
    },
    ReadsDamageAsNothing: {"test_damage_is_never_read"},
    IgnoresTheDisk: {"test_files_that_cannot_grow", "test_a_store_that_cannot_be_created"},
    NotesItsReadings: {"test_a_read_only_folder"},
    NamesFilesByEntities: {"test_names_stay_in_the_folder"},
    IgnoresTheUmask: {"test_only_the_owner_has_access"},
}
"""Each wrong store, and tests that it fails."""

WRONG_ENCRYPTED_STORES: dict[type[DurableStore], set[str]] = {
    KeepsTheOldKey: {"test_a_rotation_replaces_the_key", "test_a_rotation_under_load"},
    WritesPlainNames: {"test_no_value_and_no_name_is_readable"},
}
"""The same for stores that are encrypted."""
