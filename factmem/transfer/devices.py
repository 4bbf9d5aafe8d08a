"""One memory on several devices, over a folder that they share. Only the devices can read it.

    report = await sync_devices(store, "/mnt/drive/memory", key=key_of_phrase(words), state="here")

Each device writes files of its own into the folder, encrypted bundles, and reads those of the
others. Copies of a place converge whatever the order in which their entries arrive (`_merging`), so
the folder needs no locks, no order and no server: a file may come late, twice or never.

A device publishes entries that nobody has in the folder yet. If something that it has published is
gone from its store (a purge, an erasure, a compaction), or its files are not as it left them, it
writes all it has as new files and removes the old ones: so removed values leave the folder.

What a device knows of the folder is in `state`, and is written after its files. It may be lost or
old: then files are read again, or written again, and nothing else happens.
"""

import os
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from hashlib import blake2b
from io import BytesIO
from itertools import chain
from pathlib import Path
from secrets import token_hex
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

import orjson
from anyio.to_thread import run_sync

from factmem._arguments import expect, expect_path
from factmem._concurrency.file_lock import try_lock
from factmem.encryption.key import Key
from factmem.errors import StorageError, StoreBusyError
from factmem.ledger._merging import Received, numbered
from factmem.ledger.entries import Edit, Entry, encoded_entry
from factmem.models._checked import checked_places
from factmem.models._display import Displayed
from factmem.models.facts import ConceptDefinition
from factmem.models.places import Identity, Place
from factmem.models.when import TimeProvider, moment, stamp, system_clock
from factmem.providers.results import is_edited, is_extended
from factmem.providers.store import FactStore
from factmem.transfer._device_files import Header, Named, SealedFiles, key_of_phrase, new_phrase
from factmem.transfer._outputs import write_whole
from factmem.transfer._rows import check_store
from factmem.transfer.bundle import BundleReader, BundleWriter

__all__ = ["SyncReport", "key_of_phrase", "new_phrase", "sync_devices"]

_CHUNK = 8 * 1024 * 1024
"""About the most bytes of a bundle in one file; file services send a changed file whole."""
_MOST_FILES, _SMALL = 16, _CHUNK // 8
"""A device with more small files than that folds them into one."""


@dataclass(frozen=True, slots=True)
class SyncReport(Displayed):
    """What a sync did."""

    sent: int = 0
    """How many entries were written to the folder."""
    received: int = 0
    """How many entries of other devices were new."""
    erased: int = 0
    """How many places were removed, because another device had erased them."""
    devices: int = 1
    """How many devices have files in the folder, with this one."""
    behind: tuple[tuple[str, datetime], ...] = ()
    """The devices that have not read this device's last purge or erasure, each with the time of its
    last sync. They may still have the values."""
    problems: tuple[str, ...] = ()
    """What is wrong in the folder: files that cannot be opened, are missing or are older than those
    read before. Nothing of them was taken, and nothing is lost by them here."""


_Digests: TypeAlias = str
"""The digests of entries one after the other, as a JSON parser is slow with many strings."""
_DIGEST = 12
"""The characters of one: 72 bits."""


class _Sent(NamedTuple):
    """What this device has published of a place."""

    identity: Identity
    digests: _Digests = ""
    """Of the entries in its own files."""
    last: str = ""
    """When the last entry of the place was recorded."""
    state: str = ""
    """The state of the place in the store: while it has this one, it is not read."""


@dataclass
class _Known:
    """What this device has read and written; the file `state.json`."""

    device: str = field(default_factory=lambda: token_hex(8))
    key: str = ""
    serial: int = 0
    own: dict[str, list[int]] = field(default_factory=dict)
    """Its files, each with its size and time."""
    receipt: str | None = None
    """The one of them that only says what was read."""
    removed_at: int = 0
    """The serial of the last files from which something was removed."""
    wanted: list[str] | None = None
    """The only places that were synced."""
    concepts: list[Any] = field(default_factory=list)
    """The definitions in its files."""
    read: dict[str, dict[str, dict[str, _Digests]]] = field(default_factory=dict)
    """The entries in the files that were read, by device, file and place."""
    latest: dict[str, tuple[int, list[str], str]] = field(default_factory=dict)
    """The last serial of each device, the files that it had then, and the time."""
    places: dict[str, _Sent] = field(default_factory=dict)
    erased: dict[str, tuple[Identity, str, str]] = field(default_factory=dict)
    """The time of the last erasure of each place, and when this device learnt of it."""
    seen_by: dict[str, int] = field(default_factory=dict)
    """The last serial of this device that each other one has read."""

    @classmethod
    def load(cls, path: Path) -> "tuple[_Known, bytes]":
        """Return the state and its text; a new device if there is none, or a damaged one."""
        try:
            text = path.read_bytes()
            known = cls(**orjson.loads(text))
            known.places = {name: _Sent(*each) for name, each in known.places.items()}
        except (FileNotFoundError, ValueError, TypeError):
            return cls(), b""
        return known, text

    def theirs(self, place: str) -> frozenset[str]:
        """Return the digests of a place in the files of others."""
        files = (found for files in self.read.values() for found in files.values())
        return frozenset(each for found in files for each in _cut(found.get(place, "")))


async def sync_devices(
    store: FactStore,
    folder: str | os.PathLike[str],
    *,
    key: Key,
    state: str | os.PathLike[str],
    places: Iterable[Place] | None = None,
    dry_run: bool = False,
    clock: TimeProvider = system_clock,
    progress: Callable[[int, int], None] | None = None,
) -> SyncReport:
    """Exchange facts with the other devices that use a folder.

    Afterwards this store has what all others had written, and they get what it has with their next
    sync: facts, corrections, forgettings, proposals, purges, erasures, and the definitions of
    concepts. Conversations stay on each device. A sync that fails or is killed leaves nothing
    half-done: the next one continues. One without changes reads no facts.

    Args:
        store: The memory of this device.
        folder: A folder that the devices share: a drive, or one that a service copies. All files
            in it are encrypted with `key`; their names, times and padded sizes are visible.
        key: The key of the shared memory: of `key_of_phrase`, or `Key.generate()`. Files of another
            key are reported and left alone. With a new key, this device writes its files again.
        state: A folder of this device alone, for what it knows about the shared one. If it is
            missing, it is created.
        places: Only these places; all by default.
        dry_run: Report what would be sent, and write nothing.
        clock: Returns the time.
        progress: Called with the number of files of others that are read, and of all new ones.

    Raises:
        StoreBusyError: Another sync with this `state` is running.
        StorageError: The store failed.
        OSError: A folder cannot be read or written.
    """
    check_store(store, "store")
    expect(key, Key, "key", "key=key_of_phrase(words)")
    shared = Path(expect_path(folder, "folder", "/mnt/drive/memory"))
    own = Path(expect_path(state, "state", "memory.sync"))
    if not await run_sync(shared.is_dir):
        raise NotADirectoryError(f"{str(shared)!r} is no folder: create it, or mount it")
    await run_sync(partial(own.mkdir, mode=0o700, parents=True, exist_ok=True))
    wanted = None if places is None else list(checked_places(places))
    with _locked(own / "lock"):
        files = await run_sync(SealedFiles, shared, key)
        path = own / "state.json"
        run = _Sync(store, files, path, wanted=wanted, now=stamp(clock()))
        return await run.done(is_dry=dry_run, progress=progress)


@contextmanager
def _locked(path: Path) -> Generator[None]:
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            try_lock(fd)
        except OSError:
            raise StoreBusyError(
                f"{str(path.parent)!r} is in use by another sync: wait for it"
            ) from None
        yield
    finally:
        os.close(fd)


@runtime_checkable
class _Stateful(Protocol):
    """A store that knows what has changed without reading it: one in a database."""

    async def states(self, known: Collection[str]) -> dict[str, Place | None]: ...

    async def entries_since(self, place: Place, state: str) -> list[Entry] | None: ...


async def _states(store: FactStore, known: Collection[str]) -> dict[str, Place | None]:
    if isinstance(store, _Stateful):
        return await store.states(known)
    return {token_hex(8): place for place in await store.list_places()}


class _Found:
    """What was read of a place that has changed."""

    def __init__(
        self, place: Place, state: str, entries: list[Entry], *, is_whole: bool, is_grown: bool
    ) -> None:
        self.place = place
        self.state = state
        self.entries = entries
        self.last: str = entries[-1]["at"] if entries else ""
        self.digests = _digests(entries)
        self.is_whole = is_whole
        """Whether these are all of its entries, and not only those since the last sync."""
        self.is_grown = is_grown
        """Whether all that it had at the last sync is as it was."""


class _Sync:
    """One sync of one device."""

    def __init__(
        self,
        store: FactStore,
        files: SealedFiles,
        path: Path,
        *,
        wanted: list[Place] | None,
        now: str,
    ) -> None:
        self._store = store
        self._files = files
        self._path = path
        self._known, self._text = _Known.load(path)
        self._wanted = None if wanted is None else {_name(place.identity) for place in wanted}
        self._now = now
        self._problems: list[str] = []
        self._erased = self._received = self._sent = 0
        self._is_fold = False
        """Whether all that the store has is written again."""
        self._is_removed = False
        """Whether something was purged or erased here, so that it leaves the folder."""
        self._is_older = False
        """Whether the store is an older one than that of the last sync, as after a restore."""
        self._is_news = False
        """Whether others should learn that something of theirs was read."""
        self._gone: dict[str, set[str]] = {}
        """What was in files of others that are gone, by place."""
        self._again: set[str] = set()
        """Places whose entries are read though they have not changed."""
        self._states: dict[str, str] = {}
        """The state of each place at the last look."""
        self._taken: dict[str, tuple[int, str]] = {}
        """How many entries of others were added to each place since then, and when the last one was
        recorded."""
        self._present: dict[str, _Found] = {}
        """The places that have changed since the last sync."""

    async def done(
        self, *, is_dry: bool, progress: Callable[[int, int], None] | None
    ) -> SyncReport:
        """Read what others have written, then write what nobody has."""
        known = self._known
        if not self._text and not is_dry:  # a kill must not leave files of a forgotten device
            await run_sync(self._save)
        listed, others = await run_sync(self._files.listed)
        self._problems += [f"{name!r} has the name of no device's file" for name in others]
        await run_sync(self._check_files, listed)
        await self._look(is_dry=is_dry)
        await self._note_removals()
        if not is_dry:
            await run_sync(self._files.remove_drafts, known.device)
            await self._receive(listed, progress)
        # What only files had that are gone now is published by this device.
        self._again |= {n for n, gone in self._gone.items() if not gone <= known.theirs(n)}
        if self._taken or self._again:
            await self._look(is_dry=is_dry)
        await self._publish(is_dry=is_dry)
        return self._report(listed)

    def _check_files(self, listed: dict[str, Named]) -> None:
        """Look whether the files are as they were left; own ones that are not are written again."""
        known = self._known
        own = [each for each in listed.values() if each.device == known.device]
        serials = [each.serial for each in own]
        known.serial = max(known.serial, *serials, *known.seen_by.values(), 0)
        strange = [each.name for each in own if each.name not in known.own]
        is_rekeyed = bool(known.own) and known.key != self._files.key_id
        whole = {} if is_rekeyed else self._files.whole(known.own)
        if count := 0 if is_rekeyed else len(known.own) - len(whole):
            self._problems.append(
                f"{count} files of this device were missing or changed: they are written again"
            )
        if strange and not is_rekeyed:
            self._problems.append(
                f"{len(strange)} files of this device are older ones, or of a sync that was killed: "
                f"they are removed"
            )
        self._is_fold = len(whole) < len(known.own) or bool(strange)
        known.own |= whole
        known.key = self._files.key_id
        for files in known.read.values():
            for file in files.keys() - listed.keys():
                for name, digests in files.pop(file).items():
                    self._gone.setdefault(name, set()).update(_cut(digests))
        wanted = None if self._wanted is None else sorted(self._wanted)
        if wanted != known.wanted:  # files may have entries that were not wanted before
            known.wanted, known.read = wanted, {}

    async def _look(self, *, is_dry: bool = False, is_all: bool = False) -> None:
        """Read what has changed in the store since the last sync, or all of it."""
        sent, store = self._known.places, self._store
        seen = {name: each.state for name, each in sent.items()} | self._states
        names = {state: name for name, state in seen.items()}
        taken, self._taken = self._taken, {}
        gone = set(sent)
        for state, found in (await _states(store, names)).items():
            name = names[state] if found is None else _name(found.identity)
            gone.discard(name)
            before, self._states[name] = self._states.get(name, ""), state
            if self._wanted is not None and name not in self._wanted and name not in sent:
                continue
            if found is None and not is_all and name not in self._again:
                continue
            mine = sent.get(name, _Sent(_identity(name)))
            count, last = taken.get(name, (0, ""))
            if count and name not in self._again and is_extended(before, state, count):
                # Nobody else has added anything since the last look: all of it is in other files.
                if (known := self._present.get(name)) is None:
                    sent[name] = mine._replace(last=last, state=state)
                else:
                    known.state, known.last = state, last
                continue
            place = _place_of(mine.identity)
            new = None
            is_known = bool(mine.state) and not is_all and name not in self._again
            if is_known and isinstance(store, _Stateful):
                new = await store.entries_since(place, mine.state)
            is_whole = new is None or (bool(new) and new[0]["at"] <= mine.last)
            if new is None or is_whole:
                entries = numbered(await store.entries(place.subject, place.scope))
            else:
                entries = numbered(new)
            if not is_dry and (later := await self._later(place, entries)) is not entries:
                entries, is_whole = later, True
            make = partial(_Found, is_whole=is_whole, is_grown=new is not None)
            self._present[name] = await run_sync(make, place, state, entries)
        for name in gone:
            place = _place_of(sent[name].identity)
            self._present[name] = _Found(place, "", [], is_whole=True, is_grown=False)

    async def _later(self, place: Place, entries: list[Entry]) -> list[Entry]:
        """Record again what was recorded here after an erasure, by a clock that was behind it.

        The other devices would take it for what was erased.
        """
        _, at, learnt_at = self._known.erased.get(_name(place.identity), ("", "", ""))
        if not any(entry["at"] <= at for entry in entries):
            return entries
        early = [entry for entry in entries if learnt_at <= entry["at"] <= at]
        moved = stamp(moment(at) + timedelta(microseconds=1))
        again: list[Entry] = []
        for tie, entry in enumerate(early):
            again.append({**entry, "at": moved, "tie": tie})
        await self._store.replay(again, place.subject, place.scope)
        await self._store.rewrite(_without_until(at), place.subject, place.scope)
        return numbered(await self._store.entries(place.subject, place.scope))

    async def _note_removals(self) -> None:
        """Find what is gone from the store since the last sync, and why."""
        known = self._known
        for name, found in self._present.items():
            if name not in known.places or found.is_grown:
                continue
            sent, there = known.places[name], frozenset(found.digests)
            own = frozenset(_cut(sent.digests))
            if there.issuperset(own) and there.issuperset(known.theirs(name)):
                continue
            await self._note_erasure(found.place)
            # A purge leaves the save without its value, at the same time. Where the end is missing,
            # or nothing was edited, the store was restored or lost: then all files are read again,
            # and the own ones before they are replaced.
            erased_at = known.erased.get(name, ("", ""))[1]
            is_changed = is_edited(sent.state, found.state) or erased_at >= sent.last
            self._is_older |= not is_changed or max(found.last, erased_at) < sent.last
            self._is_removed |= not there.issuperset(own)
        if self._is_older:
            known.read = {}

    async def _receive(
        self, listed: dict[str, Named], progress: Callable[[int, int], None] | None
    ) -> None:
        """Read the files that are new, and tell what is wrong."""
        known = self._known
        read = {name for files in known.read.values() for name in files}
        own = frozenset(() if self._is_older else known.own)
        new = [each for each in listed.values() if each.name not in read and each.name not in own]
        refused: Counter[str] = Counter()
        for done, each in enumerate(new, 1):
            try:
                header, bundle = await run_sync(self._files.read, each.name)
            except FileNotFoundError:  # its device has just replaced it
                continue
            except OSError:  # a link, a folder, a bad block
                refused["cannot be read"] += 1
                continue
            except (ValueError, TypeError):
                refused["cannot be opened with this key, or are not complete"] += 1
                continue
            try:
                await self._take(each, header, bundle)
            except (ValueError, TypeError, KeyError, AttributeError):
                refused["were refused: a clock may be wrong, or another version wrote them"] += 1
            if progress is not None:
                progress(done, len(new))
        self._problems += [f"{count} files {why}" for why, count in refused.items()]
        self._check_others(listed)

    async def _take(self, file: Named, header: Header, bundle: bytes) -> None:
        """Take over what is in a file."""
        known, is_news = self._known, bool(bundle)
        parts = await run_sync(_parts, bundle) if bundle else []
        for identity, at in header.erased:
            is_news |= await self._erase(tuple(identity), at)
        found: dict[str, _Digests] = {}
        for place, entries, digests in parts:
            name = _name(place.identity)
            found[name] = found.get(name, "") + "".join(digests)
            if self._wanted is None or name in self._wanted:
                await self._note_erasure(place)
                at = known.erased.get(name, ("", ""))[1]
                kept = Received(each for each in entries if each["at"] > at)
                count = await self._store.replay(kept, place.subject, place.scope)
                self._received += count
                before, end = self._taken.get(name, (0, ""))
                self._taken[name] = before + count, kept[-1]["at"] if kept else end
        await self._store.define(ConceptDefinition.load(*each) for each in header.concepts)
        if file.device != known.device:
            known.read.setdefault(file.device, {})[file.name] = found
            self._is_news |= is_news
            last = known.latest.get(file.device)
            if last is not None and file.serial < last[0] and file.name not in last[1]:
                self._problems.append(f"{file.name!r} is late, or an older one that was put back")
            if last is None or last[0] <= file.serial:
                known.latest[file.device] = file.serial, list(header.files), header.written_at
            seen = header.seen.get(known.device, 0)
            known.seen_by[file.device] = max(known.seen_by.get(file.device, 0), seen)

    def _check_others(self, listed: dict[str, Named]) -> None:
        """Tell of files that others had and that are missing, or of a folder that is an older one.

        What only those files had is in this store, and is written into its own files.
        """
        for device, (serial, files, at) in list(self._known.latest.items()):
            there = [each.serial for each in listed.values() if each.device == device]
            kept = [name for name in files if name in listed]
            if max(there, default=-1) < serial:
                self._problems.append(
                    f"The files of device {device} are older than before, or gone"
                )
            elif len(kept) < len(files):
                self._problems.append(
                    f"{len(files) - len(kept)} files of device {device} are missing"
                )
            # It is told once: from now on this is what the folder has.
            self._known.latest[device] = min(serial, max(there, default=-1)), kept, at

    async def _erase(self, identity: Any, at: str) -> bool:
        """Remove what a place has from before an erasure; return whether it was not known."""
        known, place = self._known, Place.of_identity(identity)
        name = _name(identity)
        is_wanted = self._wanted is None or name in self._wanted
        if not is_wanted or at <= known.erased.get(name, ("", ""))[1]:
            return False
        known.erased[name] = identity, at, self._now
        self._again.add(name)
        subject, scope = place.subject, place.scope
        if any(entry["at"] <= at for entry in await self._store.entries(subject, scope)):
            # Not `erase`: it would also refuse what other devices have recorded since.
            await self._store.rewrite(_without_until(at), subject, scope)
            self._erased += 1
        try:
            talks = self._store.conversations
        except StorageError:  # this store keeps none
            return True
        for chat in await talks.conversations(place):
            await talks.remove(chat.id, place, before=moment(at))
        return True

    async def _note_erasure(self, place: Place) -> None:
        """Note when this store has erased a place, to tell the others."""
        known, name = self._known, _name(place.identity)
        erased_at = await self._store.erased_at(place.subject, place.scope)
        at = "" if erased_at is None else stamp(erased_at)
        if at > known.erased.get(name, ("", ""))[1]:
            known.erased[name] = place.identity, at, self._now
            self._again.add(name)
            self._is_news = True

    async def _publish(self, *, is_dry: bool) -> None:
        """Write the entries that the folder does not have; all, if something of it must go."""
        known = self._known
        is_gone = any(
            found.is_whole and not set(_cut(known.places[name].digests)) <= set(found.digests)
            for name, found in self._present.items()
            if name in known.places
        )
        is_fold = self._is_fold or is_gone
        small = sorted(name for name, (size, _) in known.own.items() if size < _SMALL)
        old: list[tuple[Place, list[Entry]]] = []
        if len(small) <= _MOST_FILES:
            small = []
        try:
            old = await run_sync(lambda: list(chain(*map(self._entries_in, small))))
        except (OSError, ValueError):
            is_fold = True
        if is_fold:
            small, old = [], []
            await self._look(is_dry=is_dry, is_all=True)
        new: list[tuple[Place, list[Entry]]] = []
        places = known.places.copy()
        for name, found in self._present.items():
            sent = known.places.get(name, _Sent(found.place.identity))
            theirs = known.theirs(name)
            own = frozenset(() if is_fold else _cut(sent.digests))
            rest = [
                (entry, digest)
                for entry, digest in zip(found.entries, found.digests, strict=True)
                if digest not in own and digest not in theirs
            ]
            if rest:
                new.append((found.place, [entry for entry, _ in rest]))
            mine = sent.digests
            if found.is_whole:
                mine = "".join(each for each in found.digests if each in own)
            mine += "".join(digest for _, digest in rest)
            places[name] = _Sent(found.place.identity, mine, found.last or sent.last, found.state)
            if not found.state:
                del places[name]
        self._sent += sum(len(entries) for _, entries in new)
        if is_dry:
            return
        known.places = places
        concepts = [[each.keyword, each.dump()] for each in await self._store.concepts()]
        is_told = concepts == known.concepts and bool(known.own)
        known.concepts = concepts
        if new or is_fold or self._is_news or not is_told:
            await self._write([*old, *new], small, is_fold=is_fold)
            if self._is_removed:
                known.removed_at = known.serial
        await run_sync(self._save)

    def _save(self) -> None:
        """Write the state, durably, if it is another one."""
        text = orjson.dumps(self._known.__dict__, default=list)
        if text != self._text:
            write_whole(str(self._path), text)
            self._text = text

    def _entries_in(self, name: str) -> list[tuple[Place, list[Entry]]]:
        """Return what is in an own file."""
        _, bundle = self._files.read(name)
        return [part[:2] for part in _parts(bundle)] if bundle else []

    async def _write(
        self, new: Sequence[tuple[Place, list[Entry]]], small: Sequence[str], *, is_fold: bool
    ) -> None:
        """Write new files, and remove those that they replace."""
        known = self._known
        receipts = [] if known.receipt is None else [known.receipt]
        replaced = [*known.own] if is_fold else [*receipts, *small]
        if is_fold:  # what a killed or restored device has left there
            listed, _ = await run_sync(self._files.listed)
            replaced += [each.name for each in listed.values() if each.device == known.device]
        kept = [name for name in known.own if name not in replaced]
        seen = {device: last[0] for device, last in known.latest.items()}
        header = {
            "seen": seen,
            "written_at": self._now,
            "erased": [each[:2] for each in known.erased.values()],
            "concepts": known.concepts,
        }
        bundles = await run_sync(lambda: list(_bundles(new, self._now))) or [b""]
        for bundle in bundles:
            known.serial += 1
            head = {**header, "files": kept}
            name = await run_sync(self._files.write, known.device, known.serial, head, bundle)
            kept.append(name)
        known.own = await run_sync(self._files.whole, dict.fromkeys(kept, ()))
        known.receipt = None if new else kept[-1]
        # The state before the removal: after a kill here, the old files are strange and are folded.
        await run_sync(self._save)
        await run_sync(self._files.remove, dict.fromkeys(replaced))

    def _report(self, listed: dict[str, Named]) -> SyncReport:
        known = self._known
        others = {each.device for each in listed.values()} - {known.device}
        behind = tuple(
            (device, moment(known.latest[device][2]))
            for device in sorted(others & known.latest.keys())
            if known.seen_by.get(device, 0) < known.removed_at
        )
        return SyncReport(
            self._sent, self._received, self._erased, 1 + len(others), behind, tuple(self._problems)
        )


def _name(identity: Sequence[str | None]) -> str:
    return orjson.dumps(identity).decode()


def _place_of(identity: Sequence[Any]) -> Place:
    kind, scope, subject, entity = identity
    return Place.of_identity((kind, scope, subject, entity))


def _without_until(at: str) -> Edit:
    return lambda entries: [each if each["at"] > at else None for each in entries]


def _identity(name: str) -> Identity:
    kind, scope, subject, entity = orjson.loads(name)
    return kind, scope, subject, entity


def _cut(digests: _Digests) -> list[str]:
    return [digests[at : at + _DIGEST] for at in range(0, len(digests), _DIGEST)]


def _parts(bundle: bytes) -> list[tuple[Place, list[Entry], list[str]]]:
    """Return the places of a bundle, each with its entries and their digests.

    A file that opens was written by a device with the key, and what that has in its store is valid.
    """
    reader = BundleReader(BytesIO(bundle), is_verified=True)
    reader.read_header()
    found: list[tuple[Place, list[Entry], list[str]]] = []
    while (part := reader.read_part()) is not None:
        entries = [reader.read_entry() for _ in range(part.lines)]
        found.append((part.place, entries, _digests(entries)))
    return found


def _digests(entries: Iterable[Entry]) -> list[str]:
    """Return a digest of each entry; where it stands among those of its time may change."""
    found: list[str] = []
    for entry in entries:
        rest: Any = entry
        if "tie" in entry:
            rest = {name: part for name, part in entry.items() if name != "tie"}
        body = encoded_entry(rest) + entry["at"].encode()
        found.append(b64encode(blake2b(body, digest_size=9).digest()).decode())
    return found


def _bundles(new: Sequence[tuple[Place, list[Entry]]], now: str) -> Iterator[bytes]:
    """Yield the entries as bundles of about `_CHUNK` bytes."""
    file = BytesIO()
    writer = BundleWriter(file)
    writer.write_header(now, history=True)
    for place, entries in new:
        start = 0
        while start < len(entries):
            size, end = 0, start
            while end < len(entries) and size < _CHUNK - writer.bytes:
                size += len(encoded_entry(entries[end]))
                end += 1
            end = max(end, start + 1)
            # Those of one time stay together, so that the next file only has later ones.
            while end < len(entries) and entries[end]["at"] == entries[end - 1]["at"]:
                end += 1
            writer.write_place(place.identity, entries[start:end])
            start = end
            if writer.bytes >= _CHUNK:
                writer.write_end()
                yield file.getvalue()
                file = BytesIO()
                writer = BundleWriter(file)
                writer.write_header(now, history=True)
    if writer.entries:
        writer.write_end()
        yield file.getvalue()
