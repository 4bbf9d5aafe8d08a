"""Where a store in local files is, and how it is kept: what its maker says, checked at once."""

import os
from pathlib import Path

from factmem.storage.base import Storage
from factmem.storage.simple import SimpleStorage

__all__ = ["folder_of", "storage_of"]


def folder_of(root: str | os.PathLike[str]) -> Path:
    """Return the folder that `root` names; the disk is not looked at.

    Raises:
        TypeError: It is no path.
        ValueError: It is empty, or no file can have it as its path.
    """
    try:
        path = os.fspath(root)
    except TypeError:
        path = None
    if not isinstance(path, str):
        raise TypeError(
            f"root is the path of a folder, a text or a Path, not {type(root).__name__}: "
            f"LocalFileMemoryProvider('memory')"
        )
    if not path:
        raise ValueError("root is empty: name a folder, or '.' for the current one")
    try:
        is_possible = b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        is_possible = False
    if not is_possible:
        raise ValueError("root holds a character that no path can have, such as NUL: leave it out")
    return Path(path)


def storage_of(storage: Storage | None) -> Storage:
    """Return `storage` if it is one, and the one in the clear for None and nothing else.

    Raises:
        TypeError: It is something else: a key, an encryption, a name, a class.
    """
    if storage is None:
        return SimpleStorage()
    if isinstance(storage, type) or not callable(getattr(storage, "open", None)):
        given = storage.__name__ if isinstance(storage, type) else type(storage).__name__
        raise TypeError(
            f"storage is a Storage, not {given}: SimpleStorage() keeps files in the clear, "
            f"EncryptedStorage(Aes256GCMEncryptor(key)) encrypts them"
        )
    return storage
