"""The file tree of Koog's AgentMemory, opened only for reading.

    <root>/<storageDirectory>/agent/<name>/subject/<subject>
                              feature/<name>/subject/<subject>
                              product/<name>/subject/<subject>
                              organization/subject/<subject>

The last part is the file; it has no extension. Koog does not escape names, so a name that contains
a slash spans several folders.
"""

import binascii
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import orjson

from factmem.errors import TamperedError
from factmem.models.places import MemoryScope, MemoryScopeType

Unseal: TypeAlias = Callable[[bytes], bytes]
"""Decrypts a nonce of 12 bytes, a ciphertext and a tag of 16 bytes."""

_LEAST_SEALED = 12 + 16
"""The size of a nonce and a tag without any ciphertext, in bytes."""
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
"""Without O_NONBLOCK, opening a pipe would wait for a writer."""


class UnreadableError(Exception):
    """A file or folder cannot be read. The reason contains nothing of its content."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(reason)
        self.path = path
        self.reason = reason


@dataclass(frozen=True, slots=True)
class KoogFile:
    """A file of Koog, with the scope and subject that its path names."""

    path: Path
    scope: MemoryScope
    subject: str


def store_in(root: Path) -> Path:
    """Return the folder with Koog's scope folders: `root` itself, or the only such folder in it.

    Raises:
        ValueError: There is none, or more than one.
    """
    if not root.is_dir():
        raise ValueError(
            f"{str(root)!r} is not a folder: pass the root of Koog's LocalFileMemoryProvider"
        )
    if _is_store(root):
        return root
    found = sorted(child for child in root.iterdir() if not child.is_symlink() and _is_store(child))
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(repr(child.name) for child in found)
        raise ValueError(f"{str(root)!r} contains several stores of Koog: pass one of {names}")
    raise ValueError(
        f"{str(root)!r} contains no store of Koog: expected a folder named agent, feature, product "
        f"or organization in it, or one level below"
    )


def _is_store(folder: Path) -> bool:
    return any((folder / kind).is_dir() for kind in MemoryScopeType)


def files_in(store: Path, organization: str) -> Iterator[KoogFile | UnreadableError]:
    """Yield every file of a store, ordered by path, with an error for anything else found there.

    Symbolic links are not followed.
    """
    kinds = [store / kind for kind in MemoryScopeType]
    left = [folder for folder in reversed(kinds) if os.path.lexists(folder)]
    while left:
        path = left.pop()
        try:
            mode = path.lstat().st_mode
            if stat.S_ISDIR(mode):
                left += [path / name for name in sorted(os.listdir(path), reverse=True)]
            elif stat.S_ISLNK(mode):
                yield UnreadableError(path, "is a symbolic link, which is not followed")
            elif stat.S_ISREG(mode):
                yield _named(path, path.relative_to(store).parts, organization)
            else:
                yield UnreadableError(path, "is not a regular file")
        except OSError as exc:
            yield UnreadableError(path, _reason_of(exc))


def _reason_of(exc: OSError) -> str:
    return f"cannot be read: {exc.strerror or type(exc).__name__}"


def _named(path: Path, within: tuple[str, ...], organization: str) -> KoogFile | UnreadableError:
    """Return a file with the scope and subject that its path names, or an error."""
    kind, *parts = within
    if kind == MemoryScopeType.ORGANIZATION:
        marks = [0] if len(parts) > 1 and parts[0] == "subject" else []
    else:
        marks = [at for at in range(1, len(parts) - 1) if parts[at] == "subject"]
    if len(marks) != 1:
        what = "names several places" if marks else "names no place"
        return UnreadableError(path, f"{what}: Koog writes .../<name>/subject/<subject>")
    name, subject = "/".join(parts[: marks[0]]), "/".join(parts[marks[0] + 1 :])
    try:
        return KoogFile(path, MemoryScope(MemoryScopeType(kind), name or organization), subject)
    except ValueError as exc:
        return UnreadableError(path, f"has an invalid name: {exc}")


def content_of(file: KoogFile, unseal: Unseal | None) -> object:
    """Return the parsed JSON of a file, which must be encrypted exactly if `unseal` is given.

    Raises:
        UnreadableError: The file cannot be read or decrypted, or is not JSON.
    """
    try:
        data = _read(file.path)
    except OSError as exc:
        raise UnreadableError(file.path, _reason_of(exc)) from None
    if not data.strip():
        raise UnreadableError(file.path, "is empty: Koog was interrupted while it wrote the file")
    if unseal is not None:
        data = _unsealed(file.path, data.strip(), unseal)
    try:
        content: object = orjson.loads(data)
    except ValueError:
        is_sealed = unseal is None and _sealed(data.strip()) is not None
        why = (
            "is encrypted: pass its key" if is_sealed else "is not JSON: it is truncated or damaged"
        )
        raise UnreadableError(file.path, why) from None
    return content


def _read(path: Path) -> bytes:
    fd = os.open(path, _READ)
    with os.fdopen(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(0, "not a regular file")
        return file.read()


def _unsealed(path: Path, text: bytes, unseal: Unseal) -> bytes:
    if text.startswith(b"{"):
        raise UnreadableError(path, "is not encrypted, but a key was given: import it without one")
    sealed = _sealed(text)
    if sealed is None:
        raise UnreadableError(path, "is not complete base64: it is truncated or damaged")
    try:
        return unseal(sealed)
    except TamperedError:
        raise UnreadableError(
            path, "cannot be decrypted with this key: the key is wrong, or the file is damaged"
        ) from None


def _sealed(text: bytes) -> bytes | None:
    """Decode the nonce and ciphertext of a base64 string; return None if it is invalid."""
    try:
        sealed = binascii.a2b_base64(text, strict_mode=True)
    except binascii.Error:
        return None
    return sealed if len(sealed) >= _LEAST_SEALED else None
