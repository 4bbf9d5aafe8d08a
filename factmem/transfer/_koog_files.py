"""The file tree of Koog's AgentMemory, opened only for reading.

    <root>/<storageDirectory>/agent/<name>/subject/<subject>
                              feature/<name>/subject/<subject>
                              product/<name>/subject/<subject>
                              organization/subject/<subject>

The last part is the file; it has no extension. Koog does not escape names, so a name that contains
a slash spans several folders. Each error is a `ValueError` with a reason that contains nothing of
a file's content.
"""

import binascii
import os
import stat
from collections.abc import Callable, Iterator
from errno import ELOOP
from pathlib import Path
from typing import TypeAlias

from factmem._concurrency.file_lock import ORDINARY
from factmem.models.places import MemoryScope, MemoryScopeType
from factmem.transfer._lines import MOST_BYTES, parsed_json

Unseal: TypeAlias = Callable[[bytes], bytes]
"""Decrypts a nonce of 12 bytes, a ciphertext and a tag of 16 bytes."""

_READ = os.O_RDONLY | ORDINARY


def store_in(root: Path) -> Path:
    """Return the folder with Koog's scope folders: `root` itself, or the only such folder in it.

    Raises:
        ValueError: There is none, or more than one.
    """
    if not root.is_dir():
        raise ValueError(
            f"{str(root)!r} is not a folder: pass the root of Koog's LocalFileMemoryProvider"
        )
    children = [child for child in sorted(root.iterdir()) if not child.is_symlink()]
    found = [root] if _is_store(root) else [child for child in children if _is_store(child)]
    if len(found) != 1:
        raise ValueError(
            f"{str(root)!r} contains {'several stores' if found else 'no store'} of Koog: pass the "
            f"folder with the folders agent, feature, product or organization"
        )
    return found[0]


def _is_store(folder: Path) -> bool:
    return any((folder / kind).is_dir() for kind in MemoryScopeType)


def paths_in(store: Path) -> Iterator[Path]:
    """Yield the path of everything in a store but its folders, sorted; no link is followed.

    A folder that cannot be listed is among them, so that reading it reports the reason.
    """
    kinds = [store / kind for kind in MemoryScopeType]
    left = [folder for folder in reversed(kinds) if os.path.lexists(folder)]
    while left:
        path = left.pop()
        try:
            names = os.listdir(path) if stat.S_ISDIR(path.lstat().st_mode) else None
        except OSError:
            names = None
        if names is None:
            yield path
        else:
            left += [path / name for name in sorted(names, reverse=True)]


def place_names(parts: tuple[str, ...]) -> tuple[MemoryScope, str]:
    """Return the scope and the subject's name that the path of a file names.

    Raises:
        ValueError: It names no place, or several.
    """
    kind, *rest = parts
    if kind == MemoryScopeType.ORGANIZATION:
        marks = [0] if len(rest) > 1 and rest[0] == "subject" else []
    else:
        marks = [at for at in range(1, len(rest) - 1) if rest[at] == "subject"]
    if len(marks) != 1:
        raise ValueError("names no place, or several: Koog writes .../<name>/subject/<subject>")
    # Koog's CrossProduct scope has no name.
    name, subject = "/".join(rest[: marks[0]]) or "default", "/".join(rest[marks[0] + 1 :])
    try:
        return MemoryScope(MemoryScopeType(kind), name), subject
    except ValueError as exc:
        raise ValueError(f"has an invalid name: {exc}") from None


def content_of(path: Path, unseal: Unseal | None) -> object:
    """Return the parsed JSON of a file, which must be encrypted exactly if `unseal` is given.

    Raises:
        ValueError: The file cannot be read or decrypted, or is not JSON.
    """
    try:
        with open(path, "rb", opener=lambda name, _: os.open(name, _READ)) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise ValueError("is not a regular file")
            data = file.read(MOST_BYTES + 1).strip()
    except OSError as exc:
        if exc.errno == ELOOP:
            raise ValueError("is a symbolic link, which is not followed") from None
        raise ValueError(f"cannot be read: {exc.strerror or type(exc).__name__}") from None
    if unseal is not None:
        try:
            data = unseal(binascii.a2b_base64(data, strict_mode=True))
        except ValueError:  # binascii.Error is one too
            raise ValueError(
                "cannot be decrypted with this key: the key is wrong, or the file is not encrypted, "
                "truncated or damaged"
            ) from None
    try:
        return parsed_json(data)
    except ValueError as exc:
        or_sealed = "" if unseal else ", or encrypted: pass its key then"
        raise ValueError(f"{exc}: it is empty, truncated or damaged{or_sealed}") from None
