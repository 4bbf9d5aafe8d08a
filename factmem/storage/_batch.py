"""Appending to many journals at once: written first, then made durable together.

A batch for many places would spend most of its time in one fsync after the other. The order for
each file is that of `FolderWriter.append`: write, sync, read back, acknowledge. New, torn and doubtful
journals are appended to one by one afterwards.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from factmem.storage._file_calls import Files, OpenEnd
from factmem.storage._journal import Place
from factmem.storage._plain_codec import Codec
from factmem.storage.base import Appended, JournalName

_MOST_OPEN = 64
"""The most files that are open at a time: few, as the limit of a process is often 1,024."""

_Append = tuple[JournalName, Sequence[bytes]]


class Begun(NamedTuple):
    """An append that is written and not yet durable."""

    fd: int
    file: str
    before: Place
    data: bytes
    tag: bytes
    """The tag of the last line, which the next line names."""
    added: int
    """The number of records in `data`."""


class Appender(Protocol):
    """Appends to journals in two steps, or in one."""

    codec: Codec | None

    def begin(
        self, file: str, end: OpenEnd, records: Sequence[bytes], names: object
    ) -> Begun | Exception | None:
        """Write to the end of a journal; return None for one that `append` must handle.

        `names` is the version of the journals' names from before they were opened.
        """
        ...

    def finish(
        self, begun: Sequence[Begun], errors: Sequence[Exception | None], *, are_named: bool
    ) -> list[Appended | Exception]:
        """Acknowledge the synced records, or return the error of the sync or of a check."""
        ...

    def distrust(self, begun: Begun) -> None:
        """Record that the written bytes are in doubt."""
        ...

    def append(self, name: JournalName, records: Sequence[bytes]) -> Appended:
        """Append to one journal, and sync it."""
        ...


def append_all(
    writer: Appender, files: Files, appends: Sequence[_Append]
) -> list[Appended | Exception]:
    """Append to different journals; return for each what `append` returns or the error it raises."""
    outcomes: list[Appended | Exception] = []
    for start in range(0, len(appends), _MOST_OPEN):
        outcomes += _append_some(writer, files, appends[start : start + _MOST_OPEN])
    return outcomes


def _append_some(
    writer: Appender, files: Files, appends: Sequence[_Append]
) -> list[Appended | Exception]:
    outcomes: list[Appended | Exception | None] = [None] * len(appends)
    numbers: list[int] = []
    begun: list[Begun] = []
    names = [] if writer.codec is None else [writer.codec.file_name(name) for name, _ in appends]
    version = files.names_version("journals")
    ends = files.open_ends("journals", names)
    try:
        for number, end in enumerate(ends):
            if end is not None:
                one = writer.begin(names[number], end, appends[number][1], version)
                if isinstance(one, Begun):
                    numbers.append(number)
                    begun.append(one)
                else:
                    outcomes[number] = one
        errors = files.sync_all([one.fd for one in begun])
        are_named = version is not None and files.names_version("journals") == version
        finished = writer.finish(begun, errors, are_named=are_named)
        for number, outcome in zip(numbers, finished, strict=True):
            outcomes[number] = outcome
    finally:
        files.close_all([end.fd for end in ends if end is not None])
        for number, one in zip(numbers, begun, strict=False):
            if not isinstance(outcomes[number], Appended):
                writer.distrust(one)  # it may have records that were never acknowledged
    return [
        outcome or _appended(writer, *appends[number]) for number, outcome in enumerate(outcomes)
    ]


def _appended(
    writer: Appender, name: JournalName, records: Sequence[bytes]
) -> Appended | Exception:
    """Append to a journal that `begin` left, by itself."""
    try:
        return writer.append(name, records)
    except Exception as exc:  # noqa: BLE001 - the caller that waits for it raises it
        return exc
