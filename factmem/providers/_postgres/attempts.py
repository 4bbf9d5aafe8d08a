"""First attempts of small saves and reads, on the event loop."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from factmem.models.places import Identity
from factmem.providers._clock import StoreClock
from factmem.providers._group_commit import Pending
from factmem.providers._postgres.batches import Appended, Batch, BegunSave, Save, new_mark
from factmem.providers._postgres.blocking import PostgresPlaces
from factmem.providers._postgres.driver import Row, Session
from factmem.providers._postgres.exchanges import Exchange
from factmem.providers._postgres.places import Answer, PlaceReader, Position, micros
from factmem.providers._postgres.rewriting import PlaceRewriter
from factmem.providers._postgres.stores import SEALED
from factmem.providers._postgres.views import View
from factmem.providers._postgres.writing import saved_in

_MOST_SENT = 1 << 16
"""Bytes of entries in the largest batch that the event loop sends. Encoding them takes about 100
microseconds."""

_MOST_READ = 256
"""The largest number of entries of a place that the event loop reads."""

_MOST_DECODED = 1 << 16
"""Bytes of entries in the largest answer that the event loop decodes, in about 2 ms."""


class SaveAttempts:
    """Sends batches of plain saves from the event loop. Encrypted ones take several round trips.

    Args:
        places: The places of a store.
        clock: The clock of the store.
    """

    def __init__(self, places: PostgresPlaces, clock: StoreClock) -> None:
        self._places = places
        self._clock = clock

    def begin(self, batch: Sequence[Pending[Save]]) -> BegunSave | None:
        """Send a batch; None if it is large, or if no connection is ready."""
        saves = [pending.work for pending in batch]
        reader = self._places.open_reader()
        if reader is None or reader.store.mode == SEALED or not _are_small(saves):
            return None
        rows = Batch(saves, reader, micros(self._clock.recording()))
        mark = new_mark()
        statement, given = PlaceRewriter(reader, self._places.opening).appending(rows, mark)
        session = self._places.take_idle(reader, statement)
        if session is None:
            return None
        exchange = session.begin(statement, given)
        return BegunSave(session, exchange, mark, partial(_appended, session, exchange, rows))

    def end(self, batch: Sequence[Pending[Save]], begun: BegunSave) -> bool:
        """Process the answer; False if the save failed, or if a place should be tidied."""
        try:
            done = begun.appended()
        except Exception:  # noqa: BLE001 - `finish` raises it again, and repeats the save
            return False
        bodies: dict[Identity, list[bytes]] = {}
        for pending in batch:
            bodies.setdefault(pending.work.identity, []).append(pending.work.body)
        left: list[Callable[[], object]] = [
            partial(self._places.took, identity, bodies[identity], saved)
            for identity, saved in done.saved.items()
            if not self._places.took_at_once(identity, bodies[identity], saved)
        ]
        tidying = self._places.tidying
        for identity, saved in done.saved.items():
            last = saved.position.extent.last
            if tidying.is_due(identity, last, saved.folded):
                left.append(partial(tidying.tidy, identity, last, saved.folded))
        begun.left = partial(_call, left)
        self._places.connections.give_back(begun.session)  # last: `finish` does it after an error
        return not left

    def finish(self, batch: Sequence[Pending[Save]], begun: BegunSave) -> None:
        """Wait for the answer and repeat the save if need be, or tidy up."""
        if begun.left is None:
            self._places.commit(batch, begun)
        else:
            begun.left()


@dataclass(slots=True)
class BegunRead:
    """A query that was sent and perhaps not answered yet."""

    session: Session
    exchange: Exchange
    reader: PlaceReader
    views: dict[Identity, View]
    before: dict[Identity, Position | None]
    asked: float
    is_returned: bool = False
    """Whether the connection was given back."""

    def answers(self, rows: Sequence[Row]) -> dict[Identity, Answer]:
        """Return the answers in rows."""
        return self.reader.answers(self.before, rows, _MOST_READ)

    def taken(self, answers: Mapping[Identity, Answer]) -> bool:
        """Apply the answers to the views; return whether all places are read to their ends."""
        is_read = True
        for identity, view in self.views.items():
            answer = answers.get(identity)
            if (answer is not None and answer.is_in_chunks) or not view.take(
                self.before[identity], answer, self.asked
            ):
                is_read = False
        return is_read


class ReadAttempts:
    """Sends queries from the event loop, for places with few new entries.

    Args:
        places: The places of a store.
    """

    def __init__(self, places: PostgresPlaces) -> None:
        self._places = places

    def begin(self, batch: Sequence[Pending[Identity]]) -> BegunRead | None:
        """Send a query; None if no connection is ready."""
        reader = self._places.open_reader()
        if reader is None:
            return None
        views = self._places.views_of(batch)
        before = {identity: view.position for identity, view in views.items()}
        statement, given = reader.question(before, _MOST_READ)
        session = self._places.take_idle(reader, statement)
        if session is None:
            return None
        asked = time.monotonic()
        return BegunRead(session, session.begin(statement, given), reader, views, before, asked)

    def end(self, batch: Sequence[Pending[Identity]], begun: BegunRead) -> bool:
        """Process the answer; False if it is large, damaged or an error."""
        if any(view.lock.locked() for view in begun.views.values()):
            return False
        try:
            rows = begun.session.end(begun.exchange)
            if sum(len(line) for row in rows for line in row[-1] or ()) > _MOST_DECODED:
                return False
            answers = begun.answers(rows)
        except Exception:  # noqa: BLE001 - `finish` asks again, and raises the error
            return False
        begun.is_returned = True
        self._places.connections.give_back(begun.session)
        return begun.taken(answers)

    def finish(self, batch: Sequence[Pending[Identity]], begun: BegunRead) -> None:
        """Wait for the answer, repeat a failed query, and read the rest."""
        is_read = False
        if not begun.is_returned:
            is_read = self._places.run(
                lambda _session, _unknown: False, (begun.session, partial(_is_read, begun))
            )
        if not is_read:
            self._places.refresh(batch)


def _are_small(saves: Sequence[Save]) -> bool:
    """Whether the event loop may send saves. Saves with a moment take several statements."""
    return (
        all(save.since is None for save in saves)
        and sum(len(save.body) for save in saves) <= _MOST_SENT
    )


def _appended(session: Session, exchange: Exchange, rows: Batch) -> Appended:
    return Appended(saved_in(rows, session.end(exchange)), set())


def _is_read(begun: BegunRead) -> bool:
    """Apply an answer; return whether all places are now read to their ends."""
    return begun.taken(begun.answers(begun.session.end(begun.exchange)))


def _call(left: Sequence[Callable[[], object]]) -> None:
    for each in left:
        each()
