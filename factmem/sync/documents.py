"""Documents and failed texts of a memory without await.

Written by tests/sync/generate.py: change the async class.
"""

from collections.abc import Callable

from factmem.ledger.history import HistoryEntry
from factmem.memory.documents import DocumentInfo, MemoryDocuments
from factmem.memory.failed_texts import FailedText, FailedTexts, RetryReport
from factmem.sync._wrapping import Wraps

__all__ = ["DocumentsSync", "FailedTextsSync"]


class DocumentsSync(Wraps[MemoryDocuments]):
    """Texts under paths for code that does not use `await`."""

    def infos(self, folder: str = "/") -> list[DocumentInfo]:
        """Return the documents in a folder and below, ordered by path; empty without any."""
        return self._portal.call(self._wrapped.infos, folder)

    def texts(self, folder: str = "/") -> dict[str, str]:
        """Return the texts in a folder and below, by path; also that of a single document."""
        return self._portal.call(self._wrapped.texts, folder)

    def read(self, path: str) -> str:
        """Return the text of a document.

        Raises:
            FileNotFoundError: The document does not exist.
        """
        return self._portal.call(self._wrapped.read, path)

    def history(self, path: str) -> list[HistoryEntry]:
        """Return the versions of a document, oldest first; empty if there never was one."""
        return self._portal.call(self._wrapped.history, path)

    def write(self, path: str, text: str, *, must_be_new: bool = False) -> None:
        """Write a document, or with `must_be_new` only a new one.

        Raises:
            FileExistsError: The path is a folder, or the document exists and must be new.
            NotADirectoryError: A part of the path is a document.
        """
        return self._portal.call(self._wrapped.write, path, text, must_be_new=must_be_new)

    def edit(self, path: str, changed: Callable[[str], str]) -> str:
        """Replace the text by the result of a function of it, and return the new text.

        The function may run in a worker thread while the store is locked: it must be quick and
        must not use the store. Its exception is raised, and nothing changes.

        Raises:
            FileNotFoundError: The document does not exist.
        """
        return self._portal.call(self._wrapped.edit, path, changed)

    def remove(self, path: str) -> int:
        """Remove a document, or a folder with everything below, and return how many there were.

        Raises:
            FileNotFoundError: There is neither.
        """
        return self._portal.call(self._wrapped.remove, path)

    def rename(self, old: str, new: str) -> None:
        """Move a document, or a folder with everything below, in one write.

        Raises:
            FileNotFoundError: There is neither.
            FileExistsError: The new path exists, or lies in the folder itself.
            NotADirectoryError: A part of the new path is a document.
        """
        return self._portal.call(self._wrapped.rename, old, new)


class FailedTextsSync(Wraps[FailedTexts]):
    """Texts whose extraction failed, for code that does not use `await`."""

    def infos(self) -> list[FailedText]:
        """Return the kept texts, the oldest first. No call to a model."""
        return self._portal.call(self._wrapped.infos)

    def retry(self, *ids: str) -> RetryReport:
        """Read kept texts once more, the oldest first, and save their facts.

        One call to the model for each text, as `remember` makes. A text that was read is forgotten;
        its facts are saved before, so that an interruption loses nothing. After an error of the
        endpoint no other text is tried.

        Args:
            ids: The texts to read; all by default.
        """
        return self._portal.call(self._wrapped.retry, *ids)

    def discard(self, *ids: str, purge: bool = False) -> int:
        """Forget kept texts, and return how many they were.

        Args:
            ids: The texts.
            purge: Remove them from history too.
        """
        return self._portal.call(self._wrapped.discard, *ids, purge=purge)
