"""LocalPlaces: the blocking operations of a local store on its places."""

from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from logging import getLogger
from typing import NamedTuple

from factmem.errors import CorruptJournalError, FactmemError, TamperedError
from factmem.ledger.condition import Condition
from factmem.ledger.descriptions import Abridger, completed
from factmem.ledger.entries import Edit, Entry, decoded, encoded, stamped
from factmem.ledger.ledger import Ledger
from factmem.ledger.removal import compacted
from factmem.models.boundary import Boundary
from factmem.models.places import Identity
from factmem.providers._appends import Append, append_of, line_of, outcomes
from factmem.providers._arguments import before
from factmem.providers._backend import Decision, Erased, ErasedSinceError, Extension
from factmem.providers._clock import StoreClock
from factmem.providers._group_commit import Pending
from factmem.providers._place_lists import listed, place_info
from factmem.providers._place_reader import PlaceReader, PlaceView
from factmem.providers._recent_places import RecentPlaces
from factmem.providers.results import PlaceInfo
from factmem.storage.base import (
    Appended,
    CountingJournals,
    IndexedJournals,
    Journals,
    JournalWriter,
    Position,
    Record,
    RestingJournals,
    SalvagedJournal,
)

_logger = getLogger(__name__)

_CHECK_EVERY = 256
"""The least number of records between two checks of how much of a journal is history."""

_MOST_PROBED = 1024
"""The most places that are looked up by name. For more, all places are listed."""


class Save(NamedTuple):
    """A save that waits for its commit, an encoded entry without its time."""

    identity: Identity
    body: bytes
    since: object = None
    """The moment since which the place must not have been erased."""


class _Moment(NamedTuple):
    """A moment for detecting later erasures: the count of erasures and the end of the journal."""

    erasures: int
    position: Position | None


class LocalPlaces:
    """The places of one folder. All methods block and are thread-safe.

    The store's lock is acquired before a view's lock, never after it.
    """

    def __init__(
        self, journals: Journals, clock: StoreClock, keep_history: timedelta | None
    ) -> None:
        self._journals = journals
        self._clock = clock
        self._keep_history = keep_history
        self.reset()

    def reset(self) -> None:
        """Discard all cached state; also called in forked children."""
        self.reading = PlaceReader(self._journals, self._clock)
        self._views = self.reading.views
        self._checked: RecentPlaces[tuple[int, int]] = RecentPlaces()
        """The last number of a journal at its last check for history, and the records it kept."""
        self._erased_here = 0
        """The number of erasures by this process, used if the storage counts none."""

    # Reading

    def entries(self, identity: Identity) -> list[Entry]:
        """Return all entries of a place, with increasing times."""
        entries, at = completed(record.data for record in _records(identity, self._journals)), ""
        for entry in entries:
            at = entry["at"] = max(entry["at"], at)
        return entries

    def index(self, identity: Identity) -> bytes | memoryview | None:
        """Return the stored index of a place, if it is valid."""
        if isinstance(self._journals, IndexedJournals):
            return self._journals.read_index(identity)
        return None

    def places(self, wanted: Boundary) -> list[PlaceInfo]:
        """Return all places inside a boundary that have entries."""
        named = wanted.identities(_MOST_PROBED)
        if named is None:
            named = self.identities(wanted, None, None)
        found = [self._info(identity) for identity in named if wanted.allows(identity)]
        return [info for info in found if info is not None]

    def identities(
        self, wanted: Boundary, after: Identity | None, limit: int | None
    ) -> list[Identity]:
        """Return up to `limit` places inside a boundary, without reading their entries."""
        return listed(self._journals, wanted, after, limit)

    def _info(self, identity: Identity) -> PlaceInfo | None:
        view = self._views.known(identity) or PlaceView()
        with view.refreshing:
            view.follow(identity, self._journals.read)
        with view.lock:
            if view.position is None:  # erased since it was listed
                return None
            now = self._clock.now(view.ledger.recorded_at)
            return place_info(identity, view.ledger, view.position.size, now)

    # Writing

    def commit(self, batch: Sequence[Pending[Save]]) -> None:
        """Save a batch with one append and one durable write per place."""
        by_place: dict[Identity, list[Pending[Save]]] = {}
        appended: list[tuple[Append, Appended]] = []
        with self._journals.exclusive() as writer:
            for pending in batch:
                identity, _, since = pending.work
                if isinstance(since, _Moment) and self._is_erased(identity, since, writer):
                    pending.error = ErasedSinceError()
                else:
                    by_place.setdefault(identity, []).append(pending)
            now = self._clock.recording()
            appends = [
                self._append_of(identity, saves, now) for identity, saves in by_place.items()
            ]
            for each, done in zip(appends, outcomes(writer, appends), strict=True):
                if isinstance(done, Appended):
                    appended.append((each, done))
                else:
                    for pending in by_place[each.identity]:
                        pending.error = done
        for each, done in appended:
            self._took(each, done)

    def _append_of(self, identity: Identity, saves: Iterable[Pending[Save]], now: str) -> Append:
        lines, view = [stamped(each.work.body, now) for each in saves], self._views.known(identity)
        return append_of(identity, lines, view, self._journals.is_current)

    def moment(self, identity: Identity) -> object:
        """Return the current moment of a place; see `Save.since`."""
        erasures = self._erasures()  # before the place: an erasure in between must count as later
        return _Moment(erasures, self.reading.followed(identity).position)

    def _erasures(self) -> int:
        """Return the number of erasures, of all processes if the storage counts them."""
        if isinstance(self._journals, CountingJournals):
            return self._journals.erasures()
        return self._erased_here

    def _is_erased(self, identity: Identity, since: _Moment, writer: JournalWriter) -> bool:
        """Return whether a place may have been erased since; not if its file is the same."""
        is_counted = isinstance(self._journals, CountingJournals)
        if self._erasures() == since.erasures and (is_counted or since.position is None):
            return False
        if since.position is None:
            return True
        reading = writer.read(identity, since.position)
        return reading.position is None or reading.is_from_start

    def _took(self, append: Append, appended: Appended) -> None:
        append.took(appended)
        if self._keep_history is not None:
            self._compact_if_worthwhile(append.identity, appended, self._keep_history)

    def extend(self, identity: Identity, extend: Extension) -> int:
        """Append the entries that `extend` returns, with no other write in between."""
        with self._journals.exclusive() as writer:
            known = completed(record.data for record in _records(identity, writer))
            recorded_at = max((entry["at"] for entry in known), default="")
            new = extend(known, self._clock.recording(recorded_at))
            if not new:
                writer.flush(identity)
                return 0
            append = Append(
                identity, [line_of(entry) for entry in new], self._views.known(identity)
            )
            appended = writer.append(identity, append.records)
        self._took(append, appended)
        return len(new)

    def change(self, identity: Identity, decide: Decision) -> int:
        """Change a place depending on its current values; return the number of forgotten values."""
        if self._journals.read(identity).position is None:
            self._flush(identity)
            return 0
        view = self._views.of(identity)
        with self._journals.exclusive() as writer:
            view.follow(identity, writer.read)
            with view.lock:
                change = decide(view.ledger, self._clock.now(view.ledger.recorded_at))
            if change.facts or change.forget:
                body = encoded(change.facts, change.forget)
                append = Append(identity, [stamped(body, self._clock.recording())], view)
                append.took(writer.append(identity, append.records))
            else:
                writer.flush(identity)
            if change.edit is not None:
                self._rewrite(identity, writer, change.edit)
                writer.drop_copies(identity)
        return len(change.forget)

    def _flush(self, identity: Identity) -> None:
        """Make durable that a place is empty, because another process may just have erased it."""
        if self._journals.exists():
            with self._journals.exclusive() as writer:
                writer.flush(identity)

    def rest(self, is_wanted: Callable[[], bool]) -> None:
        """Write summaries of large places and end marks, until a save waits."""
        self.reading.summarize_all(is_wanted)
        if isinstance(self._journals, RestingJournals):
            try:
                self._journals.rest()
            except FactmemError as exc:
                _logger.debug("No end marks were written: %s", type(exc).__name__)

    def close(self) -> None:
        """Write summaries of large places, and release all resources; called once."""
        try:
            self.reading.summarize_all()
        finally:
            self._journals.close()

    def keep_index(self, identity: Identity, index: bytes, version: str) -> bool:
        """Store an index of a place, unless the place has changed since this version."""
        if not isinstance(self._journals, IndexedJournals) or not self._journals.exists():
            return False
        view = self._views.of(identity)

        def is_wanted(writer: JournalWriter) -> bool:
            view.follow(identity, writer.read)
            with view.lock:
                is_same = view.ledger.version(self.reading.now(view.ledger)) == version
                return is_same and view.position is not None

        return self._journals.write_index(identity, index, is_wanted)

    def erase(self, identity: Identity, *, only_empty: bool = False) -> Erased:
        """Remove a place physically, even if it is damaged or partly erased."""
        with self._journals.exclusive() as writer:
            try:
                records = _records(identity, writer)
            except (CorruptJournalError, TamperedError):
                now, count, is_empty = self._clock.now(), None, False
            else:
                ledger, is_empty = Ledger(decoded(record.data) for record in records), not records
                now = self._clock.now(ledger.recorded_at)
                count = len(ledger.matching(Condition(), now))
            if only_empty and not is_empty:
                return Erased(now, 0, 0, key_destroyed=False)
            erased = writer.erase(identity)
            if not isinstance(self._journals, CountingJournals):
                self._erased_here += 1
        self._views.drop(identity)
        return Erased(now, count, erased.bytes, erased.key_destroyed)

    def salvage(self, identity: Identity) -> SalvagedJournal:
        """Continue with the readable records of a damaged journal."""
        if not self._journals.exists():
            raise ValueError("The place has no journal: nothing was saved in that folder yet")
        with self._journals.exclusive() as writer:
            salvaged = writer.salvage(identity)
        self._views.drop(identity)
        return salvaged

    # Compaction

    def compact(self, identity: Identity, keep_history: timedelta) -> int:
        """Remove history older than `keep_history`, and return the bytes freed."""
        reading = self._journals.read(identity)
        if reading.position is None:
            return 0
        with self._journals.exclusive() as writer:
            cutoff = self._cutoff(keep_history)
            freed = self._rewrite(identity, writer, lambda entries: compacted(entries, cutoff))
        if not reading.is_end:  # large, and its summary was removed
            self.reading.summarize(identity, self.reading.followed(identity))
        return freed

    def _cutoff(self, keep_history: timedelta) -> str:
        return before(self._clock.recording(), keep_history)

    def _rewrite(self, identity: Identity, writer: JournalWriter, edit: Edit) -> int:
        """Rewrite a journal with what `edit` leaves of its entries; return the bytes it freed."""
        records = _records(identity, writer)
        entries = completed(record.data for record in records)
        after = edit(entries)
        if all(new is old for new, old in zip(after, entries, strict=True)):
            return 0
        kept: list[Record] = []
        abridger = Abridger(lambda _: "")
        for record, old, new in zip(records, entries, after, strict=True):
            if new is old and "facts" not in old:  # also entries of later versions
                kept.append(record)
            elif new is not None:  # the entry with its description may have been removed
                kept.append(Record(record.number, line_of(abridger.abridged(new))))
        freed = sum(len(record.data) for record in records)
        freed -= sum(len(record.data) for record in kept)
        writer.rewrite(identity, kept)
        return freed

    def _compact_if_worthwhile(
        self, identity: Identity, appended: Appended, keep_history: timedelta
    ) -> None:
        """Compact if more than half is history; checked each time a journal has doubled."""
        last = appended.after.last
        begun = appended.before.last if appended.before is not None else 0
        checked, size = self._checked.of(identity, (begun, 0))
        if last - checked < max(size, _CHECK_EVERY):
            return
        try:
            kept = self._compact_halved(identity, self._cutoff(keep_history))
        except FactmemError as exc:
            # The save is durable, and the caller did not ask for a compaction.
            _logger.warning("A journal was not compacted: %s", type(exc).__name__)
            kept = size
        self._checked.set(identity, (last, kept))

    def _compact_halved(self, identity: Identity, cutoff: str) -> int:
        """Compact if that halves the journal; return the number of records after it."""
        with self._journals.exclusive() as writer:
            records = _records(identity, writer)
            after = compacted(completed(record.data for record in records), cutoff)
            is_kept = [new is not None for new in after]
            if 2 * sum(is_kept) >= len(records):
                return len(records)
            self._rewrite(identity, writer, lambda _: after)
            return sum(is_kept)


def _records(identity: Identity, journals: Journals | JournalWriter) -> list[Record]:
    """Return all records of a journal; none if it does not exist."""
    records: list[Record] = []
    position, is_end = None, False
    while not is_end:
        reading = journals.read(identity, position)
        if reading.is_from_start:
            records.clear()
        records += reading.records
        position, is_end = reading.position, reading.is_end
    return records
