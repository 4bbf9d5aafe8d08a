"""Reader2: validates the lines of format 2 and decides whether the last batch is torn.

A batch is valid if all its lines are present, in sequence. A writer syncs everything before it
appends, so a batch proves that all lines before it were durable: one that does not verify is damage.
An end line proves the same; older versions wrote it to close a journal. Lines after the last whole
batch are torn: a power cut interrupted an append that was never acknowledged. If no power cut can
leave such lines, they are damage too.
"""

from collections.abc import Iterator

from factmem.storage._journal import Place, check_name
from factmem.storage._plain_codec import END, Codec, Unsealed, batch_mark, batch_of
from factmem.storage.base import Record

_new_tuple = tuple.__new__
"""Creates a named tuple from a tuple, in a third of the time of a call."""

_Span = tuple[int, int]
"""The start and the end of something in the file."""


class Reader2:
    """Validates lines in order, and builds the next `Place`."""

    __slots__ = (
        "_at",
        "_before",
        "_codec",
        "_dead",
        "_following",
        "_is_chained",
        "_pending",
        "_unseal",
        "dead",
        "durable",
        "gaps",
        "last",
        "line",
        "lines_read",
        "offset",
        "records",
        "snapshot_last",
        "snapshot_left",
        "tag",
        "verdict",
    )

    def __init__(self, before: Place, codec: Codec) -> None:
        self._before = before
        self._codec = codec
        self._following = before.following
        self._unseal = before.sealer.unseal
        self._at = self.offset = before.offset
        self._pending: list[tuple[_Span, Unsealed]] = []
        self._dead: list[_Span] = []
        self._is_chained = True
        self.records: list[Record] = []
        self.line = self.lines_read = before.line
        self.last, self.tag = before.last, before.tag
        self.durable, self.gaps = before.durable, before.gaps
        self.snapshot_left, self.snapshot_last = before.snapshot_left, before.snapshot_last
        self.dead, self.verdict = before.dead, before.verdict

    @classmethod
    def advanced(
        cls, place: Place, data: bytes, codec: Codec, *, is_end: bool, sector: int
    ) -> tuple[Place, list[Record]]:
        """Return the place after the whole batches in `data`, and their records."""
        end = data.rfind(b"\n") + 1
        if not end and is_end and place.size == place.offset + len(data):
            return place, []
        reader = cls(place, codec)
        reader.take_all(data.split(b"\n")[:-1])
        size = place.offset + len(data)
        if is_end and size > reader.offset:
            reader.judge_tail(sector)
        return reader.place(size if is_end else reader.offset), reader.records

    def place(self, size: int) -> Place:
        """Return the place after the last whole batch."""
        return self._before._replace(
            offset=self.offset,
            size=size,
            line=self.line,
            last=self.last,
            tag=self.tag,
            durable=self.durable,
            snapshot_left=self.snapshot_left,
            snapshot_last=self.snapshot_last,
            gaps=self.gaps,
            dead=self.dead,
            verdict=self.verdict,
        )

    def take_all(self, lines: list[bytes]) -> None:
        """Take lines in order.

        Nearly all are whole batches, of one line or many, that continue the one before. They are
        handled here without a call per line, with the same result as `_take`.
        """
        unseal, add, taken = self._unseal, self.records.append, 0
        for at, line in enumerate(lines):
            if at < taken:
                continue
            start, self._at = self._at, self._at + len(line) + 1
            self.lines_read += 1
            try:
                record = unseal(line)
            except ValueError:
                self._take_dead(line, start)
                continue
            number, mark, previous, tag, data = record
            if (
                not mark
                and number == self.last + 1
                and (previous is None or previous == self.tag)
                and not (self._pending or self._dead or self.snapshot_left)
            ):
                self.last = self.durable = number
                self.tag, self.offset, self.line = tag, self._at, self.lines_read
                add(_new_tuple(Record, (number, data)))
            elif mark > 0 and (count := self._take_batch(lines, at, record)):
                taken = at + count
            else:
                self._take((start, self._at), record)

    def _take_batch(self, lines: list[bytes], at: int, first: Unsealed) -> int:
        """Take a batch that begins at a line; return its number of lines, or 0 if it is not valid.

        With 0 nothing was taken, and `_take` validates the lines one by one.
        """
        number, mark, previous, tag, data = first
        index, count = batch_of(mark)
        is_next = number == self.last + 1 and (previous is None or previous == self.tag)
        is_clean = not (self._pending or self._dead or self.snapshot_left)
        if index or not is_next or not is_clean or at + count > len(lines):
            return 0
        records, size = [_new_tuple(Record, (number, data))], 0
        for line in lines[at + 1 : at + count]:
            try:
                following, mark, previous, new_tag, data = self._unseal(line)
            except ValueError:
                return 0
            number, size = number + 1, size + len(line) + 1
            is_chained = previous is None or previous == tag
            if following != number or not is_chained or mark != batch_mark(len(records), count):
                return 0
            tag = new_tag
            records.append(_new_tuple(Record, (number, data)))
        self._at += size
        self.lines_read += count - 1
        self.records += records
        self.last = self.durable = number
        self.tag, self.offset, self.line = tag, self._at, self.lines_read
        return count

    def _take_dead(self, line: bytes, start: int) -> None:
        """Record a dead line, but take a record that a damaged newline has joined to it."""
        self.dead = self.dead or self.lines_read
        for inner in self._before.sealer.starts(line, self.last):
            try:
                record = self._unseal(line[inner:])
            except ValueError:
                continue
            self._dead.append((start, start + inner))
            self._take((start + inner, start + len(line) + 1), record)
            return
        self._dead.append((start, start + len(line) + 1))

    def _take(self, span: _Span, record: Unsealed) -> None:
        number, mark, previous, tag, _ = record
        if mark == END:
            self._take_end(number, previous, tag)
        elif number < self._following:
            self._take_snapshot(record)
        else:
            self._take_of_batch(span, record)

    def _take_end(self, number: int, previous: bytes | None, tag: bytes) -> None:
        if number < self.last:
            self._accuse(f"record {number} appears again")
            return
        self._conclude(number + 1)
        self._check_chain(number, previous, self.tag)
        self.tag = tag
        self._commit()

    def _take_of_batch(self, span: _Span, record: Unsealed) -> None:
        number, mark, previous, tag, _ = record
        index, count = batch_of(mark)
        first = number - index
        known = self._pending[-1][1][0] if self._pending else self.last
        if first > self.last + 1:
            self._conclude(first)
            known = self.last
        if number <= known or first <= self.last or self._is_of_another(first, count):
            # Every line of this file verifies with the file's own seed or key, so a line with an
            # earlier number is a copy of one written here before.
            self._accuse(f"record {number} appears again")
            return
        if number == known + 1:
            before = self._pending[-1][1][3] if self._pending else self.tag
            self._check_chain(number, previous, before)
        self._pending.append((span, record))
        if index + 1 == count == len(self._pending):
            if self._dead:
                self._accuse(f"line {self.dead} does not verify")
            self._take_whole(number, tag)

    def _is_of_another(self, first: int, count: int) -> bool:
        if not self._pending:
            return False
        number, mark, *_ = self._pending[-1][1]
        index, other = batch_of(mark)
        return (number - index, other) != (first, count)

    def _take_whole(self, number: int, tag: bytes) -> None:
        self.records += [Record(each[0], each[4]) for _, each in self._pending]
        self.last, self.tag = number, tag
        self.durable = number
        self._commit()

    def _commit(self) -> None:
        """Continue after the accepted lines."""
        self._pending, self._dead = [], []
        self._is_chained = True
        self.offset, self.line = self._at, self.lines_read

    def _conclude(self, first: int) -> None:
        """Record the gaps before a number, since all records before it were durable."""
        there = [each[0] for _, each in self._pending]
        gaps = list(_missing(self.last + 1, first - 1, there))
        if not gaps and self._dead:
            self._accuse(f"line {self.dead} does not verify")
        self.gaps += tuple((low, high, self.lines_read) for low, high in gaps)
        self.records += [Record(each[0], each[4]) for _, each in self._pending]
        self._is_chained = not (gaps or self._pending or self._dead)
        self._pending, self._dead = [], []
        self.last = self.durable = first - 1

    def _take_snapshot(self, record: Unsealed) -> None:
        number, _, previous, tag, data = record
        if number <= self.snapshot_last or self.last != self._following - 1 or self._pending:
            self._accuse(f"record {number} appears again")
            return
        self._is_chained = self._is_chained and not self._dead
        self._check_chain(number, previous, self.tag)
        self.snapshot_last, self.tag = number, tag
        self.snapshot_left -= 1
        if self.dead and not self.snapshot_left:
            self._accuse(f"line {self.dead} does not verify")
        if number == 0:
            if not check_name(self._before, self._codec, data):
                self._accuse("it is the file of another place")
        else:
            self.records.append(Record(number, data))
        self._commit()

    def _check_chain(self, number: int, previous: bytes | None, expected: bytes) -> None:
        if self._is_chained and not self._dead and previous is not None and previous != expected:
            self._accuse(f"record {number} does not follow the one before it")

    def _accuse(self, what: str) -> None:
        self.verdict = self.verdict or f"line {self.lines_read}: {what}"

    # The tail after the last whole batch

    def judge_tail(self, sector: int) -> None:
        """Distinguish damage from an append torn by a power cut.

        A power cut keeps, zeroes or loses whole sectors, and the file may end anywhere in the append.
        A sector with a line of the batch was kept, and so was everything else in it.
        """
        if self.snapshot_left or not self._pending:
            return
        number, mark, *_ = self._pending[-1][1]
        index, count = batch_of(mark)
        if self._is_altered(sector):
            self._conclude(number - index + count)

    def _is_altered(self, sector: int) -> bool:
        kept: set[int] = set()
        for (start, end), _ in self._pending:
            kept.update(range(start // sector, (end - 1) // sector + 1))
        if any(_is_within(span, kept, sector) for span in self._dead):
            return True
        at, expected = self.offset, self.last + 1
        for (start, end), (number, *_) in self._pending:
            if number > expected and _is_within((at, start), kept, sector):
                return True
            at, expected = end, number + 1
        return False


def _is_within(span: _Span, kept: set[int], sector: int) -> bool:
    """Return whether all sectors of a span were kept."""
    start, end = span
    return all(each in kept for each in range(start // sector, (end - 1) // sector + 1))


def _missing(first: int, last: int, there: list[int]) -> Iterator[_Span]:
    """Yield the runs of numbers that are missing."""
    for number in there:
        if number > first:
            yield first, number - 1
        first = number + 1
    if first <= last:
        yield first, last
