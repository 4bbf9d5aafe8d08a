"""Append: the lines that a commit appends to a place, and the outcome for each place."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from factmem.ledger.descriptions import Abridger
from factmem.ledger.entries import Entry, decoded, encoded_entry, stamped
from factmem.models.places import Identity
from factmem.providers._place_reader import PlaceView
from factmem.storage.base import Appended, BatchWriter, JournalWriter, Position


class Append(NamedTuple):
    """The entries that are appended to one place."""

    identity: Identity
    records: list[bytes]
    """Their lines."""
    view: PlaceView | None = None
    """The view of the place, if it has one."""
    known: list[Entry] | None = None
    """The entries, if they were decoded already."""

    def took(self, appended: Appended) -> None:
        """Apply the entries to the view."""
        if self.view is not None:
            entries = map(decoded, self.records) if self.known is None else self.known
            self.view.take(appended, entries)


def append_of(
    identity: Identity,
    lines: list[bytes],
    view: PlaceView | None,
    is_current: Callable[[Identity, Position | None], bool],
) -> Append:
    """Return the next entries of a place, without descriptions that it already has.

    Under the lock. Only the descriptions of a place in memory are known: nothing is read for this.
    """
    if view is None or not is_current(identity, view.position):
        return Append(identity, lines, view)
    entries = [decoded(line) for line in lines]
    with view.lock:
        if not view.is_warm:
            return Append(identity, lines, view, entries)
        abridger = Abridger(view.ledger.last_description)
        shorter = [abridger.abridged(entry) for entry in entries]
    records = [
        line if after is entry else line_of(after)
        for line, entry, after in zip(lines, entries, shorter, strict=True)
    ]
    return Append(identity, records, view, entries)


def line_of(entry: Entry) -> bytes:
    """Return the line of a whole entry."""
    return stamped(encoded_entry(entry), entry["at"])


def outcomes(writer: JournalWriter, appends: Sequence[Append]) -> list[Appended | Exception]:
    """Append to each place, and return the outcome of each."""
    if len(appends) > 1 and isinstance(writer, BatchWriter):
        return writer.append_all([(each.identity, each.records) for each in appends])
    done: list[Appended | Exception] = []
    for each in appends:
        try:
            done.append(writer.append(each.identity, each.records))
        except Exception as exc:  # noqa: BLE001 - the saves that wait for it raise it
            done.append(exc)
    return done
