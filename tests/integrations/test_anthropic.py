"""Claude's memory tool, compared with the SDK's own file tool and run by the SDK's tool runner."""

import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from anthropic import AsyncAnthropic
from anthropic.lib.tools import ToolError
from anthropic.lib.tools import _beta_builtin_memory_tool as sdk

from factmem.errors import UnboundSubjectError
from factmem.integrations.anthropic import MEMORIES, MemoryTool, MemoryToolSync
from factmem.memory.runs import UNREACHABLE
from tests.chat_server import ChatServer, sends
from tests.doubles import BreakableProvider
from tests.world import DESK, vim_memory

PATHS = [
    "/memories",
    "/memories/a.md",
    "/memories/b.md",
    "/memories/d/c.md",
    "/memories/d/e/f.md",
    "/memories/d",
    "/memories/d/",
    "/memories/.hidden",
    "/memories/../x",
    "/etc/passwd",
]
TEXTS = [
    "",
    "x",
    "one\ntwo\nthree",
    "one\ntwo\n",
    "가나다\r\nx\r\n",
    "two two\ntwo",
    "z" * 1500,
    "<b>&",
]


def a_command(dice: random.Random) -> dict[str, Any]:
    name = dice.choice(["view", "create", "create", "str_replace", "insert", "delete", "rename"])
    command: dict[str, Any] = {"command": name, "path": dice.choice(PATHS)}
    match name:
        case "view":
            if dice.random() < 0.4:
                command["view_range"] = dice.choice([[1, 2], [2, -1], [0, 1], [5, 9], [2]])
        case "create":
            command["file_text"] = dice.choice(TEXTS)
        case "str_replace":
            command["old_str"] = dice.choice(["two", "one", "x", "나", "zz", "\n"])
            command["new_str"] = dice.choice(["2", "", "a\nb"])
        case "insert":
            command["insert_line"] = dice.choice([0, 1, 2, 5, -1])
            command["insert_text"] = dice.choice(["new", "new\n", "a\nb\n\n", ""])
        case "rename":
            command = {"command": name, "old_path": command["path"], "new_path": dice.choice(PATHS)}
    return command


async def outcome(tool: Any, command: dict[str, Any]) -> tuple[str, str]:
    try:
        return "answer", _without_folder_sizes(await tool.call(command))
    except ToolError as exc:
        return "error", str(exc)
    except OSError as exc:  # the SDK's tool fails if a path uses a file as a folder
        return "crash", type(exc).__name__


def _without_folder_sizes(text: str) -> str:
    """Remove folder sizes, which documents do not have, and the order of rows."""
    if not text.startswith("Here're"):
        return text
    header, *rows = text.splitlines()
    shown = []
    for number, row in enumerate(rows):
        size, path = row.split("\t", 1)
        shown.append(("" if path.endswith("/") or number == 0 else size, path))
    return f"{header}{sorted(shown)}"


def _remove_empty_folders(folder: Path) -> None:
    for each in sorted(folder.rglob("*"), reverse=True):
        if each.is_dir() and not any(each.iterdir()):
            each.rmdir()


async def _run_both(seed: int, folder: Path) -> int:
    """Run random commands on both tools until the SDK's tool crashes; return their count."""
    dice = random.Random(seed)
    theirs = sdk.BetaAsyncLocalFilesystemMemoryTool(str(folder))
    ours = MemoryTool((await vim_memory()).of("alice"))
    for number in range(25):
        command = a_command(dice)
        expected, actual = await outcome(theirs, command), await outcome(ours, command)
        _remove_empty_folders(folder / "memories")
        if expected[0] == "crash":
            assert actual[0] == "error", (seed, command)
            return number + 1
        assert actual == expected, (seed, number, command)
    return 25


@pytest.mark.skipif(
    not hasattr(sdk, "BetaAsyncLocalFilesystemMemoryTool"), reason="this SDK has no tool for files"
)
async def test_random_commands_give_the_answers_of_the_sdks_own_tool(
    tmp_path: Path, stride: int
) -> None:
    """A storm runs at least 2,000; `COMMANDS=10000` runs more."""
    import os

    wanted, done, seed = int(os.environ.get("COMMANDS", "2000")) // stride, 0, 0
    while done < wanted:
        done += await _run_both(seed, tmp_path / str(seed))
        seed += 1


SCRIPT: list[dict[str, Any] | None] = [
    {"command": "create", "path": "/memories/alice.md", "file_text": "Likes coffee.\n"},
    {"command": "str_replace", "path": "/memories/alice.md", "old_str": "coffee", "new_str": "tea"},
    {"command": "view", "path": "/memories/alice.md"},
    {"command": "view", "path": "/memories/none.md"},
    None,
]


@contextmanager
def claude() -> Iterator[ChatServer]:
    """Serve the Messages API: the commands of SCRIPT, then an answer."""
    with ChatServer() as server:
        for command in SCRIPT:
            block: dict[str, Any] = {"type": "text", "text": "Noted."}
            if command is not None:
                block = {"type": "tool_use", "id": "t", "name": "memory", "input": command}
            reply = {
                "id": "m",
                "type": "message",
                "role": "assistant",
                "model": "claude",
                "content": [block],
                "stop_reason": "tool_use" if command else "end_turn",
                "stop_sequence": None,
                "usage": {"input_tokens": 1, "output_tokens": 1},
            }
            server.answer(sends(json.dumps(reply).encode()))
        yield server
        assert server.troubles == []


async def run(server: ChatServer, tool: MemoryTool) -> str:
    url = server.url.removesuffix("/v1")
    async with AsyncAnthropic(base_url=url, api_key="x", max_retries=0) as client:
        runner = client.beta.messages.tool_runner(
            model="claude-test",
            max_tokens=1024,
            messages=[{"role": "user", "content": "Remember that I like tea."}],
            tools=[tool],
        )
        final: Any = await runner.until_done()
    text: str = final.content[0].text
    return text


def results(server: ChatServer) -> list[tuple[bool, str]]:
    blocks = [request.messages[-1]["content"][0] for request in server.requests[1:]]
    return [(bool(block.get("is_error")), str(block["content"])) for block in blocks]


async def test_a_saved_document_is_in_the_second_turn_of_its_user_only() -> None:
    memory = await vim_memory()
    with claude() as server:
        assert await run(server, MemoryTool(memory.of("alice"))) == "Noted."

    assert [error for error, _ in results(server)] == [False, False, False, True]
    assert "Likes tea." in results(server)[2][1]
    assert await memory.of("alice").documents(MEMORIES).texts() == {"/alice.md": "Likes tea.\n"}
    assert await memory.of("bob").documents(MEMORIES).texts() == {}
    assert "tea" not in await memory.of("alice").text()


async def test_a_failing_store_does_not_stop_a_run() -> None:
    failures: list[Exception] = []
    provider = BreakableProvider()
    memory = await vim_memory(provider=provider)
    tool = MemoryTool(memory.of("alice"), on_failure=failures.append)
    provider.is_broken = True
    with claude() as server:
        assert await run(server, tool) == "Noted."

    told = results(server)
    assert told[2][0]
    assert UNREACHABLE in told[2][1]
    assert failures


async def test_wrong_constructor_arguments_raise() -> None:
    memory = await vim_memory()
    with pytest.raises(UnboundSubjectError):
        MemoryTool(memory)
    with pytest.raises(ValueError, match="must not be one of the memory's own scopes"):
        MemoryTool(memory.of("alice"), DESK)
    with pytest.raises(TypeError, match="memory must be an AgentMemory"):
        MemoryTool("alice")  # type: ignore[arg-type]


async def test_clearing_removes_all_of_one_user() -> None:
    memory = await vim_memory()
    for who in ("alice", "bob"):
        for path in ("/a.md", "/d/b.md", "/d/c.md"):
            await memory.of(who).documents(MEMORIES).write(path, who)

    await MemoryTool(memory.of("alice")).clear_all_memory()
    await MemoryTool(memory.of("alice")).clear_all_memory()

    assert await memory.of("alice").documents(MEMORIES).texts() == {}
    assert len(await memory.of("bob").documents(MEMORIES).texts()) == 3


async def test_refused_paths_raise_a_tool_error() -> None:
    tool = MemoryTool((await vim_memory()).of("alice"))
    for path in ("/memories/" + "a" * 300, "/memories/a\x00b"):
        with pytest.raises(ToolError):
            await tool.call({"command": "create", "path": path, "file_text": "x"})


def test_the_synchronous_client_has_the_same_commands() -> None:
    """It is called without a loop, in one, and in several threads."""

    async def made() -> MemoryTool:
        return MemoryTool((await vim_memory()).of("alice"))

    tool = MemoryToolSync(anyio.run(made))
    path = "/memories/a.md"

    def run(command: str, **given: Any) -> str:
        return str(tool.call({"command": command, **given}))

    assert "created" in run("create", path=path, file_text="one\n")
    assert "edited" in run("str_replace", path=path, old_str="one", new_str="two")
    assert "edited" in run("insert", path=path, insert_line=1, insert_text="three")
    assert "two" in run("view", path=path)
    assert "renamed" in run("rename", old_path=path, new_path="/memories/b.md")
    with pytest.raises(ToolError, match="does not exist"):
        run("view", path=path)

    async def within() -> str:
        return run("delete", path="/memories/b.md")

    assert "deleted" in anyio.run(within)
    assert tool.to_dict()["type"] == "memory_20250818"
    with pytest.raises(TypeError, match="MemoryToolSync"):
        MemoryToolSync(anyio.run(vim_memory))  # type: ignore[arg-type]
