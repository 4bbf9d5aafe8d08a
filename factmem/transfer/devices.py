"""One memory on several devices, over a folder that they share. Only the devices can read it.

    report = await sync_devices(store, "/mnt/drive/memory", key=key_of_phrase(words), state="here")

Each device writes files of its own into the folder, encrypted bundles, and reads those of the
others. Copies of a place converge whatever the order in which their entries arrive (`_merging`), so
the folder needs no locks, no order and no server: a file may come late, twice or never.

A device publishes the entries that are in no file yet. A file of its own that contains something
that is gone from its store (by a purge, an erasure, a compaction), or that is not as it left it, is
replaced: what of it the store still has is in a new file, and then it is removed. So removed values
leave the folder.

What a device knows of the folder is in `state`, and is written after its files. It may be lost or
old: then files are read again, or written again, and nothing else happens.
"""

import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import Any

import orjson
from anyio.to_thread import run_sync

from factmem._arguments import expect, expect_path
from factmem._concurrency import try_lock
from factmem.encryption.key import Key
from factmem.errors import StorageError, StoreBusyError
from factmem.ledger._merging import Received, check_recorded, numbered
from factmem.ledger.entries import Edit, Entry
from factmem.models._display import Displayed
from factmem.models.facts import ConceptDefinition
from factmem.models.places import Identity, Place, checked_places
from factmem.models.when import TimeProvider, moment, stamp, system_clock
from factmem.providers._sql.store import SqlStore
from factmem.providers.conversations import identity_in
from factmem.providers.results import is_edited, is_extended
from factmem.providers.store import FactStore
from factmem.transfer._device_files import SealedFiles, key_of_phrase, new_phrase
from factmem.transfer._device_state import (
    KEY,
    MARKS,
    Digests,
    Known,
    Part,
    Rules,
    bundles_of,
    cut,
    key_of,
    marks_of,
    name_of,
    parts_of,
    sent_form,
    where,
)
from factmem.transfer._outputs import write_whole
from factmem.transfer._rows import check_store

__all__ = ["SyncReport", "key_of_phrase", "new_phrase", "sync_devices"]

_MOST_FILES, _SMALL = 16, 128 * 1024
"""A device with more small files than this merges them at its next change."""


@dataclass(frozen=True, slots=True)
class SyncReport(Displayed):
    """The result of a sync."""

    sent: int = 0
    """How many entries were written to the folder for the first time."""
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


async def sync_devices(
    store: FactStore,
    folder: str | os.PathLike[str],
    *,
    key: Key,
    state: str | os.PathLike[str],
    places: Iterable[Place] | None = None,
    conversations: bool = False,
    dry_run: bool = False,
    clock: TimeProvider = system_clock,
    progress: Callable[[int, int], None] | None = None,
) -> SyncReport:
    """Exchange facts with the other devices that use a folder.

    Afterwards this store has what all others had written, and they get what it has with their next
    sync: facts, corrections, forgettings, proposals, purges, erasures, and the definitions of
    concepts. A sync that fails or is killed leaves nothing half-done: the next one continues. One
    without changes reads no facts. Erasures of a store in memory stay on the device.

    Args:
        store: The memory of this device.
        folder: A folder that the devices share: a drive, or one that a service copies. All files
            in it are encrypted with `key`; their names, times and padded sizes are visible.
        key: The key of the shared memory: of `key_of_phrase`, or `Key.generate()`. Files of another
            key are reported and left alone. With a new key, this device writes its files again.
        state: A folder of this device alone, for what it knows about the shared one. If it is
            missing, it is created.
        places: Only these places; all by default.
        conversations: Sync conversations as well, from now on: messages in the order in which they
            were appended, edited and removed ones. Messages of others are not queued for learning.
            Where two devices continued one conversation, later messages get other numbers. Sync a
            restored store before you remove messages: those that are removed earlier come back.
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
    shared = await run_sync(shared_folder, folder)
    own = Path(expect_path(state, "state", "memory.sync"))
    await run_sync(partial(own.mkdir, mode=0o700, parents=True, exist_ok=True))
    wanted = None if places is None else {name_of(each.identity) for each in checked_places(places)}
    with await run_sync(open, own / "lock", "ab") as lock:
        try:
            try_lock(lock.fileno())
        except OSError:
            raise StoreBusyError(f"{str(own)!r} is in use by another sync: wait for it") from None
        files = await run_sync(SealedFiles, shared, key)
        run = _Sync(store, files, own / "state.json", wanted=wanted, now=stamp(clock()))
        return await run.done(is_dry=dry_run, chats=conversations, progress=progress)


def shared_folder(folder: str | os.PathLike[str]) -> Path:
    """Return the path of a folder for a sync; raise `OSError` if there is none."""
    shared = Path(expect_path(folder, "folder", "/mnt/drive/memory"))
    if not shared.is_dir():
        raise NotADirectoryError(f"{str(shared)!r} is not a folder: create it, or mount it")
    return shared


def opens_none(folder: str | os.PathLike[str], key: Key) -> bool:
    """Return whether a folder has files of devices, and a key opens none of them."""
    files = SealedFiles(Path(folder), key)
    names, _ = files.listed()
    for name in names:
        with suppress(OSError, ValueError):
            files.read(name)
            return False
    return bool(names)


class _Sync:
    """One sync of one device."""

    def __init__(
        self, store: FactStore, files: SealedFiles, path: Path, *, wanted: set[str] | None, now: str
    ) -> None:
        self._store, self._files, self._path, self._now = store, files, path, now
        self._known, self._text = Known.load(path)
        self._wanted = wanted
        self._is_dry = False
        self._problems: list[str] = []
        self._erased = self._received = self._sent = 0
        self._is_removed = False
        """Whether something was purged or erased here, and must leave the folder."""
        self._is_older = False
        """Whether the store is older than at the last sync, as after a restore."""
        self._is_news = False
        """Whether there is something to acknowledge to other devices."""
        self._names: dict[str, tuple[str, int]] = {}
        """The device and the serial of each file in the folder."""
        self._replaced: set[str] = set()
        """Own files to remove once their remaining entries are in new files."""
        self._rekeyed: set[str] = set()
        """Own files under an earlier key."""
        self._gone: dict[str, set[str]] = {}
        """The digests of entries in files that are missing now, by place."""
        self._again: set[str] = set()
        """Unchanged places whose entries the next scan must read."""
        self._states: dict[str, str] = {}
        """The state of each place at the last scan."""
        self._taken: dict[str, tuple[int, str]] = {}
        """How many entries of others each place got since then, and when the last was recorded."""
        self._keys: dict[str, set[str]] = {}
        """The keys of the messages of conversations at the last scan, if it was in this sync."""
        self._present: dict[str, Part] = {}
        """The entries read from places that have changed since the last sync."""

    async def done(
        self, *, is_dry: bool, chats: bool, progress: Callable[[int, int], None] | None
    ) -> SyncReport:
        """Read what others have written, then write what no file has."""
        known, self._is_dry = self._known, is_dry
        options = None if self._wanted is None else sorted(self._wanted), chats or known.chats
        # With other options, entries that were skipped in files before may be wanted.
        is_unread, (known.wanted, known.chats) = options != (known.wanted, known.chats), options
        if not self._text and not is_dry:  # a kill must not leave files of a forgotten device
            await run_sync(self._save)
        self._names, others = await run_sync(self._files.listed)
        self._problems += [f"{name!r} has the name of no device's file" for name in others]
        await run_sync(self._check_files)
        await self._scan()
        await self._note_removals()
        if not is_dry:
            new = self._names.keys() - (known.own if is_unread else known.files) - self._rekeyed
            # After a restore, own files are read too, before they are replaced.
            await self._receive(sorted(self._names if self._is_older else new), progress)
        # This device publishes entries again that only the missing files had.
        self._again |= {name for name, gone in self._gone.items() if gone - known.held(name)}
        if self._taken or self._again:
            await self._scan()
        await self._publish()
        return self._report()

    def _check_files(self) -> None:
        """Check the files of the folder, and mark own ones that were changed as replaced."""
        known, names = self._known, self._names
        own = {name: serial for name, (device, serial) in names.items() if device == known.device}
        known.serial = max([known.serial, *own.values(), *known.seen_by.values()])
        is_rekeyed = bool(known.own) and known.key != self._files.key_id
        whole = {} if is_rekeyed else self._files.whole(known.own)
        self._replaced = (own.keys() | known.own) - whole.keys()
        if is_rekeyed:
            self._rekeyed = self._replaced
        elif self._replaced:
            self._problems.append(
                f"{len(self._replaced)} files of this device were missing or changed, or are older "
                f"ones, or of a sync that was killed: they are replaced"
            )
        known.own, known.key = whole, self._files.key_id
        for file in list(known.files):
            if is_rekeyed or file in self._replaced or file not in names:
                self._forget(file)

    def _forget(self, file: str) -> set[str]:
        """Forget a missing or replaced file; return the places of its entries."""
        self._known.own.pop(file, None)
        held = self._known.files.pop(file)
        for name, digests in held.items():
            self._gone.setdefault(name, set()).update(cut(digests))
        return {*held}

    async def _scan(self) -> None:
        """Read what has changed in the store since the last sync."""
        known, again, taken = self._known, self._again, self._taken
        self._again, self._taken = set(), {}
        seen = {name: state for name, (state, _) in known.places.items()} | self._states
        names = {state: name for name, state in seen.items() if state}
        gone = known.places.keys() | again
        for state, found in (await self._listed(names)).items():
            name = names[state] if found is None else name_of(found)
            gone.discard(name)
            before, self._states[name] = self._states.get(name, ""), state
            is_known = name in known.places or name in again
            if (found is None and name not in again) or not (is_known or self._wants(name)):
                continue
            count, last = taken.get(name, (0, ""))
            if not count or name in again or not is_extended(before, state, count):
                await self._read(name, state, is_again=name in again)
            # Only entries of other devices were added since the last scan, and files have these.
            elif (present := self._present.get(name)) is None:
                known.places[name] = state, last
            else:
                present.state, present.last = state, last
        for name in gone:
            self._states[name] = ""
            await self._read(name, "", is_again=False)

    async def _listed(self, known: Collection[str]) -> dict[str, Identity | None]:
        """Return the state of each place, and its identity if the state is not known."""
        store, found = self._store, dict[str, Identity | None]()
        if isinstance(store, SqlStore):
            for state, place in (await store.states(known)).items():
                found[state] = None if place is None else place.identity
        else:
            found |= {token_hex(8): place.identity for place in await store.list_places()}
        if self._known.chats:
            for state, named in (await store.conversations.states(known)).items():
                found[state] = None if named is None else identity_in(named[0].identity, named[1])
        return found

    async def _read(self, name: str, state: str, *, is_again: bool) -> None:
        _, place, chat = where(name)
        if chat is not None:
            if chat != MARKS:
                await self._read_chat(name, state)
            return
        (before, last), entries = self._known.places.get(name, ("", "")), None
        if state and before and not is_again and isinstance(self._store, SqlStore):
            entries = await self._store.entries_since(place, before)
        is_whole = entries is None or (bool(entries) and entries[0]["at"] <= last)
        if entries is None or is_whole:
            entries = await self._store.entries(place.subject, place.scope)
        at, learnt_at = self._known.erased.get(name, ("", ""))
        if not self._is_dry and any(entry["at"] <= at for entry in entries):
            entries, is_whole = await self._later(place, entries, at, learnt_at), True
        self._present[name] = await run_sync(Part.of, name, numbered(entries), state)
        self._present[name].is_whole = is_whole

    async def _later(
        self, place: Place, entries: list[Entry], at: str, learnt_at: str
    ) -> list[Entry]:
        """Record again what was recorded after an erasure, but dated before it by a slow clock.

        Otherwise the other devices would treat it as erased.
        """
        early = [entry for entry in numbered(entries) if learnt_at <= entry["at"] <= at]
        moved = stamp(moment(at) + timedelta(microseconds=1))
        again: list[Entry] = [{**each, "at": moved, "tie": tie} for tie, each in enumerate(early)]
        await self._store.replay(again, place.subject, place.scope)
        await self._store.rewrite(_without_until(at), place.subject, place.scope)
        return await self._store.entries(place.subject, place.scope)

    async def _read_chat(self, name: str, state: str) -> None:
        """Read a conversation, and mark what was removed from it since the last scan."""
        known, (owner, place, chat) = self._known, where(name)
        before, last = known.places.get(name, ("", ""))
        marks = known.marks.setdefault(owner, set())
        part = await self._messages(name) if state else Part(name)
        if missing := self._keys_of(name) - part.keys - marks:
            until = await self._erased_until(owner)
            removed_at = await self._store.conversations.removed_at(chat or "", place) or ""
            if is_edited(before, state) or removed_at >= last:
                marks |= missing
                self._is_removed = True
            else:
                self._is_older |= until < last
        until, _ = known.erased.get(owner, ("", ""))
        is_early = any(entry["at"] <= until for entry in part.entries)
        if not self._is_dry and (is_early or part.keys & marks):  # as after a restore
            await self._merge_chat(name)
            part = await self._messages(name)
        part.state, self._keys[name], self._present[name] = state, part.keys, part

    async def _messages(self, name: str) -> Part:
        _, place, chat = where(name)
        lines = await self._store.conversations.lines(chat or "", place)
        return await run_sync(Part.of, name, sent_form(lines))

    def _keys_of(self, name: str) -> set[str]:
        """Return the keys of the messages that a conversation had at the last scan."""
        if name in self._keys or name not in self._known.places:
            return self._keys.get(name, set())
        return {each[:KEY] for each in self._known.held(name) | self._gone.get(name, set())}

    def _wants(self, name: str) -> bool:
        return self._wanted is None or where(name).owner in self._wanted

    async def _note_removals(self) -> None:
        """Find what was removed from the store since the last sync, and why."""
        known = self._known
        for name, part in self._present.items():
            gone = (known.held(name) | self._gone.get(name, set())) - {*part.digests}
            is_read = name in known.places and part.is_whole and where(name).chat is None
            if not is_read or not gone:
                continue
            # A purge leaves the save without its value, at the same time. Where the end is missing,
            # or nothing was edited, the store was restored or lost: then all files are read again.
            (before, last), erased_at = known.places[name], await self._erased_until(name)
            is_changed = is_edited(before, part.state) or erased_at >= last
            self._is_older |= not is_changed or max(part.last, erased_at) < last
            self._is_removed |= is_changed

    async def _receive(
        self, new: Sequence[str], progress: Callable[[int, int], None] | None
    ) -> None:
        """Read new files, and report problems."""
        refused: Counter[str] = Counter()
        for done, name in enumerate(new, 1):
            try:
                header, bundle = await run_sync(self._files.read, name)
            except FileNotFoundError:  # its device has replaced it meanwhile
                continue
            except (OSError, ValueError, TypeError):  # also a link, a folder, a bad block
                refused["that cannot be opened with this key, or are not complete"] += 1
                continue
            try:
                await self._take(name, header, bundle)
            except (ValueError, TypeError, KeyError, AttributeError):
                refused["that a wrong clock or another version may have written"] += 1
            if progress is not None:
                progress(done, len(new))
        self._problems += [f"Files {why}: {count}" for why, count in refused.items()]
        for device, (serial, files, at) in list(self._known.latest.items()):
            # Entries that only missing files had are in this store, and go into its own files.
            last = max((at for name, at in self._names.values() if name == device), default=-1)
            kept = [name for name in files if name in self._names]
            if lost := len(files) - len(kept):
                older = "; the others are older" if last < serial else ""
                self._problems.append(f"Missing files of device {device}: {lost}{older}")
            # Reported once: from now on this is the expected content of the folder.
            self._known.latest[device] = min(serial, last), kept, at

    async def _take(self, file: str, header: dict[str, Any], bundle: bytes) -> None:
        """Apply the contents of a file to the store."""
        known, is_news, held = self._known, bool(bundle), dict[str, Digests]()
        device, serial = self._names[file]
        for name, at in header["erased"]:
            is_news |= await self._erase(name, at)
        for part in await run_sync(parts_of, bundle) if bundle else []:
            owner, place, chat = where(part.name)
            if not self._wants(owner) or (chat is not None and not known.chats):
                continue
            until = await self._erased_until(owner)
            if chat is None:
                kept = Received(entry for entry in part.entries if entry["at"] > until)
                count = await self._store.replay(kept, place.subject, place.scope)
                self._received += count
                self._note_taken(owner, count, part.last)
            elif chat != MARKS:
                check_recorded(part.entries, self._now)
                await self._merge_chat(part.name, part, until)
            elif new := {entry["gone"] for entry in part.entries} - known.marks.get(owner, set()):
                known.marks.setdefault(owner, set()).update(new)
                await self._merge_chats(place)
            held[part.name] = held.get(part.name, "") + "".join(part.digests)
        await self._store.define(ConceptDefinition.load(*each) for each in header["concepts"])
        if device == known.device:
            self._again |= held.keys()
            return
        known.files[file] = held
        self._is_news |= is_news
        last, files, _ = known.latest.get(device, (-1, [], ""))
        if serial < last and file not in files:
            self._problems.append(f"{file!r} is late, or an older one that was put back")
        if last <= serial:
            known.latest[device] = serial, list(header["files"]), str(header["written_at"])
        seen = header["seen"].get(known.device, 0)
        known.seen_by[device] = max(seen, known.seen_by.get(device, 0))

    def _note_taken(self, name: str, lines: int, last: str) -> None:
        before, end = self._taken.get(name, (0, ""))
        self._taken[name] = before + lines, max(end, last)

    async def _merge_chats(self, place: Place) -> None:
        """Remove messages of a place that were removed on other devices."""
        with suppress(StorageError):  # the store keeps no conversations
            for chat in await self._store.conversations.conversations(place):
                await self._merge_chat(name_of(identity_in(place.identity, chat.id)))

    async def _merge_chat(self, name: str, given: Part | None = None, until: str = "") -> None:
        """Merge a conversation with the messages of another device."""
        known, (owner, place, chat) = self._known, where(name)
        marks, before = known.marks.setdefault(owner, set()), self._keys_of(name)
        rules = Rules(name, marks, *known.erased.get(owner, ("", "")))
        others, marked = [] if given is None else given.entries, len(marks)
        received, lines, last = 0, 0, ""

        def edit(old: dict[int, Entry], end: int) -> dict[int, Entry]:
            nonlocal received, lines, last
            if before:  # what was removed during this sync
                marks.update(before - {key_of(name, entry) for entry in old.values()})
            found = rules.merged(old, end, others)
            received = len({*map(_said, found.values())} - {*map(_said, old.values())})
            lines = max([end - 1, *found]) + 1 - end
            last = max((entry["at"] for entry in found.values()), default="")
            return found

        await self._store.conversations.rewrite(edit, chat or "", place)
        self._note_taken(name, lines, last)
        if given is not None:
            self._received += received
            pairs = zip(others, given.digests, strict=True)
            self._keys[name] = before | {key[:KEY] for each, key in pairs if each["at"] > until}
        if len(marks) > marked:  # the other devices do not know these removals
            self._again.add(name)

    async def _erase(self, owner: str, at: str) -> bool:
        """Remove entries of a place from before an erasure; return whether the erasure is new."""
        if not self._wants(owner) or at <= self._known.erased.get(owner, ("", ""))[0]:
            return False
        self._note_erasure(owner, at, self._now)
        place = where(owner).place
        entries = await self._store.entries(place.subject, place.scope)
        if any(entry["at"] <= at for entry in entries):
            # Not `erase`: it would also refuse what other devices have recorded since.
            await self._store.rewrite(_without_until(at), place.subject, place.scope)
            self._erased += 1
        await self._merge_chats(place)
        return True

    async def _erased_until(self, owner: str) -> str:
        """Return when a place was last erased, on any device; note it if that was here."""
        place = where(owner).place
        erased_at = await self._store.erased_at(place.subject, place.scope)
        at = "" if erased_at is None else stamp(erased_at)
        if at > self._known.erased.get(owner, ("", ""))[0]:
            # Entries with earlier times were recorded after it, by a clock that was set back.
            self._note_erasure(owner, at, at)
            self._is_news = True
        return self._known.erased.get(owner, ("", ""))[0]

    def _note_erasure(self, owner: str, at: str, learnt_at: str) -> None:
        self._known.erased[owner] = at, learnt_at
        names = {owner, *self._known.places, *self._states}
        self._again |= {name for name in names if where(name).owner == owner}

    async def _publish(self) -> None:
        """Write the entries that no file has, and replace files with removed entries."""
        known = self._known
        small = {name for name, (size, _) in known.own.items() if size < _SMALL}
        self._replaced |= small if self._present and len(small) > _MOST_FILES else set()
        while self._drop_replaced():
            await self._scan()
        parts = list(self._present.values())
        if parts or self._replaced or self._gone:
            parts += [marks_of(*each) for each in known.marks.items()]
        new = [part for part in map(self._unpublished, parts) if part.entries]
        self._sent = sum(len({*each.digests} - self._gone.get(each.name, set())) for each in new)
        for name, part in self._present.items():
            _, last = known.places.pop(name, ("", ""))
            if part.state:
                known.places[name] = part.state, part.last or last
        if self._is_dry:
            return
        concepts = [[each.keyword, each.dump()] for each in await self._store.concepts()]
        is_told, known.concepts = concepts == known.concepts and bool(known.own), concepts
        if new or self._replaced or self._is_news or not is_told:
            await self._write(new)
        await run_sync(self._save)

    def _drop_replaced(self) -> bool:
        """Forget own files with removed entries; return whether places must be read again."""
        known = self._known
        wholes = {name: {*each.digests} for name, each in self._present.items() if each.is_whole}
        for file in [*known.own]:
            held = known.files[file]
            names = held.keys() & wholes.keys()
            is_gone = any(not wholes[name].issuperset(cut(held[name])) for name in names)
            if is_gone or file in self._replaced:
                self._replaced.add(file)
                self._again |= self._forget(file) - wholes.keys()
        return bool(self._again)

    def _unpublished(self, part: Part) -> Part:
        """Return the entries that are in no file."""
        held, pairs = self._known.held(part.name), zip(part.entries, part.digests, strict=True)
        rest = [each for each in pairs if each[1] not in held]
        return Part(part.name, [entry for entry, _ in rest], [digest for _, digest in rest])

    def _save(self) -> None:
        """Write the state durably, if it has changed."""
        text = orjson.dumps(self._known.__dict__, default=sorted)
        if text != self._text:
            write_whole(str(self._path), text)
            self._text = text

    async def _write(self, new: Sequence[Part]) -> None:
        """Write new files, and remove those that they replace."""
        known, made = self._known, list[str]()
        for name in [name for name in known.own if not known.files[name]]:
            self._replaced.add(name)  # it only contains an acknowledgement
            self._forget(name)
        header: dict[str, Any] = {
            "seen": {device: last[0] for device, last in known.latest.items()},
            "written_at": self._now,
            "erased": [(name, at) for name, (at, _) in known.erased.items()],
            "concepts": known.concepts,
        }
        bundles = await run_sync(lambda: list(bundles_of(new, self._now)))
        for bundle, held in bundles or [(b"", {})]:
            known.serial += 1
            head = {**header, "files": [*known.own, *made]}
            name = await run_sync(self._files.write, known.device, known.serial, head, bundle)
            made.append(name)
            known.files[name] = held
        known.own |= await run_sync(self._files.whole, dict.fromkeys(made, ()))
        known.removed_at = known.serial if self._is_removed else known.removed_at
        # The state comes first: after a kill here, the next sync removes the old files as unknown.
        await run_sync(self._save)
        await run_sync(self._files.remove, self._replaced)

    def _report(self) -> SyncReport:
        known = self._known
        others = {device for device, _ in self._names.values()} - {known.device}
        behind = tuple(
            (device, moment(known.latest[device][2]))
            for device in sorted(others & known.latest.keys())
            if known.seen_by.get(device, 0) < known.removed_at
        )
        return SyncReport(
            self._sent, self._received, self._erased, 1 + len(others), behind, tuple(self._problems)
        )


def _said(entry: Any) -> tuple[str, str]:
    return entry["turn"]["id"], entry["at"]


def _without_until(at: str) -> Edit:
    return lambda entries: [each if each["at"] > at else None for each in entries]
