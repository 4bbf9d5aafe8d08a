"""Reader1: validates the lines of format 1, which is read and no longer written.

A line is valid if it ends in a newline, verifies, and has a greater number than the one before it. Any
other line is dead and is skipped; the numbers show whether a record is missing. A missing number is
damage if a later line states that it was durable. Otherwise it was never acknowledged: the power
failed during its write.
"""

from factmem.storage._journal import Place, check_name
from factmem.storage._plain_codec import Codec, Unsealed
from factmem.storage.base import Record

_new_tuple = tuple.__new__
"""Creates a named tuple from a tuple, in a third of the time of a call."""


class Reader1:
    """Validates lines in order, and builds the next `Place`."""

    __slots__ = (
        "_before",
        "_codec",
        "_following",
        "_unseal",
        "dead",
        "durable",
        "gaps",
        "last",
        "line",
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
        self.records: list[Record] = []
        self.line, self.last, self.tag = before.line, before.last, before.tag
        self.durable, self.gaps = before.durable, before.gaps
        self.snapshot_left, self.snapshot_last = before.snapshot_left, before.snapshot_last
        self.dead, self.verdict = before.dead, before.verdict

    @classmethod
    def advanced(
        cls, place: Place, data: bytes, codec: Codec, *, is_end: bool
    ) -> tuple[Place, list[Record]]:
        """Return the place after the whole lines in `data`, and their records."""
        end = data.rfind(b"\n") + 1
        if not end and is_end and place.size == place.offset + len(data):
            return place, []
        reader = cls(place, codec)
        reader.take_all(data[:end].split(b"\n")[:-1])
        size = place.offset + (len(data) if is_end else end)
        return reader.place(place.offset + end, size), reader.records

    def place(self, offset: int, size: int) -> Place:
        """Return the place after the lines."""
        return self._before._replace(
            offset=offset,
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

        Nearly all verify and continue the one before. They are handled here without a call per line,
        with the same result as `_take_record`.
        """
        unseal, add = self._unseal, self.records.append
        for line in lines:
            self.line += 1
            try:
                record = unseal(line)
            except ValueError:
                self._take_rest(line)
                continue
            number, durable, previous, tag, data = record
            continues = previous is None or previous == self.tag
            if continues and number == self.last + 1 and number >= self._following:
                self.last, self.tag = number, tag
                if durable > self.durable:  # noqa: PLR1730 - no call per line
                    self.durable = durable
                add(_new_tuple(Record, (number, data)))
            else:
                self._take_record(record)

    def _take_rest(self, line: bytes) -> None:
        """Skip a dead line, but take a record that a damaged newline has joined to it."""
        self.dead = self.dead or self.line
        for start in self._before.sealer.starts(line, self.last):
            try:
                record = self._unseal(line[start:])
            except ValueError:
                continue
            self._take_record(record)
            return

    def _take_record(self, record: Unsealed) -> None:
        number, durable, previous, tag, data = record
        if number < self._following:
            self._take_snapshot(record)
            return
        if number <= self.last:
            # Every line of this file verifies with the file's own seed or key, so a line with an
            # earlier number is a copy of one written here before.
            self._accuse(f"record {number} appears again")
            return
        if number > self.last + 1:
            self.gaps = (*self.gaps, (self.last + 1, number - 1, self.line))
        elif previous is not None and previous != self.tag:
            self._accuse(f"record {number} does not follow the one before it")
        self.last, self.tag = number, tag
        self.durable = max(self.durable, durable)
        self.records.append(Record(number, data))

    def _take_snapshot(self, record: Unsealed) -> None:
        number, _, previous, tag, data = record
        if number <= self.snapshot_last or self.last != self._following - 1:
            self._accuse(f"record {number} appears again")
            return
        if previous is not None and previous != self.tag and not self.dead:
            self._accuse(f"record {number} does not follow the one before it")
        self.snapshot_last, self.tag = number, tag
        self.snapshot_left -= 1
        if number == 0:
            self._check_name(data)
        else:
            self.records.append(Record(number, data))

    def _check_name(self, data: bytes) -> None:
        if not check_name(self._before, self._codec, data):
            self._accuse("it is the file of another place")

    def _accuse(self, what: str) -> None:
        self.verdict = self.verdict or f"line {self.line}: {what}"
