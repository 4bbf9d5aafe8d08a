"""Claude's memory tool for an AgentMemory: the files of /memories are one user's documents.

    tool = MemoryTool(memory.of("alice"))
    runner = client.beta.messages.tool_runner(..., tools=[tool])

It needs the extra `anthropic` and an `AsyncAnthropic`; `MemoryToolSync` is for `Anthropic`. The
answers to Claude are identical to those of the SDK's own file-based tool.

`MemoryDocuments` stores the files; here are paths, numbers of lines and words. Every error of a
command becomes a `ToolError`, which Claude reads.
"""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from anthropic.lib.tools import (
    BetaAsyncAbstractMemoryTool,
    BetaBuiltinFunctionTool,
    BetaFunctionToolResultType,
    ToolError,
)
from anthropic.types import beta

from factmem.errors import StorageError
from factmem.memory.agent_memory import AgentMemory
from factmem.memory.runs import UNREACHABLE
from factmem.models.places import MemoryScope
from factmem.sync.portal import SHARED_PORTAL

__all__ = ["MEMORIES", "MemoryTool", "MemoryToolSync"]

T = TypeVar("T")

MEMORIES = MemoryScope.Feature("memories")
"""The default scope of the documents."""

_ROOT = "/memories"
_MAX_LINES = 999_999


class MemoryTool(BetaAsyncAbstractMemoryTool):
    """Claude's commands `view`, `create`, `str_replace`, `insert`, `delete` and `rename`.

    Create one for each request: it belongs to one user. If the store fails, Claude reads that the
    memory cannot be reached, and `on_failure` gets the error.

    Args:
        memory: A view of one subject, such as `memory.of("alice")`.
        scope: The scope of the documents; do not store facts in it.
        on_failure: Called with each error of the store.
        cache_control: See the SDK.

    Raises:
        ValueError: The memory has several subjects, or `scope` is one of its own scopes.
        UnboundSubjectError: The subject is per entity and has no entity.
    """

    def __init__(
        self,
        memory: AgentMemory,
        scope: MemoryScope = MEMORIES,
        *,
        on_failure: Callable[[Exception], None] | None = None,
        cache_control: beta.BetaCacheControlEphemeralParam | None = None,
    ) -> None:
        super().__init__(cache_control=cache_control)
        if not isinstance(memory, AgentMemory):
            raise TypeError('memory must be an AgentMemory: MemoryTool(memory.of("alice"))')
        self._documents = memory.documents(scope)
        self._on_failure = on_failure

    async def view(self, command: beta.BetaMemoryTool20250818ViewCommand) -> str:
        """Show a file with line numbers, or list a folder."""
        path = _path(command.path)
        texts = await self._result(self._documents.texts(path))
        if path in texts:
            return _numbered(command.path, texts[path], command.view_range)
        if not texts and path != "/":
            raise ToolError(_missing(command.path))
        return _listed(command.path, path, texts)

    async def create(self, command: beta.BetaMemoryTool20250818CreateCommand) -> str:
        """Write a new file."""
        path, taken = _path(command.path), f"File {command.path} already exists"
        if path == "/":
            raise ToolError(taken)
        write = self._documents.write(path, command.file_text, must_be_new=True)
        await self._result(write, taken=taken)
        return f"File created successfully at: {command.path}"

    async def str_replace(self, command: beta.BetaMemoryTool20250818StrReplaceCommand) -> str:
        """Replace a string that occurs exactly once in a file."""
        line = 0

        def replaced(text: str) -> str:
            nonlocal line
            line = _only_line(text, command)
            return text.replace(command.old_str, command.new_str)

        after = (await self._edit(command.path, replaced)).split("\n")
        shown = range(max(1, line - 2), min(len(after), line + 2) + 1)
        return (
            "The memory file has been edited. Here is the snippet showing the change (with line "
            "numbers):\n" + "\n".join(f"{number:6}\t{after[number - 1]}" for number in shown)
        )

    async def insert(self, command: beta.BetaMemoryTool20250818InsertCommand) -> str:
        """Insert lines after a line; 0 is the beginning."""

        def inserted(text: str) -> str:
            lines = text.removesuffix("\n").split("\n") if text else []
            if not 0 <= command.insert_line <= len(lines):
                raise ToolError(
                    f"Invalid `insert_line` parameter: {command.insert_line}. It should be within "
                    f"the range [0, {len(lines)}]."
                )
            lines.insert(command.insert_line, command.insert_text.rstrip("\n"))
            after = "\n".join(lines)
            return after if after.endswith("\n") else f"{after}\n"

        await self._edit(command.path, inserted)
        return f"The file {command.path} has been edited."

    async def delete(self, command: beta.BetaMemoryTool20250818DeleteCommand) -> str:
        """Delete a file, or a folder with its contents."""
        path = _path(command.path)
        if path == "/":
            raise ToolError("Cannot delete the /memories directory itself")
        missing = f"The path {command.path} does not exist"
        await self._result(self._documents.remove(path), missing=missing)
        return f"Successfully deleted {command.path}"

    async def rename(self, command: beta.BetaMemoryTool20250818RenameCommand) -> str:
        """Move a file or a folder to a path that does not exist."""
        old, new = _path(command.old_path), _path(command.new_path)
        if old == "/":
            raise ToolError("Cannot rename the /memories directory itself")
        taken = f"The destination {command.new_path} already exists"
        if new == "/":
            raise ToolError(taken)
        if await self._result(self._documents.texts(new)):  # first, as in the SDK's tool
            raise ToolError(taken)
        missing = f"The path {command.old_path} does not exist"
        await self._result(self._documents.rename(old, new), taken=taken, missing=missing)
        return f"Successfully renamed {command.old_path} to {command.new_path}"

    async def clear_all_memory(self) -> str:
        """Delete all files."""
        texts = await self._result(self._documents.texts())
        for path in {f"/{each.split('/')[1]}" for each in texts}:
            await self._result(self._documents.remove(path))
        return "All memory cleared"

    async def _edit(self, shown: str, changed: Callable[[str], str]) -> str:
        path = _path(shown)
        texts = await self._result(self._documents.texts(path))
        if path == "/" or (texts and path not in texts):
            raise ToolError(f"The path {shown} is not a file.")
        return await self._result(self._documents.edit(path, changed), missing=_missing(shown))

    async def _result(self, work: Awaitable[T], *, taken: str = "", missing: str = "") -> T:
        """Return the result of a method of the documents; convert its error for Claude."""
        try:
            return await work
        except StorageError as exc:
            if self._on_failure is not None:
                self._on_failure(exc)
            raise ToolError(UNREACHABLE) from exc
        except FileExistsError:
            raise ToolError(taken) from None
        except FileNotFoundError:
            raise ToolError(missing) from None
        except NotADirectoryError as exc:
            raise ToolError(f"{_ROOT}{exc} is a file, not a directory") from None
        except ValueError as exc:
            raise ToolError(str(exc)) from None


class MemoryToolSync(BetaBuiltinFunctionTool):
    """`MemoryTool` for the synchronous client: a command runs in a portal, and blocks its thread.

    Args:
        tool: The tool, for one user, with its `cache_control`.
    """

    def __init__(self, tool: MemoryTool) -> None:
        if not isinstance(tool, MemoryTool):
            raise TypeError("tool must be a MemoryTool: MemoryToolSync(MemoryTool(memory))")
        self._tool = tool

    def to_dict(self) -> beta.BetaToolUnionParam:
        """Return the declaration of the tool."""
        return self._tool.to_dict()

    def call(self, input: object) -> BetaFunctionToolResultType:  # noqa: A002 - the SDK's name
        """Run a command of the model."""
        return SHARED_PORTAL.call(self._tool.call, input)


def _path(shown: str) -> str:
    """Return the path of a document; `/` for the root."""
    if shown != _ROOT and not shown.startswith(f"{_ROOT}/"):
        raise ToolError(f"Path must start with /memories, got: {shown}")
    parts = [part for part in shown.removeprefix(_ROOT).split("/") if part not in {"", "."}]
    if ".." in parts:
        raise ToolError(f"Path {shown} would escape /memories directory")
    return "/" + "/".join(parts)


def _missing(shown: str) -> str:
    return f"The path {shown} does not exist. Please provide a valid path."


def _only_line(text: str, command: beta.BetaMemoryTool20250818StrReplaceCommand) -> int:
    """Return the number of the line in which the string to replace begins."""
    wanted = command.old_str
    starts = [at for at in range(len(text) + 1) if text.startswith(wanted, at)]
    lines = [text.count("\n", 0, at) + 1 for at in starts]
    if not lines:
        raise ToolError(
            f"No replacement was performed, old_str `{wanted}` did not appear verbatim in "
            f"{command.path}."
        )
    if len(lines) > 1:
        raise ToolError(
            f"No replacement was performed. Multiple occurrences of old_str `{wanted}` in lines: "
            f"{', '.join(map(str, lines))}. Please ensure it is unique"
        )
    return lines[0]


def _numbered(shown: str, text: str, view_range: list[int] | None) -> str:
    lines = text.split("\n")
    if len(lines) > _MAX_LINES:
        raise ToolError(f"File {shown} exceeds maximum line limit of 999,999 lines.")
    first, last = view_range if view_range and len(view_range) == 2 else (1, -1)
    first = max(1, first)
    chosen = lines[first - 1 :] if last == -1 else lines[first - 1 : last]
    numbered = (f"{number:6}\t{line}" for number, line in enumerate(chosen, first))
    return f"Here's the content of {shown} with line numbers:\n" + "\n".join(numbered)


def _listed(shown: str, folder: str, texts: dict[str, str]) -> str:
    """Return the files of a folder and its subfolders in the format of the SDK."""
    sizes: dict[str, int] = {}
    for path, text in texts.items():
        parts = path.removeprefix(folder).strip("/").split("/")
        if any(part.startswith(".") for part in parts[:2]):
            continue
        for depth in range(1, min(len(parts), 2) + 1):
            name = "/".join(parts[:depth]) + ("" if depth == len(parts) else "/")
            sizes[name] = sizes.get(name, 0) + len(text.encode())
    total = sum(len(text.encode()) for text in texts.values())
    rows = [f"{_size(total)}\t{shown}"]
    rows += [f"{_size(sizes[name])}\t{shown}/{name}" for name in sorted(sizes)]
    header = (
        f"Here're the files and directories up to 2 levels deep in {shown}, excluding hidden items:"
    )
    return "\n".join([header, *rows])


def _size(count: int) -> str:
    unit = max(count.bit_length() - 1, 0) // 10
    return f"{count / 1024**unit:.1f}".removesuffix(".0") + "BKMG"[unit]
