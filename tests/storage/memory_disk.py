"""A disk in memory that keeps only what it must, and tells what a power cut may leave of it.

Content that was not synced survives by sectors, each as it was written, as it was before, as zeros
or, where it is new, as the stale content of a file that is gone; and the file may be cut at any
size in between. Changes of a folder that was not synced survive in any combination. What was synced
stays. Processes may be killed in the middle of a call, and calls may fail.
"""

import errno
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from itertools import product
from typing import TypeAlias

__all__ = ["SECTOR", "Image", "Killed", "MemoryDisk"]

SECTOR = 128

Image: TypeAlias = dict[str, bytes | None]
"""What is on the disk after a power cut: files and their content, folders and None."""

_MOST_COMBINED = 5
"""How many changes of a folder are combined in every way; of more, only the first so many."""


class Killed(BaseException):
    """The process was killed in the middle of a file call."""


class _Inode:
    __slots__ = ("data", "dirty", "kept")

    def __init__(self, content: bytes = b"") -> None:
        self.data = bytearray(content)
        """What processes see."""
        self.kept = content
        """What a power cut leaves at least."""
        self.dirty: set[int] = set()
        """The sectors that were written since the last sync."""


_FOLDER = _Inode()
"""Stands for a folder in the folder that it is in."""

_Change: TypeAlias = tuple[tuple[str, _Inode | None], ...]
"""What a folder operation does to names, all of it or nothing."""


class _Folder:
    """Names, as processes see them and as they are kept."""

    def __init__(self) -> None:
        self.seen: dict[str, _Inode] = {}
        self.kept: dict[str, _Inode] = {}
        self.pending: list[_Change] = []

    def change(self, *change: tuple[str, _Inode | None]) -> None:
        self.pending.append(change)
        _apply(change, self.seen)

    def sync(self) -> None:
        if self.pending:
            self.kept = dict(self.seen)
            self.pending = []

    def outcomes(self) -> list[dict[str, _Inode]]:
        """Return every combination of names that a power cut may leave; the seen ones first."""
        count = len(self.pending)
        if not count:
            return [self.kept]
        chosen: Iterator[tuple[bool, ...]] | list[tuple[bool, ...]]
        if count <= _MOST_COMBINED:
            chosen = product((True, False), repeat=count)
        else:
            chosen = [tuple(i < first for i in range(count)) for first in range(count, -1, -1)]
        return [self._outcome(each) for each in chosen]

    def _outcome(self, chosen: tuple[bool, ...]) -> dict[str, _Inode]:
        names = dict(self.kept)
        for is_chosen, change in zip(chosen, self.pending, strict=True):
            if is_chosen:
                _apply(change, names)
        return names


def _apply(change: _Change, names: dict[str, _Inode]) -> None:
    for name, inode in change:
        if inode is None:
            names.pop(name, None)
        else:
            names[name] = inode


def _no_pause() -> None:
    """Let nobody else on: there is one actor at a time."""


class MemoryDisk:
    """See `factmem.storage._files.Files`; and what a test may do to a disk."""

    def __init__(self, image: Image | None = None) -> None:
        self._above, self._root, self._journals = _Folder(), _Folder(), _Folder()
        self._fds: dict[int, _Inode] = {}
        self._next_fd = 3
        self._stale: list[bytes] = []
        self._is_locked = False
        self._is_dead = False
        self.count = 0
        """How many changing operations there were."""
        self.log: list[str] = []
        self.watch: Callable[[], None] = _no_pause
        """Called before each changing operation: the power may fail there."""
        self.pause: Callable[[], None] = _no_pause
        """Called before each call of any kind: another actor may go on there."""
        self.kill_at = 0
        self.kill_share = 0.0
        """How much of a write is done before the process is killed in it."""
        self.fail_at: frozenset[int] = frozenset()
        self.keeps_cache = True
        """Whether processes go on seeing what a failed sync did not keep."""
        self.failures = 0
        if image:
            self._restore(image)

    def _restore(self, image: Image) -> None:
        for name, content in image.items():
            folder, leaf = self._split(name) if name else (self._above, "store")
            folder.seen[leaf] = _FOLDER if content is None else _Inode(content)
        for folder in (self._above, self._root, self._journals):
            folder.kept = dict(folder.seen)

    def _split(self, name: str) -> tuple[_Folder, str]:
        top, _, leaf = name.partition("/")
        return (self._journals, leaf) if leaf else (self._root, top)

    def _operate(self, kind: str) -> bool:
        """Count a changing operation; return whether the process is killed in it."""
        if self._is_dead:
            raise Killed
        self.watch()
        self.count += 1
        self.log.append(kind)
        if self.count == self.kill_at:
            self._is_dead = True
            if kind != "append":
                raise Killed
        elif self.count in self.fail_at:
            self.failures += 1
            if kind not in {"append", "sync"}:
                raise OSError(errno.EIO, "injected")
        return self._is_dead

    def revive(self) -> None:
        """Let another process go on after one was killed."""
        self._is_dead = False
        self.kill_at = 0

    # The calls of a store

    def path(self, name: str) -> str:
        return f"/store/{name}"

    def make_folders(self) -> None:
        self.pause()
        if "store" not in self._above.seen:
            self._operate("make_folder")
            self._above.change(("store", _FOLDER))
        if "journals" not in self._root.seen:
            self._operate("make_folder")
            self._root.change(("journals", _FOLDER))

    def network_file_system(self) -> str | None:
        return None

    def lock(self, timeout: float) -> AbstractContextManager[None]:
        return self._held()

    @contextmanager
    def _held(self) -> Iterator[None]:
        self.pause()
        if "lock" not in self._root.seen:
            self._operate("create")
            self._root.change(("lock", _Inode()))
        self.take_lock()
        try:
            yield
        finally:
            self.release_lock()

    def take_lock(self) -> None:
        """Take the lock; with one actor at a time it is always free."""
        assert not self._is_locked
        self._is_locked = True

    def release_lock(self) -> None:
        """Give the lock back."""
        self._is_locked = False

    def _inode(self, name: str) -> _Inode:
        folder, leaf = self._split(name)
        inode = folder.seen.get(leaf)
        if inode is None:
            raise FileNotFoundError(errno.ENOENT, "No such file", self.path(name))
        return inode

    def _opened(self, inode: _Inode) -> int:
        self._next_fd += 1
        self._fds[self._next_fd] = inode
        return self._next_fd

    def open(self, name: str, *, write: bool = False) -> int:
        self.pause()
        return self._opened(self._inode(name))

    def create(self, name: str) -> int:
        self.remove(name)
        self._operate("create")
        folder, leaf = self._split(name)
        inode = _Inode()
        folder.change((leaf, inode))
        return self._opened(inode)

    def close(self, fd: int) -> None:
        del self._fds[fd]

    def size(self, fd: int) -> int:
        self.pause()
        return len(self._fds[fd].data)

    def read(self, fd: int, count: int, offset: int) -> bytes:
        self.pause()
        return bytes(self._fds[fd].data[offset : offset + count])

    def append(self, fd: int, data: bytes) -> None:
        self.pause()
        is_killed = self._operate("append")
        inode, is_failing = self._fds[fd], self.count in self.fail_at
        if is_killed:
            data = data[: int(len(data) * self.kill_share)]
        elif is_failing:
            data = data[: len(data) // 2]
        self._write(inode, data, len(inode.data))
        if is_killed:
            raise Killed
        if is_failing:
            raise OSError(errno.ENOSPC, "injected")

    def _write(self, inode: _Inode, data: bytes, offset: int) -> None:
        if data:
            end = offset + len(data)
            inode.data[offset:end] = data
            inode.dirty.update(range(offset // SECTOR, (end - 1) // SECTOR + 1))

    def destroy(self, name: str, count: int) -> None:
        fd = self.open(name)
        self._operate("destroy")
        self._write(self._fds[fd], bytes(count), 0)
        self.sync(fd)
        self.close(fd)

    def sync(self, fd: int) -> None:
        self.pause()
        self._operate("sync")
        inode = self._fds[fd]
        if self.count in self.fail_at:
            # As Linux does: what could not be written counts as written from now on.
            inode.dirty.clear()
            if not self.keeps_cache:
                inode.data[:] = inode.kept
            raise OSError(errno.EIO, "injected")
        kept = bytearray(inode.kept)
        kept += bytes(len(inode.data) - len(kept))
        for sector in inode.dirty:
            part = slice(sector * SECTOR, (sector + 1) * SECTOR)
            kept[part] = inode.data[part]
        inode.kept = bytes(kept)
        inode.dirty.clear()

    def sync_folder(self, name: str) -> None:
        self.pause()
        self._operate(f"sync_folder {name}")
        (self._journals if name else self._root).sync()

    def sync_parents(self) -> None:
        self.pause()
        self._operate("sync_parents")
        self._above.sync()

    def rename(self, old: str, new: str) -> None:
        self.pause()
        self._operate("rename")
        inode = self._inode(old)
        folder, target = self._split(new)
        self._bury(folder.seen.get(target))
        folder.change((self._split(old)[1], None), (target, inode))

    def remove(self, name: str) -> None:
        self.pause()
        folder, leaf = self._split(name)
        if leaf in folder.seen:
            self._operate("remove")
            self._bury(folder.seen[leaf])
            folder.change((leaf, None))

    def _bury(self, inode: _Inode | None) -> None:
        if inode is not None and inode.kept:
            self._stale.append(inode.kept)

    def names(self) -> list[str]:
        self.pause()
        return sorted(self._journals.seen)

    def content(self, name: str) -> bytes | None:
        self.pause()
        folder, leaf = self._split(name)
        inode = folder.seen.get(leaf)
        return None if inode is None else bytes(inode.data)

    def exists(self, name: str) -> bool:
        folder, leaf = self._split(name)
        return leaf in folder.seen

    def is_unchanged(self, name: str, header: bytes, size: int) -> bool:
        content = self.content(name)
        return content is not None and content.startswith(header) and len(content) <= size

    # What a test does to the files behind the store's back

    def image(self) -> Image:
        """Return everything as processes see it."""
        return _image(self._above.seen, self._root.seen, self._journals.seen, _seen)

    def files(self) -> dict[str, bytes]:
        """Return the files of journals, by their names."""
        return {name: bytes(inode.data) for name, inode in self._journals.seen.items()}

    def put(self, name: str, content: bytes) -> None:
        """Write a file as a stranger would."""
        folder, leaf = self._split(name)
        folder.seen[leaf] = folder.kept[leaf] = _Inode(content)

    # What a power cut may leave

    def images(self, rng: random.Random, most: int) -> Iterator[Image]:
        """Give what a power cut now may leave: the extremes, then others at random."""
        above, root = self._above.outcomes(), self._root.outcomes()
        journals = self._journals.outcomes()
        seen: set[frozenset[tuple[str, bytes | None]]] = set()

        def is_new(image: Image) -> bool:
            key = frozenset(image.items())
            return key not in seen and not seen.add(key)  # type: ignore[func-returns-value]

        extremes: list[tuple[int, Callable[[_Inode], bytes]]] = [
            (0, _seen),
            (0, _kept),
            (-1, _seen),
        ]
        for at, content in extremes:
            image = _image(above[at], root[at], journals[at], content)
            if len(seen) < most and is_new(image):
                yield image
        pick, misses = rng.choice, 0
        while len(seen) < most and misses < 4:
            image = _image(pick(above), pick(root), pick(journals), self._some_content(rng))
            if is_new(image):
                yield image
            else:
                misses += 1

    def _some_content(self, rng: random.Random) -> Callable[[_Inode], bytes]:
        def content(inode: _Inode) -> bytes:
            low, high = len(inode.kept), len(inode.data)
            if low == high and not inode.dirty:
                return inode.kept
            cut = high if rng.random() < 0.4 else rng.randint(low, high)
            is_whole = rng.random() < 0.25
            left = bytearray(inode.kept[:cut])
            left += bytes(cut - len(left))
            for sector in inode.dirty:
                start, end = sector * SECTOR, min(cut, (sector + 1) * SECTOR)
                if is_whole or rng.random() < 0.6:
                    left[start:end] = inode.data[start:end]
                elif start >= low and self._stale and rng.random() < 0.2:
                    stale = rng.choice(self._stale)[start:end]
                    left[start : start + len(stale)] = stale
            return bytes(left)

        return content

    def all_images(self) -> Iterator[Image]:
        """Give everything that a power cut now may leave, but for stale content."""
        for above, root, journals in product(
            self._above.outcomes(), self._root.outcomes(), self._journals.outcomes()
        ):
            inodes = list(
                {id(inode): inode for inode in (*root.values(), *journals.values())}.values()
            )
            for contents in product(*(_all_contents(inode) for inode in inodes)):
                known = dict(zip(map(id, inodes), contents, strict=True))
                yield _image(above, root, journals, lambda inode, known=known: known[id(inode)])  # type: ignore[misc]


def _seen(inode: _Inode) -> bytes:
    return bytes(inode.data)


def _kept(inode: _Inode) -> bytes:
    return inode.kept


def _all_contents(inode: _Inode) -> list[bytes]:
    low, high = len(inode.kept), len(inode.data)
    contents: dict[bytes, None] = {}
    for cut in range(low, high + 1):
        for chosen in product((True, False), repeat=len(inode.dirty)):
            left = bytearray(inode.kept[:cut])
            left += bytes(cut - len(left))
            for is_written, sector in zip(chosen, inode.dirty, strict=True):
                if is_written:
                    part = slice(sector * SECTOR, min(cut, (sector + 1) * SECTOR))
                    left[part] = inode.data[part]
            contents[bytes(left)] = None
    return list(contents)


def _image(
    above: Mapping[str, _Inode],
    root: Mapping[str, _Inode],
    journals: Mapping[str, _Inode],
    content: Callable[[_Inode], bytes],
) -> Image:
    if "store" not in above:
        return {}
    image: Image = {"": None}
    for name, inode in root.items():
        image[name] = None if inode is _FOLDER else content(inode)
    if "journals" in root:
        for name, inode in journals.items():
            image[f"journals/{name}"] = content(inode)
    return image
