"""MemoryDocuments: texts with paths, for agents that write notes to files."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from errno import EEXIST, ENOENT, ENOTDIR

from factmem._arguments import expect, expect_function
from factmem.errors import InputValueError
from factmem.ledger._items import Condition, name_of
from factmem.ledger.entries import Entry, ForgottenItem, stored
from factmem.ledger.history import HistoryEntry
from factmem.ledger.ledger import Ledger
from factmem.models._values import MAX_NAME, checked_name
from factmem.models.facts import Concept, SingleFact
from factmem.models.places import Place
from factmem.providers.store import FactStore

__all__ = ["MemoryDocuments"]

_ABOUT = "A document"
_EXAMPLE = 'documents.write("/notes/agent.md", text)'


@dataclass(frozen=True, slots=True)
class DocumentInfo:
    """Path, size and time of a document."""

    path: str
    size: int
    """The number of bytes in UTF-8."""
    written_at: datetime
    """When it was last written."""


class MemoryDocuments:
    """The documents of one subject in one scope; see `AgentMemory.documents`.

        notes = alice.documents(MemoryScope.Feature("notes"))
        await notes.write("/agent.md", "Be brief.")
        await notes.edit("/agent.md", lambda text: text + " Use metric units.")

    A document is a fact in its own scope: its path is the keyword, its text the value. It is
    durable, encrypted, isolated and versioned like other facts, and erased with its subject. No
    prompt, recall or memory tool contains it, because its scope is not one of the memory's own.

    Each change is one durable write. An edit always sees the text that it replaces, even if other
    processes write at the same time: no change is lost.

    A path is absolute, such as `/notes/a.md`, and has at most 200 characters. A folder exists as
    long as a document is in it. A document and a folder never have the same path.

    Args:
        store: The store, restricted to the places of the memory.
        place: The subject and the scope.

    Raises:
        TypeError: (from every method) A path or text is not a string.
        ValueError: (from every method) A path is not absolute, has `..`, or is too long.
        MemoryAccessError: (from methods that write) A view does not allow the write.
        StorageError: (from every method) The store failed.
    """

    def __init__(self, store: FactStore, place: Place) -> None:
        self._store = store
        self._place = place

    def __repr__(self) -> str:
        return f"MemoryDocuments({self._place!r})"

    async def infos(self, folder: str = "/") -> list[DocumentInfo]:
        """Return the documents in a folder and its subfolders, ordered by path."""
        return [
            DocumentInfo(path, len(text.encode()), written_at)
            for path, text, written_at in await self._below(folder)
        ]

    async def texts(self, folder: str = "/") -> dict[str, str]:
        """Return the texts of a document, or of a folder and its subfolders, by path."""
        return {path: text for path, text, _ in await self._below(folder)}

    async def read(self, path: str) -> str:
        """Return the text of a document.

        Raises:
            FileNotFoundError: The document does not exist.
        """
        found = await self._store.load(_concept(path), self._place.subject, self._place.scope)
        if not found:
            raise FileNotFoundError(ENOENT, "There is no such document", path)
        return found[0].value

    async def history(self, path: str) -> list[HistoryEntry]:
        """Return the versions of a document, oldest first; empty if it never existed."""
        return await self._store.history(_concept(path), self._place.subject, self._place.scope)

    async def write(self, path: str, text: str, *, must_be_new: bool = False) -> None:
        """Write a document; with `must_be_new`, only if it does not exist.

        Raises:
            FileExistsError: The path is a folder, or the document exists and must be new.
            NotADirectoryError: A part of the path is a document.
        """
        checked, fact = _checked(path), _fact(path, text)

        def change(ledger: Ledger, now: str) -> Entry:
            # Checked in the transaction: another process may create the document or its folder.
            _check_free(ledger, checked, now, may_exist=not must_be_new)
            return {"at": now, "facts": [stored(fact)]}

        await self._amend(change)

    async def edit(self, path: str, changed: Callable[[str], str]) -> str:
        """Replace the text with the result of a function of it, and return the new text.

        The function may run in a worker thread while the store is locked: it must be fast and must
        not use the store. If it raises an exception, nothing changes and the exception is raised.

        Raises:
            FileNotFoundError: The document does not exist.
        """
        expect_function(changed, "changed", "documents.edit('/a.md', str.strip)")
        checked, after = _checked(path), ""

        def change(ledger: Ledger, now: str) -> Entry:
            nonlocal after
            after = changed(_text(ledger, checked, now))
            return {"at": now, "facts": [stored(_fact(checked, after))]}

        await self._amend(change)
        return after

    async def remove(self, path: str) -> int:
        """Delete a document, or a folder with its subfolders; return the number of documents.

        Raises:
            FileNotFoundError: There is no such document or folder.
        """
        checked, count = _checked(path), 0

        def change(ledger: Ledger, now: str) -> Entry:
            nonlocal count
            paths = _paths(ledger, checked, now)
            count = len(paths)
            return {"at": now, "forget": [_name(ledger, each, now) for each in paths]}

        await self._amend(change)
        return count

    async def rename(self, old: str, new: str) -> None:
        """Move a document, or a folder with its subfolders, in one write.

        Raises:
            FileNotFoundError: There is no such document or folder.
            FileExistsError: The new path exists, or is inside the folder itself.
            NotADirectoryError: A part of the new path is a document.
        """
        source, target = _checked(old), _checked(new)

        def change(ledger: Ledger, now: str) -> Entry:
            paths = _paths(ledger, source, now)
            if _is_below(target, source):
                raise FileExistsError(EEXIST, "A folder cannot be moved into itself", new)
            _check_free(ledger, target, now)
            moved = [
                _fact(target + each[len(source) :], _text(ledger, each, now)) for each in paths
            ]
            return {
                "at": now,
                "facts": [stored(fact) for fact in moved],
                "forget": [_name(ledger, each, now) for each in paths],
            }

        await self._amend(change)

    async def _below(self, folder: str) -> list[tuple[str, str, datetime]]:
        wanted = "/" if folder == "/" else _checked(folder)
        found = await self._store.load_all(self._place.subject, self._place.scope)
        return sorted(
            (fact.concept.keyword, str(fact.values[0]), fact.timestamp)
            for fact in found
            if _is_below(fact.concept.keyword, wanted)
        )

    async def _amend(self, change: Callable[[Ledger, str], Entry]) -> None:
        await self._store.amend_current(change, self._place.subject, self._place.scope)


def _checked(path: str) -> str:
    expect(path, str, "path", _EXAMPLE)
    parts = [part for part in path.split("/") if part not in {"", "."}]
    tidy = "/" + "/".join(parts)
    if not path.startswith("/") or not parts or ".." in parts or len(tidy) > MAX_NAME:
        raise InputValueError(
            f"path must be absolute, without '..' and of at most {MAX_NAME} characters: {_EXAMPLE}"
        )
    return checked_name(tidy, "path")  # in NFC, like keywords


def _concept(path: str) -> Concept[str, SingleFact[str]]:
    return Concept(_checked(path), _ABOUT)


def _fact(path: str, text: str) -> SingleFact[str]:
    return SingleFact(_concept(path), expect(text, str, "text", _EXAMPLE))


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _paths(ledger: Ledger, path: str, now: str) -> list[str]:
    found = sorted(each for each in _all_paths(ledger, now) if _is_below(each, path))
    if not found:
        raise FileNotFoundError(ENOENT, "There is no such document", path)
    return found


def _all_paths(ledger: Ledger, now: str) -> set[str]:
    return {keyword for keyword, _, _ in ledger.matching(Condition(), now)}


def _check_free(ledger: Ledger, path: str, now: str, *, may_exist: bool = False) -> None:
    for each in _all_paths(ledger, now):
        if _is_below(each, path) and not (may_exist and each == path):
            raise FileExistsError(EEXIST, "The path is taken", path)
        if each != path and _is_below(path, each):
            raise NotADirectoryError(ENOTDIR, "This is a document, not a folder", each)


def _text(ledger: Ledger, path: str, now: str) -> str:
    for item in ledger.items(path, now).values():
        return str(item.value)
    raise FileNotFoundError(ENOENT, "There is no such document", path)


def _name(ledger: Ledger, path: str, now: str) -> ForgottenItem:
    (item,) = ledger.items(path, now).values()
    return name_of(path, item)
