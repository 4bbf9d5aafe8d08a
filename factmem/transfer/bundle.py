"""Moving facts between stores, and keeping them elsewhere: one file of JSON Lines, the bundle.

    report = await export_facts(store, "backup.jsonl")
    report = await import_facts("backup.jsonl", other_store)

A bundle holds everything: values, ids, times, importance, sources, expiry, confirmations, and the
history unless it is left out. It goes from any `FactStore` into any other and comes back equal.

**A bundle is not encrypted**, whatever the store is that it comes from. Its digest tells damage,
not forgery. Treat it as you treat the facts themselves.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, BinaryIO

from anyio.to_thread import run_sync
from typing_extensions import TypeIs

from factmem._arguments import expect_function
from factmem.ledger.entries import Entry, stamp
from factmem.ledger.removal import compacted
from factmem.ledger.resolution import PlacedFact
from factmem.models.boundary import UNBOUNDED, Boundary
from factmem.models.checked import checked_places
from factmem.models.clock import TimeProvider, system_clock, utc
from factmem.models.display import Displayed
from factmem.models.places import Identity, Place
from factmem.providers.base import FactStore
from factmem.providers.listing import ListingStore
from factmem.transfer._bundle_files import BundleFile, held, opened, written
from factmem.transfer._bundle_lines import BundleReader, BundleWriter
from factmem.transfer.rows import import_rows

__all__ = ["ExportReport", "ImportReport", "export_facts", "import_facts"]


_LINES_AT_A_TIME = 10_000
"""How much is verified in one go: a cancellation waits no longer than that."""


@dataclass(frozen=True, slots=True)
class ExportReport(Displayed):
    """What a bundle holds."""

    places: tuple[Place, ...]
    entries: int
    """How many saves and forgettings, in all places together."""
    bytes: int


@dataclass(frozen=True, slots=True)
class ImportReport(Displayed):
    """What came out of a bundle. The places' subjects have no description: a bundle has none."""

    places: tuple[Place, ...]
    entries: int
    """How many saves and forgettings were read for them."""
    new: int
    """How many of these the store did not hold yet."""


async def export_facts(
    store: FactStore,
    target: BundleFile,
    *,
    places: Iterable[Place] | None = None,
    history: bool = True,
    clock: TimeProvider = system_clock,
    progress: Callable[[int, int], None] | None = None,
) -> ExportReport:
    """Write what a store holds into a bundle.

    The bundle is **not encrypted**. A path is written atomically and durably, with mode 0600, and
    then renamed over what was there; if anything fails, or on cancellation, the old file stays as
    it was. Until it is whole the new file has no name, so a killed export leaves nothing behind;
    where the system has no such files, the next export into the folder removes it. A file object is written from where it stands and stays open; a
    bundle that was begun there and not finished is refused by `import_facts`.

    Each place is written as it is at one moment; places that others write to meanwhile are not
    all of the same moment. Memory: the largest place. No LLM calls. File work is done in worker
    threads.

    Args:
        store: Where the facts come from.
        target: A path, or a file open for writing in binary mode.
        places: Only these; all by default. One that holds nothing is left out.
        history: Whether to write what was replaced and forgotten, too; if not, only what is
            current by `clock`, its history cut off.
        clock: Returns the time for the header and for what has expired.
        progress: Called after each place, with how many are done and how many there are.

    Raises:
        TypeError: `store` is no `FactStore`, the file is of another type or open in text mode, or `places` are
            no list of `Place`.
        OSError: The file cannot be written.
        StorageError: The store cannot be read.
    """
    _check_store(store)
    now = utc(expect_function(clock, "clock", "clock=system_clock")(), "clock's time")
    if progress is not None:
        expect_function(progress, "progress", "progress=lambda done, total: print(done, total)")
    places = None if places is None else checked_places(places)
    kept: list[Place] = []
    async with written(target) as file:
        writer = BundleWriter(file)
        await run_sync(partial(writer.write_header, stamp(now), history=history))
        wanted = await _places_of(store, places)
        for done, place in enumerate(wanted, 1):
            entries = await store.entries(place.subject, place.scope)
            if not history:
                entries = await run_sync(_current, entries, stamp(now))
            if entries:
                await run_sync(writer.write_place, place.identity, entries)
                kept.append(place)
            if progress is not None:
                progress(done, len(wanted))
        await run_sync(writer.write_end)
    return ExportReport(tuple(kept), writer.entries, writer.bytes)


async def import_facts(
    source: BundleFile | Iterable[PlacedFact[Any]],
    into: FactStore,
    *,
    places: Iterable[Place] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> ImportReport:
    """Bring the facts of a bundle, or rows with their own times, into a store.

    The whole bundle is verified before anything is written: of one that is cut short, damaged or
    edited nothing is imported. Then each place is written at once, whole or not at all; if the
    store fails or the import is cancelled, the places before it are there, and importing again
    brings the rest. What the store holds already is not doubled, so importing twice changes nothing.

    What the store has in a place stays, and the bundle's entries come after it: where both hold a
    SINGLE concept, the bundle's value is the newest. Memory: the largest place, and up to 64 MiB of
    the bundle. A larger one is read a second time; no place is written that changed meanwhile. No
    LLM calls. File work is done in worker threads.

    Rows are `PlacedFact`s in any order. Each is recorded at the `timestamp` of its fact, so that
    `as_of` knows it; one that is older than the newest entry of its place counts as recorded at
    that time. A row with the keyword, timestamp and values of a save that the place has is known,
    whatever its id. All rows are checked before the first is written.

    Args:
        source: A path, or a file open for reading in binary mode that can seek. It is read from
            where it stands to its end. Or an iterable of `PlacedFact`.
        into: Where the facts go.
        places: Only these; all by default.
        progress: Called after each place of a bundle, with how many are done and how many there
            are.

    Raises:
        TypeError: `into` is no `FactStore`, the file is of another type or open in text mode, or `places` are
            no list of `Place`.
        MemoryAccessError: `into` is a view that does not let one of the places be written. Nothing
            was imported.
        ValueError: The bundle is damaged, cut short, or of a later version, or the file cannot
            seek. The message names the line and quotes nothing.
        OSError: The file cannot be read.
        StorageError: The store refused.
    """
    _check_store(into)
    if progress is not None:
        expect_function(progress, "progress", "progress=lambda done, total: print(done, total)")
    wanted = None if places is None else {each.identity for each in checked_places(places)}
    if _are_rows(source):
        written, rows, unknown = await import_rows(source, into, wanted)
        return ImportReport(tuple(written), rows, unknown)
    done: list[Place] = []
    read = new = 0
    async with opened(source) as whole:
        file = await run_sync(held, whole)
        start = await run_sync(file.tell)
        checking = _Verification(
            file,
            lambda each: _is_wanted(each, wanted),
            lambda each: _is_refused(each, into, wanted),
        )
        while await run_sync(checking.go_on):
            pass
        if (place := checking.refused) is not None:
            await into.replay([], place.subject, place.scope)  # the view raises, and tells of it
        await run_sync(file.seek, start)
        reader = BundleReader(file, is_verified=True)
        await run_sync(reader.read_header)
        marks = iter(checking.marks)
        while (found := await _next_place(reader, wanted, marks)) is not None:
            place, entries = found
            new += await into.replay(entries, place.subject, place.scope)
            read += len(entries)
            done.append(place)
            if progress is not None:
                progress(len(done), checking.wanted)
    return ImportReport(tuple(done), read, new)


def _check_store(store: FactStore) -> None:
    if not isinstance(store, FactStore):
        raise TypeError(
            f"{type(store).__name__} is no FactStore: bundles need a provider with entries, replay "
            f"and places"
        )


def _are_rows(
    source: BundleFile | Iterable[PlacedFact[Any]],
) -> TypeIs[Iterable[PlacedFact[Any]]]:
    """Whether this is a list or another iterable; a file can be iterated too."""
    is_file = isinstance(source, str | bytes | os.PathLike) or hasattr(source, "readline")
    return isinstance(source, Iterable) and not is_file


def _is_wanted(place: Place, wanted: set[Identity] | None) -> bool:
    return wanted is None or place.identity in wanted


def _is_refused(place: Place, into: FactStore, wanted: set[Identity] | None) -> bool:
    """Whether a place of a bundle is one that the view, which `into` may be, does not let be written."""
    boundary = getattr(into, "boundary", UNBOUNDED)
    if not isinstance(boundary, Boundary) or not _is_wanted(place, wanted):
        return False
    return boundary.is_read_only or not boundary.allows(place.identity)


class _Verification:
    """Reads a bundle to its end and keeps nothing of it but the first place that is refused.

    Args:
        file: The bundle, where it begins.
        is_wanted: Whether a place is to be imported.
        is_refused: Whether a place cannot be written.
    """

    def __init__(
        self,
        file: BinaryIO,
        is_wanted: Callable[[Place], bool],
        is_refused: Callable[[Place], bool],
    ) -> None:
        self.wanted = 0
        """How many places are to be imported."""
        self.refused: Place | None = None
        """The first place that cannot be written."""
        self.marks: list[bytes] = []
        """The digest of the bundle up to the end of each place."""
        self._is_wanted = is_wanted
        self._is_refused = is_refused
        self._reader = BundleReader(file)
        self._is_begun = False
        self._left = 0

    def go_on(self) -> bool:
        """Verify some more; False when all of it is."""
        if not self._is_begun:
            self._reader.read_header()
            self._is_begun = True
        for _ in range(_LINES_AT_A_TIME):
            if self._left:
                self._reader.read_entry()
                self._left -= 1
                if not self._left:
                    self.marks.append(self._reader.mark())
            elif (found := self._reader.read_place()) is not None:
                place, self._left = found
                self.wanted += self._is_wanted(place)
                if not self._left:
                    self.marks.append(self._reader.mark())
                if self.refused is None and self._is_refused(place):
                    self.refused = place
            else:
                return False
        return True


async def _next_place(
    reader: BundleReader, wanted: set[Identity] | None, marks: Iterator[bytes]
) -> tuple[Place, list[Entry]] | None:
    """Read on to the next place that is wanted, in a bundle that was verified."""
    try:
        return await run_sync(_read_on, reader, wanted, marks)
    except ValueError:
        raise ValueError(
            "The bundle was changed while it was imported, and what came before the change is in "
            "the store: import the bundle again, once no program writes to it"
        ) from None


def _read_on(
    reader: BundleReader, wanted: set[Identity] | None, marks: Iterator[bytes]
) -> tuple[Place, list[Entry]] | None:
    while (found := reader.read_place()) is not None:
        place, count = found
        is_wanted, entries = _is_wanted(place, wanted), list[Entry]()
        for _ in range(count):
            entry = reader.read_entry()
            if is_wanted:
                entries.append(entry)
        if reader.mark() != next(marks, None):
            raise ValueError("another place stood there")
        if is_wanted:
            return place, entries
    return None


async def _places_of(store: FactStore, places: Iterable[Place] | None) -> list[Place]:
    """Return the places to write, each once, in the order of their identities."""
    if places is None and isinstance(store, ListingStore):
        places = await store.list_places()
    elif places is None:
        places = [info.place for info in await store.places()]
    by_identity = {place.identity: place for place in places}
    return [by_identity[identity] for identity in sorted(by_identity, key=_order)]


def _order(identity: Identity) -> tuple[str, str, str, str]:
    kind, scope, subject, entity = identity
    return kind, scope, subject, entity or ""


def _current(entries: list[Entry], now: str) -> list[Entry]:
    """Return what is current; a clock that was set back brings back nothing that has expired."""
    cutoff = max([now, *(entry["at"] for entry in entries)])
    return [entry for entry in compacted(entries, cutoff) if entry is not None]
