"""Doors to the real disk that do more than open: they look on, fail, or write in pieces.

`factmem.storage._files` is the one module through which a local store reaches the disk, so a test
that stands in that door sees every file call there is.
"""

import functools
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from factmem.storage._files import LocalFiles
from factmem.storage._folder import JournalFolder
from factmem.storage._keys import SealedMode, StoreKeys
from factmem.storage._manifest import Mode
from factmem.storage.base import Journals
from factmem.encryption.aes256gcm import Aes256GCMEncryptor
from factmem.encryption.key import Key
from factmem.providers.storages import PlainMode

__all__ = ["CALLS", "Door", "DoorStorage", "FailingDoor"]

CALLS = sorted(
    name
    for name, each in vars(LocalFiles).items()
    if callable(each) and not name.startswith("_") and name != "path"
)
"""Every file call; `path` joins two texts and makes none."""

Look: TypeAlias = Callable[[str, tuple[Any, ...]], None]


class Door(LocalFiles):
    """The files of a folder; `look(call, arguments)` comes before each call and may raise.

    A quick one does not wait for the disk, for tests without a power cut.
    """

    def __init__(self, folder: str, look: Look, *, is_quick: bool = False) -> None:
        super().__init__(folder)
        if is_quick:
            for name in ("sync", "sync_folder", "sync_parents"):
                setattr(self, name, lambda *_: None)
        for name in CALLS:
            setattr(self, name, self._watched(name, getattr(self, name), look))

    @staticmethod
    def _watched(name: str, call: Callable[..., Any], look: Look) -> Callable[..., Any]:
        @functools.wraps(call)
        def watched(*args: Any, **options: Any) -> Any:
            look(name, args)
            return call(*args, **options)

        @contextmanager
        def held(*args: Any) -> Iterator[None]:
            with call(*args):
                look(name, args)
                yield

        return held if name == "lock" else watched


@dataclass
class FailingDoor:
    """Makes the next calls of the kinds in `fails` fail, `times` in all."""

    fails: set[str] = field(default_factory=set)
    times: int = 0
    skip: int = 0
    """The number of calls that succeed before that."""
    failed: int = 0
    error: Callable[[], BaseException] = lambda: OSError(5, os.strerror(5))

    def __call__(self, call: str, args: tuple[Any, ...]) -> None:
        if call in self.fails and self.failed < self.times:
            if self.skip:
                self.skip -= 1
                return
            self.failed += 1
            raise self.error()


@dataclass(frozen=True)
class DoorStorage:
    """A storage whose file calls go through a door of the test's."""

    door: Callable[[str], LocalFiles]
    key: Key | str | Sequence[Key | str] | None = None
    """The key of an encrypted store; the first of several is preferred."""
    busy_timeout: float = 30.0

    def open(self, folder: Path) -> Journals:
        """See `Storage.open`."""
        keys = [self.key] if isinstance(self.key, Key | str) else self.key
        sealed = SealedMode(Aes256GCMEncryptor(*keys)) if keys else None
        mode: Mode = sealed or PlainMode()
        journals = JournalFolder(self.door(str(folder)), mode, busy_timeout=self.busy_timeout)
        if sealed is not None:
            journals.keys = StoreKeys(journals, sealed)
        return journals
