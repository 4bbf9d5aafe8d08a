"""A disk in memory that keeps only what it must: the file calls of a store, and what goes wrong.

The power may fail before every changing call, a process may be killed in one, and calls may fail.
"""

import errno
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import product

from factmem.errors import StorageError
from factmem.storage._file_calls import OpenEnd
from tests.storage.disk_model import FOLDER, SECTOR, Flight, Folder, Image, Inode

__all__ = ["Killed", "MemoryDisk"]

_ABOVE, _STORE = "..", "store"
"""The parent folder of the store's folder, and its name there."""


class Killed(BaseException):
    """The process was killed in the middle of a file call."""


def _nothing() -> None:
    """Switch to no other task, and keep the power on."""


class MemoryDisk:
    """See `factmem.storage._file_calls.Files`; and what a test may do to a disk."""

    sector = SECTOR

    def __init__(self, image: Image | None = None) -> None:
        self._folders = {_ABOVE: Folder(), "": Folder(), "journals": Folder()}
        self._fds: dict[int, Inode] = {}
        self._next_fd = 3
        self._stale: list[bytes] = []
        self._is_locked = False
        self._lock_file: Inode | None = None
        self._is_dead = False
        self.count = 0
        """The number of changing calls so far."""
        self.log: list[str] = []
        self.watch: Callable[[], None] = _nothing
        """Called before each changing call: the power may fail there."""
        self.pause: Callable[[], None] = _nothing
        """Called before each call of any kind: another actor may run there."""
        self.kill_at = 0
        self.kill_share = 0.0
        """The part of a write that is done before its process is killed."""
        self.fail_at: frozenset[int] = frozenset()
        self.keeps_cache = True
        """True if processes still see content that a failed sync did not write."""
        self.failures = 0
        for name, content in (image or {}).items():
            self._put(name, FOLDER if content is None else Inode(content))
            if content is None:  # also if a power cut has left it empty
                self._folders.setdefault(name, Folder())
        for name in image.vouched if image else ():
            self._inode(name).vouched = True

    def _put(self, name: str, inode: Inode) -> None:
        folder, leaf = self._split(name) if name else (self._folders[_ABOVE], _STORE)
        folder.seen[leaf] = folder.kept[leaf] = inode

    def _split(self, name: str) -> tuple[Folder, str]:
        above, _, leaf = name.rpartition("/")
        return self._folders.setdefault(above, Folder()), leaf

    def _operate(self, kind: str) -> bool:
        """Count a changing call; return whether its process is killed."""
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
        """Let another process continue after one was killed."""
        self._is_dead = False
        self.kill_at = 0

    # The calls of a store

    def path(self, name: str) -> str:
        return f"/store/{name}"

    def make_folders(self) -> None:
        self.pause()
        self._make_folder(_ABOVE, _STORE)
        self._make_folder("", "journals")

    def _make_folder(self, above: str, name: str) -> None:
        if name not in self._folders[above].seen:
            self._operate("make_folder")
            self._folders[above].change((name, FOLDER))

    def network_file_system(self) -> str | None:
        return None

    def lock(self, timeout: float) -> AbstractContextManager[None]:
        return self._held()

    @contextmanager
    def _held(self) -> Iterator[None]:
        self.make_folders()
        self.pause()
        root = self._folders[""]
        if "lock" not in root.seen:
            self._operate("create")
            root.change(("lock", Inode()))
        self.take_lock()
        self._lock_file = root.seen["lock"]
        try:
            yield
        finally:
            self.release_lock()

    def check_lock(self) -> None:
        if self._folders[""].seen.get("lock") is not self._lock_file:
            raise StorageError("The lock file was deleted while it was held")

    def check_named(self, fd: int) -> None:
        if self._fds[fd] not in self._folders["journals"].seen.values():
            raise StorageError("The file was replaced")

    def names_version(self, folder: str) -> object:
        return dict(self._folders[folder].seen) if folder in self._folders else None

    def vouch(self, fd: int, size: int) -> object:
        self._fds[fd].vouched = size == len(self._fds[fd].data)
        return self._mark(fd)

    def _mark(self, fd: int) -> object:
        return len(self._fds[fd].data) if self._fds[fd].vouched else None

    def is_vouched(self, fd: int) -> bool:
        return self._fds[fd].vouched

    def take_lock(self) -> None:
        """Take the lock; with one actor at a time it is always free."""
        assert not self._is_locked
        self._is_locked = True

    def release_lock(self) -> None:
        """Release the lock."""
        self._is_locked = False

    def _opened(self, inode: Inode) -> int:
        self._next_fd += 1
        self._fds[self._next_fd] = inode
        return self._next_fd

    def _inode(self, name: str) -> Inode:
        folder, leaf = self._split(name)
        inode = folder.seen.get(leaf)
        if inode is None:
            raise FileNotFoundError(errno.ENOENT, "No such file", self.path(name))
        return inode

    def open(self, name: str, *, write: bool = False) -> int:
        self.pause()
        return self._opened(self._inode(name))

    def open_end(self, name: str) -> OpenEnd:
        fd = self.open(name, write=True)
        return OpenEnd(fd, len(self._fds[fd].data), self._fds[fd].vouched, self._mark(fd))

    def open_ends(self, folder: str, names: Sequence[str]) -> list[OpenEnd | None]:
        there = self._folders[folder].seen if folder in self._folders else {}
        return [self.open_end(f"{folder}/{name}") if name in there else None for name in names]

    def create(self, name: str) -> int:
        self.remove(name)
        above, _, leaf = name.rpartition("/")
        if above:
            self._make_folder("", above)
        self._operate("create")
        inode = Inode()
        self._split(name)[0].change((leaf, inode))
        return self._opened(inode)

    def close(self, fd: int) -> None:
        del self._fds[fd]

    def close_all(self, fds: Sequence[int]) -> None:
        for fd in fds:
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
        inode.write(data, len(inode.data))
        if is_killed:
            raise Killed
        if is_failing:
            raise OSError(errno.ENOSPC, "injected")

    def destroy(self, name: str, count: int) -> bool:
        fd = self.open(name)
        self._operate("destroy")
        self._fds[fd].write(bytes(count), 0)
        self.sync(fd)
        self.close(fd)
        return True

    def sync(self, fd: int) -> None:
        self._end_sync(fd, self._fds[fd].begin_sync())

    def _end_sync(self, fd: int, flight: Flight) -> None:
        self.pause()
        inode = self._fds[fd]
        try:
            self._operate("sync")
        except Killed:
            inode.drop(flight)
            raise
        if self.count in self.fail_at:
            inode.drop(flight)
            inode.fail_to_sync(keeps_cache=self.keeps_cache)
            raise OSError(errno.EIO, "injected")
        inode.end_sync(flight)

    def sync_all(self, fds: Sequence[int]) -> list[Exception | None]:
        """Sync files at the same time: all begin, then they end one by one, in any order.

        The power may fail, and other actors may go on, between any two ends.
        """
        begun = [(at, fd, self._fds[fd].begin_sync()) for at, fd in enumerate(fds)]
        errors: list[Exception | None] = [None] * len(fds)
        random.Random(self.count).shuffle(begun)
        for at, fd, flight in begun:
            try:
                self._end_sync(fd, flight)
            except OSError as exc:
                errors[at] = exc
        return errors

    def sync_folder(self, name: str) -> None:
        self.pause()
        self._operate(f"sync_folder {name}")
        self._folders[name].sync()

    def sync_parents(self) -> None:
        self.pause()
        self._operate("sync_parents")
        self._folders[_ABOVE].sync()

    def rename(self, old: str, new: str) -> None:
        self.pause()
        self._operate("rename")
        inode = self._inode(old)
        (above, leaf), (folder, target) = self._split(old), self._split(new)
        assert above is folder, "a store renames within a folder only"
        self._bury(folder.seen.get(target))
        folder.change((leaf, None), (target, inode))

    def remove(self, name: str) -> None:
        self.pause()
        folder, leaf = self._split(name)
        if leaf in folder.seen:
            self._operate("remove")
            self._bury(folder.seen[leaf])
            folder.change((leaf, None))

    def _bury(self, inode: Inode | None) -> None:
        if inode is not None and inode.kept:
            self._stale.append(inode.kept)

    def names(self, folder: str = "journals") -> list[str]:
        self.pause()
        return sorted(self._folders[folder].seen) if folder in self._folders else []

    def each_name(self, folder: str) -> Iterator[str]:
        yield from self.names(folder)

    def content(self, name: str) -> bytes | None:
        self.pause()
        folder, leaf = self._split(name)
        inode = folder.seen.get(leaf)
        return None if inode is None else bytes(inode.data)

    def mapped(self, name: str) -> None:
        """Treat no file as large."""

    def has_content(self, name: str, content: bytes) -> bool:
        return self.content(name) == content

    def release(self) -> None:
        """Keep nothing open."""

    def exists(self, name: str) -> bool:
        folder, leaf = self._split(name)
        return leaf in folder.seen

    def is_unchanged(self, name: str, header: bytes, size: int) -> bool:
        content = self.content(name)
        return content is not None and content.startswith(header) and len(content) <= size

    # Access of a test behind the store's back

    def image(self) -> Image:
        """Return everything that processes see."""
        return self._image({name: each.seen for name, each in self._folders.items()}, _seen)

    def files(self) -> dict[str, bytes]:
        """Return the files of journals, by their names."""
        return {name: _seen(inode) for name, inode in self._folders["journals"].seen.items()}

    def put(self, name: str, content: bytes) -> None:
        """Write a file as another program would."""
        self._put(name, Inode(content))

    def vouch_for(self, name: str) -> None:
        """Give a file the time that vouches for it."""
        self._inode(name).vouched = True

    # States after a power cut

    def images(self, rng: random.Random, most: int) -> Iterator[Image]:
        """Yield states that a power cut now may leave: the extremes, then random ones."""
        outcomes = {name: list(folder.outcomes()) for name, folder in self._folders.items()}
        given: set[frozenset[tuple[str, bytes | None]]] = set()

        def is_new(image: Image) -> bool:
            before = len(given)
            given.add(frozenset(image.items()))
            return len(given) > before

        extremes: list[tuple[int, Callable[[Inode], bytes]]] = [(0, _seen), (0, _kept), (-1, _seen)]
        for at, content in extremes:
            image = self._image({name: each[at] for name, each in outcomes.items()}, content)
            if len(given) < most and is_new(image):
                yield image
        misses = 0
        while len(given) < most and misses < max(4, most):
            names = {name: rng.choice(each) for name, each in outcomes.items()}
            image = self._image(names, lambda inode: inode.some_content(rng, self._stale))
            if rng.random() < 0.5:  # the time need not be durable
                image.vouched = frozenset()
            if is_new(image):
                yield image
            else:
                misses += 1

    def all_images(self) -> Iterator[Image]:
        """Yield every state that a power cut now may leave, except stale content."""
        for names in product(*(folder.outcomes() for folder in self._folders.values())):
            inodes = list({id(inode): inode for each in names for inode in each.values()}.values())
            for contents in product(*(inode.all_contents() for inode in inodes)):
                known = dict(zip(map(id, inodes), contents, strict=True))
                by_folder = dict(zip(self._folders, names, strict=True))
                yield self._image(by_folder, lambda inode, known=known: known[id(inode)])  # type: ignore[misc]

    def _image(
        self, folders: Mapping[str, Mapping[str, Inode]], content: Callable[[Inode], bytes]
    ) -> Image:
        if _STORE not in folders[_ABOVE]:
            return Image()
        image, vouched = Image({"": None}), set[str]()
        for name, inode in folders[""].items():
            if inode is not FOLDER:
                image[name] = content(inode)
                continue
            image[name] = None
            for leaf, inside in folders.get(name, {}).items():
                path = f"{name}/{leaf}"
                image[path] = found = content(inside)
                if inside.vouched and found == inside.data:
                    vouched.add(path)
        image.vouched = frozenset(vouched)
        return image


def _seen(inode: Inode) -> bytes:
    return bytes(inode.data)


def _kept(inode: Inode) -> bytes:
    return inode.kept
