"""Where Koog's AgentMemory keeps its files, and how they are read. Nothing is written.

    <root>/<storageDirectory>/agent/<name>/subject/<subject>
                              feature/<name>/subject/<subject>
                              product/<name>/subject/<subject>
                              organization/subject/<subject>

The last part is the file; it has no extension. Koog puts names into the path as they are, so a
name with a slash in it is several folders.
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
"""Returns what was sealed: a nonce of 12 bytes, the ciphertext and a tag of 16 bytes."""

_LEAST_SEALED = 12 + 16
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class UnreadableError(Exception):
    """A file or folder that cannot be read: where, and why. The reason quotes nothing of it."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(reason)
        self.path = path
        self.reason = reason


@dataclass(frozen=True, slots=True)
class KoogFile:
    """A file of Koog's, and the place that its path names."""

    path: Path
    scope: MemoryScope
    subject: str


def store_in(root: Path) -> Path:
    """Return the folder that holds Koog's four: `root` itself, or the one folder in it that does.

    Raises:
        ValueError: There is none, or more than one.
    """
    if not root.is_dir():
        raise ValueError(
            f"{str(root)!r} is no folder: give the one that Koog's LocalFile"
            f"MemoryProvider had as its root"
        )
    if _is_store(root):
        return root
    found = sorted(child for child in root.iterdir() if not child.is_symlink() and _is_store(child))
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(repr(child.name) for child in found)
        raise ValueError(f"{str(root)!r} holds several stores of Koog's: give one of {names}")
    raise ValueError(
        f"{str(root)!r} holds no facts of Koog's: expected a folder named agent, feature, product "
        f"or organization in it, or one level below"
    )


def _is_store(folder: Path) -> bool:
    return any((folder / kind).is_dir() for kind in MemoryScopeType)


def files_in(store: Path, organization: str) -> Iterator[KoogFile | UnreadableError]:
    """Give every file of a store, in the order of their paths, and what is no such file.

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
                yield UnreadableError(path, "is no regular file")
        except OSError as exc:
            yield UnreadableError(path, _told(exc))


def _told(exc: OSError) -> str:
    return f"cannot be read: {exc.strerror or type(exc).__name__}"


def _named(path: Path, within: tuple[str, ...], organization: str) -> KoogFile | UnreadableError:
    """Return the file with the place that its path names, or say why it names none."""
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
        return UnreadableError(path, f"has a name that factmem refuses: {exc}")


def content_of(file: KoogFile, unseal: Unseal | None) -> object:
    """Return the JSON that a file holds; with `unseal` it must be sealed, without it must not.

    Raises:
        UnreadableError: It cannot be read, does not open, or is no JSON.
    """
    try:
        data = _read(file.path)
    except OSError as exc:
        raise UnreadableError(file.path, _told(exc)) from None
    if not data.strip():
        raise UnreadableError(file.path, "is empty: Koog was stopped while it wrote it")
    if unseal is not None:
        data = _unsealed(file.path, data.strip(), unseal)
    try:
        content: object = orjson.loads(data)
    except ValueError:
        is_sealed = unseal is None and _sealed(data.strip()) is not None
        why = (
            "is encrypted: give the key" if is_sealed else "is not JSON: it is cut short or damaged"
        )
        raise UnreadableError(file.path, why) from None
    return content


def _read(path: Path) -> bytes:
    fd = os.open(path, _READ)
    with os.fdopen(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(0, "no regular file")
        return file.read()


def _unsealed(path: Path, text: bytes, unseal: Unseal) -> bytes:
    if text.startswith(b"{"):
        raise UnreadableError(path, "is not encrypted, though a key was given: import it without")
    sealed = _sealed(text)
    if sealed is None:
        raise UnreadableError(path, "is not whole base64: it is cut short or damaged")
    try:
        return unseal(sealed)
    except TamperedError:
        raise UnreadableError(
            path, "does not open with this key: it is another key's, or cut short or changed"
        ) from None


def _sealed(text: bytes) -> bytes | None:
    """Return the nonce and ciphertext that a string stands for; None where it cannot be one."""
    try:
        sealed = binascii.a2b_base64(text, strict_mode=True)
    except binascii.Error:
        return None
    return sealed if len(sealed) >= _LEAST_SEALED else None
