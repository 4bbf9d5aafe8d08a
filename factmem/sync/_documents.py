"""Documents, tools and consolidation of a memory without await.

Written by tests/sync/generate.py: change the async class.
"""

from collections.abc import Callable, Mapping
from typing import Any

from factmem.ledger.history import HistoryEntry
from factmem.llm.base import ToolDefinition
from factmem.memory.consolidation import ConsolidationReport, MemoryConsolidation
from factmem.memory.documents import DocumentInfo, MemoryDocuments
from factmem.memory.tools import MemoryTool
from factmem.models.facts import Concept
from factmem.sync._wrapping import Wraps


class DocumentsSync(Wraps[MemoryDocuments]):
    """Texts under paths for code that does not use `await`.

    Each method is that of `MemoryDocuments` with its name, which says more.
    """

    def infos(self, folder: str = "/") -> list[DocumentInfo]:
        """Return the documents in a folder and its subfolders, ordered by path."""
        return self._portal.call(self._wrapped.infos, folder)

    def texts(self, folder: str = "/") -> dict[str, str]:
        """Return the texts of a document, or of a folder and its subfolders, by path."""
        return self._portal.call(self._wrapped.texts, folder)

    def read(self, path: str) -> str:
        """Return the text of a document."""
        return self._portal.call(self._wrapped.read, path)

    def history(self, path: str) -> list[HistoryEntry]:
        """Return the versions of a document, oldest first; empty if it never existed."""
        return self._portal.call(self._wrapped.history, path)

    def write(self, path: str, text: str, *, must_be_new: bool = False) -> None:
        """Write a document; with `must_be_new`, only if it does not exist."""
        return self._portal.call(self._wrapped.write, path, text, must_be_new=must_be_new)

    def edit(self, path: str, changed: Callable[[str], str]) -> str:
        """Replace the text with the result of a function of it, and return the new text."""
        return self._portal.call(self._wrapped.edit, path, changed)

    def remove(self, path: str) -> int:
        """Delete a document, or a folder with its subfolders; return the number of documents."""
        return self._portal.call(self._wrapped.remove, path)

    def rename(self, old: str, new: str) -> None:
        """Move a document, or a folder with its subfolders, in one write."""
        return self._portal.call(self._wrapped.rename, old, new)


class ConsolidationSync(Wraps[MemoryConsolidation]):
    """Merges of values that mean the same, for code that does not use `await`.

    Each method is that of `MemoryConsolidation` with its name, which says more.
    """

    def propose(self, concept: Concept[Any, Any]) -> ConsolidationReport:
        """Ask the model which values of a concept mean the same. Nothing is written."""
        return self._portal.call(self._wrapped.propose, concept)

    def merge(self, report: ConsolidationReport) -> ConsolidationReport:
        """Apply the merges of a report. No call to a model. Places are written in sequence."""
        return self._portal.call(self._wrapped.merge, report)


class ToolSync(Wraps[MemoryTool]):
    """A tool of a memory for code that does not use `await`.

    Each method is that of `MemoryTool` with its name, which says more.
    """

    def call(
        self, arguments: str | Mapping[str, object] | None = None, context: object = None
    ) -> str:
        """Run the tool; return text for the model: JSON, or a line that starts with `Error:`."""
        return self._portal.call(self._wrapped.call, arguments, context)

    @property
    def name(self) -> str:
        """The name that the model calls."""
        return self._wrapped.name

    @property
    def definition(self) -> ToolDefinition:
        """Name, description and the JSON schema of the arguments."""
        return self._wrapped.definition
