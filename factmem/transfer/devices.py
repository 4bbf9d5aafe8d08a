"""One memory on several devices, over a folder that they share. Only the devices can read it.

    report = await sync_devices(store, "/mnt/drive/memory", key=key_of_phrase(words), state="here")

Each device writes files of its own into the folder, encrypted bundles, and reads those of the
others. Copies of a place converge whatever the order in which their entries arrive (`_merging`), so
the folder needs no locks, no order and no server: a file may come late, twice or never.

A device publishes entries that no device has written to the folder yet. If something that it has
published is gone from its store (a purge, an erasure, a compaction), or its files are not as it
left them, it writes all it has as new files and removes the old ones: so removed values leave the
folder.

What a device knows of the folder is in `state`, and is written after its files. It may be lost or
old: then files are read again, or written again, and nothing else happens.
"""

import os
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from itertools import chain
from pathlib import Path
from secrets import token_hex
from typing import Any, Protocol, runtime_checkable

import orjson
from anyio.to_thread import run_sync

from factmem._arguments import expect, expect_path
from factmem._concurrency.file_lock import try_lock
from factmem.encryption.key import Key
from factmem.errors import StorageError, StoreBusyError
from factmem.ledger._merging import Received, check_recorded, numbered
from factmem.ledger.entries import Edit, Entry
from factmem.models._display import Displayed
from factmem.models.facts import ConceptDefinition
from factmem.models.places import Identity, Place, checked_places
from factmem.models.when import TimeProvider, moment, stamp, system_clock
from factmem.providers.conversations import identity_in, owner_of
from factmem.providers.results import is_edited, is_extended
from factmem.providers.store import FactStore
from factmem.transfer._device_chats import Rules, key_of, sent_form
from factmem.transfer._device_files import Header, Named, SealedFiles, key_of_phrase, new_phrase
from factmem.transfer._device_state import (
    CHUNK,
    MARKS,
    Digests,
    Known,
    Sent,
    bundles_of,
    chat_of,
    cut,
    digests_of,
    identity_of,
    name_of,
    owner_name,
    parts_of,
)
from factmem.transfer._outputs import write_whole
from factmem.transfer._rows import check_store

__all__ = ["SyncReport", "key_of_phrase", "new_phrase", "sync_devices"]

_MOST_FILES, _SMALL = 16, CHUNK // 8
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
    with _locked(own / "lock"):
        files = await run_sync(SealedFiles, shared, key)
        run = _Sync(store, files, own / "state.json", wanted, stamp(clock()))
        return await run.done(is_dry=dry_run, chats=conversations, progress=progress)


def shared_folder(folder: str | os.PathLike[str]) -> Path:
    """Return the path of a folder for a sync; raise `OSError` if there is none."""
    shared = Path(expect_path(folder, "folder", "/mnt/drive/memory"))
    if not shared.is_dir():
        raise NotADirectoryError(f"{str(shared)!r} is not a folder: create it, or mount it")
    return shared


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


@dataclass
class _Found:
    """What was read of a place that has changed."""

    identity: Identity
    state: str = ""
    entries: list[Entry] = field(default_factory=list)
    is_whole: bool = True
    """Whether these are all of its entries, and not only those since the last sync."""
    is_grown: bool = True
    """Whether all that it had at the last sync is as it was, or it is a conversation."""

    def __post_init__(self) -> None:
        self.last: str = self.entries[-1]["at"] if self.entries else ""
        self.digests = digests_of(self.entries)


class _Sync:
    """One sync of one device."""

    def __init__(
        self, store: FactStore, files: SealedFiles, path: Path, wanted: set[str] | None, now: str
    ) -> None:
        self._store, self._files, self._path, self._now = store, files, path, now
        self._known, self._text = Known.load(path)
        self._wanted = wanted
        self._marks = {name: {*cut(marks)} for name, marks in self._known.marks.items()}
        self._keys: dict[str, set[str]] = {}
        """The keys of the messages of conversations at the last look, if it was in this sync."""
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
        self, *, is_dry: bool, chats: bool, progress: Callable[[int, int], None] | None
    ) -> SyncReport:
        """Read what others have written, then write what none of them has."""
        known = self._known
        if chats and not known.chats:  # files may have some that were not wanted before
            known.chats, known.read = True, {}
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
                    self._gone.setdefault(name, set()).update(cut(digests))
        wanted = None if self._wanted is None else sorted(self._wanted)
        if wanted != known.wanted:  # files may have entries that were not wanted before
            known.wanted, known.read = wanted, {}

    async def _look(self, *, is_dry: bool = False, is_all: bool = False) -> None:
        """Read what has changed in the store since the last sync, or all of it."""
        sent, store = self._known.places, self._store
        seen = {name: each.state for name, each in sent.items()} | self._states
        names = {state: name for name, state in seen.items()}
        taken, self._taken = self._taken, {}
        gone = {name for name, each in sent.items() if chat_of(each.identity) != MARKS}
        listed = await self._listed(names)
        for state, found in listed.items():
            name = names[state] if found is None else name_of(found)
            gone.discard(name)
            before, self._states[name] = self._states.get(name, ""), state
            is_new = found is not None or is_all or name in self._again
            if not is_new or not (self._wants(name) or name in sent):
                continue
            mine = sent.get(name, Sent(identity_of(name)))
            if chat_of(mine.identity) is not None:
                await self._look_at_chat(name, state, is_dry=is_dry)
                continue
            count, last = taken.get(name, (0, ""))
            if count and name not in self._again and is_extended(before, state, count):
                # Nobody else has added anything since the last look: all of it is in other files.
                if (known := self._present.get(name)) is None:
                    sent[name] = mine._replace(last=last, state=state)
                else:
                    known.state, known.last = state, last
                continue
            place = Place.of_identity(mine.identity)
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
            given = mine.identity, state, entries, is_whole, new is not None
            self._present[name] = await run_sync(_Found, *given)
        for name in gone:
            mine = sent[name]
            self._present[name] = _Found(mine.identity, is_grown=False)
            if chat_of(mine.identity) is not None:
                await self._look_at_chat(name, "", is_dry=is_dry)

    async def _listed(self, known: Collection[str]) -> dict[str, Identity | None]:
        """Return the state of each place, and its identity if the state is not known."""
        store, found = self._store, dict[str, Identity | None]()
        if isinstance(store, _Stateful):
            for state, place in (await store.states(known)).items():
                found[state] = None if place is None else place.identity
        else:
            found |= {token_hex(8): place.identity for place in await store.list_places()}
        if self._known.chats:
            for state, named in (await store.conversations.states(known)).items():
                found[state] = None if named is None else identity_in(named[0].identity, named[1])
        return found

    async def _look_at_chat(self, name: str, state: str, *, is_dry: bool) -> None:
        """Read a conversation, and mark what was removed from it since the last look."""
        known, talks, identity = self._known, self._store.conversations, identity_of(name)
        sent = known.places.get(name, Sent(identity))
        place, chat = Place.of_identity(owner_of(identity)), chat_of(identity) or ""
        owner = name_of(place.identity)
        lines = await talks.lines(chat, place) if state else {}
        marks = self._marks.setdefault(owner, set())
        present = {key_of(name, entry) for entry in lines.values()}
        if missing := self._keys_of(name) - present - marks:
            await self._note_erasure(place)
            removed_at = await talks.removed_at(chat, place) or ""
            if is_edited(sent.state, state) or removed_at >= sent.last:
                marks |= missing
                self._is_removed = True
            elif known.erased.get(owner, ("", ""))[1] < sent.last:
                self._is_older = True
        until = known.erased.get(owner, ("", ""))[1]
        is_early = any(entry["at"] <= until for entry in lines.values())
        if not is_dry and (is_early or present & marks):  # as after a restore
            await self._merge_chat(place, chat, [])
            lines = await talks.lines(chat, place)
        self._keys[name] = {key_of(name, entry) for entry in lines.values()}
        self._present[name] = await run_sync(_Found, identity, state, sent_form(lines))

    def _keys_of(self, name: str) -> set[str]:
        sent = self._known.places.get(name)
        return self._keys[name] if name in self._keys else set(cut(sent.keys) if sent else ())

    def _look_again(self, owner: str) -> None:
        """Let a place and its conversations be read though they may not have changed."""
        names = {*self._known.places, *self._states}
        self._again |= {owner, *(name for name in names if owner_name(name) == owner)}

    def _wants(self, name: str) -> bool:
        return self._wanted is None or owner_name(name) in self._wanted

    def _look_at_marks(self, *, is_all: bool) -> None:
        for owner, marks in self._marks.items():
            identity = identity_in(identity_of(owner), MARKS)
            name, count = name_of(identity), str(len(marks))
            sent = self._known.places.get(name, Sent(identity))
            if marks and (is_all or sent.state != count or name in self._again):
                entries: list[Any] = [{"at": "", "gone": mark} for mark in sorted(marks)]
                self._present[name] = _Found(identity, count, entries)

    async def _later(self, place: Place, entries: list[Entry]) -> list[Entry]:
        """Record again what was recorded here after an erasure, by a clock that was behind it.

        The other devices would take it for what was erased.
        """
        _, at, learnt_at = self._known.erased.get(name_of(place.identity), ("", "", ""))
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
            own = frozenset(cut(sent.digests))
            if there.issuperset(own) and there.issuperset(known.theirs(name)):
                continue
            await self._note_erasure(Place.of_identity(found.identity))
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
        parts = await run_sync(parts_of, bundle) if bundle else []
        for identity, at in header.erased:
            is_news |= await self._erase(tuple(identity), at)
        found: dict[str, Digests] = {}
        for identity, entries, digests in parts:
            name, place = name_of(identity), Place.of_identity(owner_of(identity))
            found[name] = found.get(name, "") + "".join(digests)
            if not self._wants(name):
                continue
            await self._note_erasure(place)
            if (chat := chat_of(identity)) is not None:
                if known.chats:
                    await self._take_chat(place, chat, entries)
            else:
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

    async def _take_chat(self, place: Place, chat: str, entries: list[Any]) -> None:
        """Take over messages of a conversation, or the marks of removed ones."""
        check_recorded(entries, self._now)
        if chat != MARKS:
            await self._merge_chat(place, chat, entries)
            return
        marks = self._marks.setdefault(name_of(place.identity), set())
        if new := {entry["gone"] for entry in entries} - marks:
            marks |= new
            await self._merge_chats(place)

    async def _merge_chats(self, place: Place) -> None:
        """Remove the messages of a place that were removed on other devices."""
        try:
            talks = self._store.conversations
        except StorageError:  # this store keeps none
            return
        for chat in await talks.conversations(place):
            await self._merge_chat(place, chat.id, [])

    async def _merge_chat(self, place: Place, chat: str, entries: list[Any]) -> None:
        owner, name = name_of(place.identity), name_of(identity_in(place.identity, chat))
        until, learnt_at = self._known.erased.get(owner, ("", "", ""))[1:]
        rules = Rules(name, self._marks.setdefault(owner, set()), until, learnt_at)
        before = after = set[str]()

        def edit(known: dict[int, Entry], last: int) -> dict[int, Entry]:
            nonlocal before, after
            before = {key_of(name, entry) for entry in known.values()}
            rules.gone.update(self._keys_of(name) - before)  # removed during this sync
            found = rules.merged(known, last, entries)
            after = {key_of(name, entry) for entry in found.values()}
            return found

        await self._store.conversations.rewrite(edit, chat, place)
        self._received += len(after - before) if entries else 0
        self._keys[name] = after
        self._taken[name] = 0, ""

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
        name = name_of(identity)
        if not self._wants(name) or at <= known.erased.get(name, ("", ""))[1]:
            return False
        known.erased[name] = identity, at, self._now
        self._look_again(name)
        subject, scope = place.subject, place.scope
        if any(entry["at"] <= at for entry in await self._store.entries(subject, scope)):
            # Not `erase`: it would also refuse what other devices have recorded since.
            await self._store.rewrite(_without_until(at), subject, scope)
            self._erased += 1
        await self._merge_chats(place)
        return True

    async def _note_erasure(self, place: Place) -> None:
        """Note when this store has erased a place, to tell the others."""
        known, name = self._known, name_of(place.identity)
        erased_at = await self._store.erased_at(place.subject, place.scope)
        at = "" if erased_at is None else stamp(erased_at)
        if at > known.erased.get(name, ("", ""))[1]:
            # What this store has from before is what it has recorded since, by a clock set back.
            known.erased[name] = place.identity, at, at
            self._look_again(name)
            self._is_news = True

    async def _publish(self, *, is_dry: bool) -> None:
        """Write the entries that the folder does not have; all, if something of it must go."""
        known = self._known
        is_gone = any(
            found.is_whole and not set(cut(known.places[name].digests)) <= set(found.digests)
            for name, found in self._present.items()
            if name in known.places
        )
        is_fold = self._is_fold or is_gone
        small = sorted(name for name, (size, _) in known.own.items() if size < _SMALL)
        old: list[tuple[Identity, list[Entry]]] = []
        if len(small) <= _MOST_FILES:
            small = []
        try:
            old = await run_sync(lambda: list(chain(*map(self._entries_in, small))))
        except (OSError, ValueError):
            is_fold = True
        if is_fold:
            small, old = [], []
            await self._look(is_dry=is_dry, is_all=True)
        self._look_at_marks(is_all=is_fold)
        new: list[tuple[Identity, list[Entry]]] = []
        places = known.places.copy()
        for name, found in self._present.items():
            sent = known.places.get(name, Sent(found.identity))
            theirs = known.theirs(name)
            own = frozenset(() if is_fold else cut(sent.digests))
            rest = [
                (entry, digest)
                for entry, digest in zip(found.entries, found.digests, strict=True)
                if digest not in own and digest not in theirs
            ]
            if rest:
                new.append((found.identity, [entry for entry, _ in rest]))
            mine = sent.digests
            if found.is_whole:
                mine = "".join(each for each in found.digests if each in own)
            mine += "".join(digest for _, digest in rest)
            keys = "".join(sorted(self._keys_of(name)))
            last = found.last or sent.last
            places[name] = Sent(found.identity, mine, last, found.state, keys)
            if not found.state:
                del places[name]
        self._sent += sum(len(entries) for _, entries in new)
        if is_dry:
            return
        known.places = places
        known.marks = {name: "".join(sorted(marks)) for name, marks in self._marks.items() if marks}
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

    def _entries_in(self, name: str) -> list[tuple[Identity, list[Entry]]]:
        """Return what is in an own file."""
        _, bundle = self._files.read(name)
        return [part[:2] for part in parts_of(bundle)] if bundle else []

    async def _write(
        self, new: Sequence[tuple[Identity, list[Entry]]], small: Sequence[str], *, is_fold: bool
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
        bundles = await run_sync(lambda: list(bundles_of(new, self._now))) or [b""]
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


def _without_until(at: str) -> Edit:
    return lambda entries: [each if each["at"] > at else None for each in entries]
