"""Documents, tools and consolidation of a memory without await.

Written by tests/sync/generate.py: change the async class.
"""

from collections.abc import Callable, Mapping
from typing import Any

from factmem.ledger.history import HistoryEntry
from factmem.llm.base import ToolDefinition
from factmem.memory.consolidation import ConsolidationReport
from factmem.memory.consolidator import MemoryConsolidation
from factmem.memory.documents import DocumentInfo, MemoryDocuments
from factmem.memory.tools import MemoryTool
from factmem.models.facts import Concept
from factmem.sync._wrapping import Wraps

__all__ = ["ConsolidationSync", "DocumentsSync", "ToolSync"]


class DocumentsSync(Wraps[MemoryDocuments]):
    """Texts under paths for code that does not use `await`."""

    def infos(self, folder: str = "/") -> list[DocumentInfo]:
        """Return the documents in a folder and its subfolders, ordered by path."""
        return self._portal.call(self._wrapped.infos, folder)

    def texts(self, folder: str = "/") -> dict[str, str]:
        """Return the texts of a document, or of a folder and its subfolders, by path."""
        return self._portal.call(self._wrapped.texts, folder)

    def read(self, path: str) -> str:
        """Return the text of a document.

        Raises:
            FileNotFoundError: The document does not exist.
        """
        return self._portal.call(self._wrapped.read, path)

    def history(self, path: str) -> list[HistoryEntry]:
        """Return the versions of a document, oldest first; empty if it never existed."""
        return self._portal.call(self._wrapped.history, path)

    def write(self, path: str, text: str, *, must_be_new: bool = False) -> None:
        """Write a document; with `must_be_new`, only if it does not exist.

        Raises:
            FileExistsError: The path is a folder, or the document exists and must be new.
            NotADirectoryError: A part of the path is a document.
        """
        return self._portal.call(self._wrapped.write, path, text, must_be_new=must_be_new)

    def edit(self, path: str, changed: Callable[[str], str]) -> str:
        """Replace the text with the result of a function of it, and return the new text.

        The function may run in a worker thread while the store is locked: it must be fast and must
        not use the store. If it raises an exception, nothing changes and the exception is raised.

        Raises:
            FileNotFoundError: The document does not exist.
        """
        return self._portal.call(self._wrapped.edit, path, changed)

    def remove(self, path: str) -> int:
        """Delete a document, or a folder with its subfolders; return the number of documents.

        Raises:
            FileNotFoundError: There is no such document or folder.
        """
        return self._portal.call(self._wrapped.remove, path)

    def rename(self, old: str, new: str) -> None:
        """Move a document, or a folder with its subfolders, in one write.

        Raises:
            FileNotFoundError: There is no such document or folder.
            FileExistsError: The new path exists, or is inside the folder itself.
            NotADirectoryError: A part of the new path is a document.
        """
        return self._portal.call(self._wrapped.rename, old, new)


class ConsolidationSync(Wraps[MemoryConsolidation]):
    """Merges of values that mean the same, for code that does not use `await`."""

    def propose(self, concept: Concept[Any, Any]) -> ConsolidationReport:
        """Ask the model which values of a concept mean the same. Nothing is written.

        Makes one call to the model for each 200 values of a place with at least two values; values
        of two places are never in the same call. Check `merges` of the report, then pass the report
        to `merge`. For instructions `ValueError` is raised.
        """
        return self._portal.call(self._wrapped.propose, concept)

    def merge(self, report: ConsolidationReport) -> ConsolidationReport:
        """Apply the merges of a report. No call to a model. Places are written in sequence.

        Each merge is one atomic entry in the history of its place. The kept value is confirmed and
        gets the sources of the others, their greatest importance and their latest expiry. Only
        current values are merged: if the kept value was forgotten since, it is not restored, and
        the merge is in `outdated` of the returned report. A failed call can be repeated: a merge
        that was applied before is not written again, unless it was undone.
        """
        return self._portal.call(self._wrapped.merge, report)

    def restore(self, report: ConsolidationReport) -> int:
        """Undo the merges of a report; return the number of restored values. No call to a model.

        Each value is said again now, with its source, importance and expiry. Nothing is restored if
        the kept value is no longer current. Values that were purged or erased, have expired or are
        beyond the retained history are not restored. The kept values do not change.
        """
        return self._portal.call(self._wrapped.restore, report)


class ToolSync(Wraps[MemoryTool]):
    """A tool of a memory for code that does not use `await`."""

    def call(
        self, arguments: str | Mapping[str, object] | None = None, context: object = None
    ) -> str:
        """Run the tool and return the text for the model: JSON, or a line that starts with `Error:`.

        Arguments are parsed leniently: a string for a list, a number for a string and the reverse,
        JSON in a string or in a code fence, a bare string for the first argument. JSON that is cut
        off, an unknown argument and a value of more than 16 KB are errors that name the argument.

        Args:
            arguments: The JSON object that the model wrote, as a string or parsed by a framework;
                None for no arguments.
            context: Passed to the function `of` of `AgentMemory.tools`; ignored otherwise.

        Raises:
            StorageError: A place could not be read or written.
            UnboundSubjectError: `of` returned no user, and a per-entity subject has no entity.
        """
        return self._portal.call(self._wrapped.call, arguments, context)

    @property
    def name(self) -> str:
        """The name that the model calls."""
        return self._wrapped.name

    @property
    def definition(self) -> ToolDefinition:
        """Name, description and the JSON schema of the arguments."""
        return self._wrapped.definition
