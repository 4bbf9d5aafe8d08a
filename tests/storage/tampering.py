"""Accidents and attacks on the files of a store, and how it reports them.

Each way of tampering takes a sample store and gives the journal files that it leaves. Nothing here
touches the last line of a journal: that it is damaged, or gone, no file can tell of itself.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from typing import TypeAlias

from factmem.errors import (
    CorruptJournalError,
    FactmemError,
    TamperedError,
)
from factmem.storage.base import JournalName
from tests.storage.disk_model import Image
from tests.storage.memory_disk import MemoryDisk
from tests.storage.stores import ANN, BOB, Kind, append, read, record, texts

__all__ = ["FORGERIES", "TAMPERINGS", "Files", "Sample", "sample", "verdict"]

Files: TypeAlias = dict[str, bytes]
"""The content of journal files, by name."""


@dataclass(frozen=True)
class Sample:
    """A store with two journals, and what became of them in other times."""

    kind: Kind
    image: Image
    expected: Mapping[JournalName, list[bytes]]
    ann: str
    """The file of the journal of Ann, which was rewritten once and appended to since."""
    bob: str
    files: Files
    older: Files
    """The files as they were before the rewriting."""
    branches: tuple[Files, Files]
    """The files as they would be had other records been saved from some moment on."""

    def lines(self) -> list[bytes]:
        """Return the lines of Ann's file without their ends; the first is the header."""
        return self.files[self.ann].split(b"\n")[:-1]

    def with_lines(self, lines: list[bytes]) -> Files:
        """Return the files with other lines in Ann's."""
        return self.with_content(b"".join(line + b"\n" for line in lines))

    def with_content(self, content: bytes) -> Files:
        """Return the files with another content of Ann's."""
        return {**self.files, self.ann: content}

    def disk(self, files: Files) -> MemoryDisk:
        """Return a disk with these journal files."""
        disk = MemoryDisk(self.image)
        for name, content in files.items():
            if self.image.get(f"journals/{name}") != content:
                disk.put(f"journals/{name}", content)
        return disk


@cache
def sample(kind: Kind) -> Sample:
    """Make a sample store."""
    disk = MemoryDisk()
    folder = kind.open(disk)
    append(folder, ANN, *(record(number) for number in range(1, 5)))
    append(folder, BOB, *(record(number) for number in range(101, 107)))
    names = sorted(disk.files())
    append(folder, ANN, record(5), record(6))
    older = disk.files()
    ann = next(name for name in names if _holds(kind, disk, name))
    with folder.exclusive() as writer:
        writer.rewrite(ANN, read(writer, ANN)[2:])
    append(folder, ANN, record(7))
    append(folder, ANN, record(8), record(9))
    fork = disk.image()
    append(folder, ANN, record(10))
    append(folder, ANN, record(11))
    append(folder, ANN, record(12))
    append(folder, BOB, record(107))
    return Sample(
        kind=kind,
        image=disk.image(),
        expected={name: texts(read(folder, name)) for name in (ANN, BOB)},
        ann=ann,
        bob=next(name for name in names if name != ann),
        files=disk.files(),
        older=older,
        branches=(_branch(kind, fork, 50), _branch(kind, fork, 60)),
    )


def _holds(kind: Kind, disk: MemoryDisk, name: str) -> bool:
    """Return True for the file of Ann's journal."""
    codec = kind.open(disk).codec()
    return codec is not None and codec.file_name(ANN) == name


def _branch(kind: Kind, image: Image, first: int) -> Files:
    disk = MemoryDisk(image)
    for number in range(first, first + 3):
        append(kind.open(disk), ANN, record(number))
    return disk.files()


def verdict(sample: Sample, disk: MemoryDisk) -> str:
    """Open a store that was tampered with, read and write it, and say how that went.

    Returns:
        "told" if each journal that is not as it should be raised an error that names its file, or
        `factmem.json`, when it was read and when it was written, and nothing was changed; "right"
        if everything is there; what is wrong otherwise.
    """
    before, is_told = disk.image(), False
    for name, file in ((ANN, sample.ann), (BOB, sample.bob)):
        folder = sample.kind.open(disk)
        try:
            found = texts(read(folder, name))
        except FactmemError as exc:
            if not any(named in str(exc) for named in (file, "factmem.json")):
                return f"{type(exc).__name__} names no file: {exc}"
            if not isinstance(exc, CorruptJournalError | TamperedError):
                return f"it is called {type(exc).__name__}"
            is_told = True
        except Exception as exc:
            return f"{type(exc).__name__} gets out"
        else:
            if found != sample.expected[name]:
                return f"{len(found)} records are read, {len(sample.expected[name])} were saved"
            continue
        try:
            append(sample.kind.open(disk), name, record(1000))
        except type(exc_of(sample, disk, name)):
            pass
        else:
            return "what is damaged is appended to"
        if disk.image() != before:
            return "what is damaged was changed"
    return "told" if is_told else "right"


def exc_of(sample: Sample, disk: MemoryDisk, name: JournalName) -> Exception:
    """Return what reading a journal raises."""
    try:
        read(sample.kind.open(disk), name)
    except FactmemError as exc:
        return exc
    raise AssertionError("it can be read")


# By accident


def _one_bit(sample: Sample) -> Iterator[Files]:
    """One bit flipped, in every byte."""
    content = sample.files[sample.ann]
    for at in range(_start_of_last(content)):
        flipped = bytes([content[at] ^ (1 << (at * 5 + at // 8) % 8)])
        yield sample.with_content(content[:at] + flipped + content[at + 1 :])


def _byte_gone(sample: Sample) -> Iterator[Files]:
    content = sample.files[sample.ann]
    for at in range(_start_of_last(content) - 1):
        yield sample.with_content(content[:at] + content[at + 1 :])


def _hole(sample: Sample) -> Iterator[Files]:
    """Sixteen bytes of zeros."""
    content = sample.files[sample.ann]
    for at in range(0, _start_of_last(content) - 16, 3):
        yield sample.with_content(content[:at] + bytes(16) + content[at + 16 :])


def _line_gone(sample: Sample) -> Iterator[Files]:
    lines = sample.lines()
    for at in range(len(lines) - 1):
        yield sample.with_lines(lines[:at] + lines[at + 1 :])


def _line_doubled(sample: Sample) -> Iterator[Files]:
    """A line copied to every other place of the file."""
    lines = sample.lines()
    for source in range(1, len(lines)):
        for target in range(source, len(lines) + 1):
            yield sample.with_lines([*lines[:target], lines[source], *lines[target:]])


def _line_added(sample: Sample) -> Iterator[Files]:
    """A line that no version wrote, before every other one but the first."""
    lines = sample.lines()
    for at in range(1, len(lines)):
        for line in (b"", b"?", b'{"n":1,"id":"x"}'):
            yield sample.with_lines([*lines[:at], line, *lines[at:]])


def _lines_swapped(sample: Sample) -> Iterator[Files]:
    lines = sample.lines()
    for one, other in combinations(range(len(lines)), 2):
        swapped = list(lines)
        swapped[one], swapped[other] = lines[other], lines[one]
        yield sample.with_lines(swapped)


def _files_swapped(sample: Sample) -> Iterator[Files]:
    ann, bob = sample.files[sample.ann], sample.files[sample.bob]
    yield {sample.ann: bob, sample.bob: ann}
    yield {sample.ann: bob, sample.bob: bob}


def _other_header(sample: Sample) -> Iterator[Files]:
    """The first line of another file, or of an older one."""
    lines = sample.lines()
    for other in (sample.files[sample.bob], sample.older[sample.ann]):
        yield sample.with_lines([other.split(b"\n")[0], *lines[1:]])


def _older_lines(sample: Sample) -> Iterator[Files]:
    """Lines as they stood in the file before it was rewritten, or stand in another one."""
    lines = sample.lines()
    for other in (sample.older[sample.ann], sample.files[sample.bob]):
        for line in other.split(b"\n")[1:-1]:
            for at in range(1, len(lines) - 1):
                yield sample.with_lines([*lines[:at], line, *lines[at + 1 :]])


def _first_line_only(sample: Sample) -> Iterator[Files]:
    content = sample.files[sample.ann]
    header = content.index(b"\n") + 1
    snapshot = content.index(b"\n", header) + 1
    for at in (0, 1, header - 1, header, snapshot):
        yield sample.with_content(content[:at])


def _start_of_last(content: bytes) -> int:
    return content.rindex(b"\n", 0, -1) + 1


TAMPERINGS: dict[str, Callable[[Sample], Iterator[Files]]] = {
    "one bit flipped at every byte": _one_bit,
    "one byte gone": _byte_gone,
    "a hole of 16 bytes": _hole,
    "a line gone": _line_gone,
    "a line doubled": _line_doubled,
    "a line added": _line_added,
    "two lines swapped": _lines_swapped,
    "the files of two places swapped": _files_swapped,
    "the first line of another file": _other_header,
    "a line of another file, or of an older one": _older_lines,
    "cut within the first lines": _first_line_only,
}
"""Damage that every store reports."""


# On purpose, with some knowledge of the format


def _branches_spliced(sample: Sample) -> Iterator[Files]:
    """A line of one history followed by those of another, both genuine."""
    one, other = (files[sample.ann].split(b"\n")[:-1] for files in sample.branches)
    for at in range(1, 3):
        yield sample.with_lines([*one[:-at], *other[-at:]])


FORGERIES: dict[str, Callable[[Sample], Iterator[Files]]] = {
    "two histories spliced": _branches_spliced,
}
"""Forgeries that an encrypted store reports as well."""
