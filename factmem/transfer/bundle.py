"""Backup of a store, and moves between stores, as one JSON Lines file: the bundle.

    report = await export_facts(store, "backup.jsonl")
    report = await import_facts("backup.jsonl", other_store)

A bundle contains everything: values, ids, times, importance, sources, expiry, confirmations,
conversations and, unless you omit it, the history. Any `FactStore` can import a bundle of any other without loss.

**A bundle is not encrypted**, even if its store is. Its digest detects damage, not forgery. Protect
it like the facts themselves.

`_bundle_files` opens the files, `_bundle_lines` writes and reads the lines, and `rows` imports facts
that are no bundle. An import reads a bundle twice: first to verify all of it, then to write place
by place. `_Contents.marks` ties the second reading to the first.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import Any, TypeAlias

from anyio.to_thread import run_sync
from typing_extensions import TypeIs

from factmem._arguments import expect_function
from factmem.ledger._removal import compacted
from factmem.ledger.entries import Entry
from factmem.ledger.resolution import PlacedFact
from factmem.models._checked import checked_places
from factmem.models.boundary import UNBOUNDED, Boundary
from factmem.models.clock import TimeProvider, stamp, system_clock, utc
from factmem.models.places import Identity, Place
from factmem.providers.base import FactStore
from factmem.providers.results import ErasureReceipt
from factmem.transfer._bundle_files import BundleFile, open_source, open_target
from factmem.transfer._bundle_lines import BundlePart, BundleReader, BundleWriter
from factmem.transfer._bundle_turns import StoredTurn, append_turns, conversations_of
from factmem.transfer._checks import check_store, erased_until, times_of
from factmem.transfer._rows import import_rows
from factmem.transfer.reports import ExportReport, ImportReport

__all__ = ["export_facts", "import_facts"]

_LINES_AT_A_TIME = 10_000
"""Entries verified in one call of a worker thread. A cancellation waits for that call to end."""


async def export_facts(
    store: FactStore,
    target: BundleFile,
    *,
    places: Iterable[Place] | None = None,
    history: bool = True,
    clock: TimeProvider = system_clock,
    progress: Callable[[int, int], None] | None = None,
) -> ExportReport:
    """Write the facts of a store to a bundle.

    The bundle is **not encrypted**. At a path, the file is written atomically and durably, with
    mode 0600, and replaces an existing file. After an error or a cancellation the existing file is
    unchanged. The new file has no name until it is complete, so a killed export leaves nothing
    behind. Where the system does not support unnamed files, the next export to the folder removes
    the leftover. A file object is written from its current position and stays open. `import_facts`
    rejects an incomplete bundle.

    Each place is written as of one moment. If other tasks write to the store meanwhile, these
    moments differ from place to place. Uses as much memory as the largest place. No LLM calls. File
    I/O runs in worker threads.

    Args:
        store: The store to export.
        target: A path, or a file object open for writing in binary mode.
        places: Export only these places; all by default. An empty place is skipped.
        history: Whether to include replaced and forgotten values. Without history, only the values
            that are current by `clock` are written.
        clock: Returns the time for the header and for expiry.
        progress: Called after each place, with the number of finished places and of all places.

    Raises:
        TypeError: `store` is not a `FactStore`, `target` is of another type or open in text mode,
            or `places` is not a list of `Place`.
        OSError: The file cannot be written.
        StorageError: The store cannot be read.
    """
    check_store(store, "store")
    now = utc(expect_function(clock, "clock", "clock=system_clock")(), "clock's time")
    if progress is not None:
        expect_function(progress, "progress", "progress=lambda done, total: print(done, total)")
    places = None if places is None else checked_places(places)
    kept: list[Place] = []
    async with open_target(target) as file:
        writer = BundleWriter(file)
        await run_sync(partial(writer.write_header, stamp(now), history=history))
        wanted = await _places_of(store, places)
        for done, place in enumerate(wanted, 1):
            entries = await store.entries(place.subject, place.scope)
            if not history:
                entries = await run_sync(_current, entries, stamp(now))
            chats = await conversations_of(store, place)
            if entries or chats:
                await run_sync(writer.write_place, place.identity, entries)
                kept.append(place)
            for name, turns in chats:
                await run_sync(writer.write_conversation, place.identity, name, turns)
            if progress is not None:
                progress(done, len(wanted))
        await run_sync(writer.write_end)
    return ExportReport(tuple(kept), writer.entries, writer.bytes, writer.turns)


async def import_facts(
    source: BundleFile | Iterable[PlacedFact[Any]],
    into: FactStore,
    *,
    places: Iterable[Place] | None = None,
    erased: Iterable[ErasureReceipt] = (),
    progress: Callable[[int, int], None] | None = None,
) -> ImportReport:
    """Import the facts of a bundle, or rows with their own times, into a store.

    The whole bundle is verified before anything is written; nothing of a truncated, damaged or
    edited bundle is imported. Then each place is written in one step, completely or not at all. If
    the store fails or the import is cancelled, the places written before stay, and a second import
    adds the rest. Entries that the store already has are skipped, so importing twice changes
    nothing.

    Existing entries of a place stay. What is current is decided by when it was said, whatever was
    imported when. Uses as much memory as the largest place and up to 64 MiB of the bundle. A larger bundle is read a second time, and a place
    that changed in the file since the verification is not written. No LLM calls. File I/O runs in
    worker threads.

    What was recorded, or said in a conversation, before the store erased the place is skipped, so
    that nobody comes back: `skipped` of the result counts the entries. Imported conversations are
    not queued for learning.

    Rows are `PlacedFact`s in any order. Each one is recorded at the `timestamp` of its fact, so
    that `as_of` finds it. A row older than the newest entry of its place counts as recorded at the
    time of that entry. A row is skipped if the place already has a save with the same keyword,
    timestamp and values, whatever its id. All rows are checked before the first is written.

    Args:
        source: A path, or a file object open for reading in binary mode, which is read from its
            current position to its end. Or an iterable of `PlacedFact`. A bundle of more than 64 MiB is
            copied to an unnamed file in the folder for temporary files.
        into: The store to import into.
        places: Import only these places; all by default.
        erased: Receipts of erasures that the store does not know, to skip these too.
        progress: Called after each place, with the number of finished places and of all places.

    Raises:
        TypeError: `into` is not a `FactStore`, `source` is of another type or open in text mode, or
            `places` is not a list of `Place`.
        MemoryAccessError: `into` is a view that does not permit writing to one of the places.
            Nothing was imported.
        ValueError: The bundle is damaged, truncated or of a later version. The message names the line
            and quotes none of its content.
        OSError: The file cannot be read, or not be copied.
        StorageError: The store failed.
    """
    check_store(into, "into")
    if progress is not None:
        expect_function(progress, "progress", "progress=lambda done, total: print(done, total)")
    wanted = None if places is None else {each.identity for each in checked_places(places)}
    if _are_rows(source):
        return await import_rows(source, into, wanted, times_of(erased), progress)
    times, done = times_of(erased), list[Place]()
    read = new = skipped = said = 0
    async with open_source(source) as file:
        contents = _Contents()
        verification = _verify(BundleReader(file), contents, into, wanted)
        while not await run_sync(next, verification, True):  # a cancellation waits for one part
            pass
        if (place := contents.refused) is not None:
            await into.replay([], place.subject, place.scope)  # the view raises and reports it
        await run_sync(file.seek, 0)
        reader = BundleReader(file, is_verified=True)
        await run_sync(reader.read_header)
        while (found := await run_sync(_next_place, reader, wanted)) is not None:
            part, entries, turns = found
            place, until = part.place, await erased_until(into, part.place, times)
            if part.conversation is not None:
                said += await append_turns(into, place, part.conversation, turns, until)
                continue
            kept = [entry for entry in entries if entry["at"] > until]
            new += await into.replay(kept, place.subject, place.scope)
            read, skipped = read + len(entries), skipped + len(entries) - len(kept)
            done.append(place)
            if progress is not None:
                progress(len(done), contents.wanted)
    return ImportReport(tuple(done), read, new, skipped=skipped, turns=said)


def _are_rows(
    source: BundleFile | Iterable[PlacedFact[Any]],
) -> TypeIs[Iterable[PlacedFact[Any]]]:
    """Whether this is an iterable and not a file, which is iterable too."""
    is_file = isinstance(source, str | bytes | os.PathLike) or hasattr(source, "readline")
    return isinstance(source, Iterable) and not is_file


@dataclass(slots=True)
class _Contents:
    """The contents of a bundle, as found by its verification."""

    wanted: int = 0
    """The number of places to import."""
    refused: Place | None = None
    """The first place that cannot be written."""


def _verify(
    reader: BundleReader, found: _Contents, into: FactStore, wanted: set[Identity] | None
) -> Iterator[bool]:
    """Verify a bundle to its end, without keeping its entries; yield False after each part."""
    given = getattr(into, "boundary", None)
    boundary = given if isinstance(given, Boundary) else UNBOUNDED
    lines = 0
    reader.read_header()
    while (part := reader.read_part()) is not None:
        place = part.place
        for _ in range(part.lines):
            reader.read_entry() if part.conversation is None else reader.read_turn()
            lines += 1
            if lines % _LINES_AT_A_TIME == 0:
                yield False
        if wanted is None or place.identity in wanted:
            found.wanted += part.conversation is None
            if boundary.is_read_only or not boundary.allows(place.identity):
                found.refused = found.refused or place


_Part: TypeAlias = tuple[BundlePart, list[Entry], list[StoredTurn]]


def _next_place(reader: BundleReader, wanted: set[Identity] | None) -> _Part | None:
    """Read the next wanted place of a verified bundle."""
    while (part := reader.read_part()) is not None:
        is_wanted = wanted is None or part.place.identity in wanted
        entries, turns = list[Entry](), list[StoredTurn]()
        for _ in range(part.lines):
            if part.conversation is not None:
                turns.append(reader.read_turn())
            elif is_wanted:
                entries.append(reader.read_entry())
            else:
                reader.read_entry()
        if is_wanted:
            return part, entries, turns
    return None


async def _places_of(store: FactStore, places: Iterable[Place] | None) -> list[Place]:
    """Return the places to write, without duplicates, ordered by identity."""
    if places is None:
        places = await store.list_places()
    by_identity = {tuple(part or "" for part in place.identity): place for place in places}
    # Stores list places in different orders, and equal stores should give equal bundles.
    return [place for _, place in sorted(by_identity.items(), key=itemgetter(0))]


def _current(entries: list[Entry], now: str) -> list[Entry]:
    """Return the current entries. A clock that was set back does not revive expired values."""
    cutoff = max([now, *(entry["at"] for entry in entries)])
    return [entry for entry in compacted(entries, cutoff) if entry is not None]
