"""The MCP server, used by the SDK's own client: in process, over stdio and over HTTP."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.server.subscriptions import ResourceUpdated
from mcp.shared.exceptions import MCPError
from mcp_types import ResourceTemplateReference

from factmem import __version__
from factmem.errors import UnboundSubjectError
from factmem.integrations.mcp import FACTS_URI, memory_server
from factmem.llm.base import estimate_tokens
from factmem.memory.agent_memory import AgentMemory
from factmem.memory.runs import UNREACHABLE
from factmem.testing.adapters import AdapterContract, AdapterHost
from tests.doubles import BreakableProvider
from tests.world import BOB, known_values, vim_memory


async def text_of(client: Client, tool: str, **arguments: Any) -> str:
    result: Any = await client.call_tool(tool, arguments)
    text: str = result.content[0].text
    assert result.is_error == text.startswith("Error:")
    return text


async def facts_of(client: Client) -> str:
    result: Any = await client.read_resource(FACTS_URI)
    text: str = result.contents[0].text
    return text


async def test_the_user_comes_from_the_connection() -> None:
    """Each client has its own user; no argument reaches the facts of another."""
    who: ContextVar[str] = ContextVar("who")
    memory = await vim_memory()
    server = memory_server(memory, user=lambda _: who.get())
    who.set("bob")
    async with Client(server) as client:
        assert "vim" not in await facts_of(client)
        assert "vim" not in await text_of(client, "memory_recall", query="editor")
        assert "no argument `user`" in await text_of(
            client, "memory_recall", query="editor", user="alice"
        )
        await text_of(client, "memory_save", concept="editor", value="nano")
    assert (await known_values(memory), await known_values(memory, BOB)) == (
        {"editor": "vim"},
        {"editor": "nano"},
    )


async def test_tools_have_descriptions() -> None:
    async with Client(memory_server(await vim_memory(), user="alice")) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        (resource,) = (await client.list_resources()).resources

    assert list(tools) == ["memory_recall", "memory_list_concepts", "memory_save", "memory_forget"]
    hints = {name: tool.annotations for name, tool in tools.items()}
    assert [name for name, hint in hints.items() if hint and hint.read_only_hint] == [
        "memory_recall",
        "memory_list_concepts",
    ]
    forgets = hints["memory_forget"]
    assert forgets is not None
    assert forgets.destructive_hint is not False  # the default is true
    assert str(resource.uri) == FACTS_URI


async def test_a_server_needs_a_bound_memory() -> None:
    with pytest.raises(UnboundSubjectError):
        memory_server(await vim_memory())


async def test_a_connection_without_a_user_is_an_error() -> None:
    async with Client(memory_server(await vim_memory(), user=lambda _: None)) as client:
        with pytest.raises(MCPError):
            await client.call_tool("memory_recall", {"query": "editor"})
        with pytest.raises(MCPError):
            await client.read_resource(FACTS_URI)


async def test_a_failing_store_is_reported_and_the_session_continues() -> None:
    provider = BreakableProvider()
    failures: list[Exception] = []
    memory = await vim_memory(provider=provider)
    server = memory_server(memory, user="alice", on_failure=failures.append)
    async with Client(server) as client:
        provider.is_broken = True
        assert (await text_of(client, "memory_recall", query="editor")).startswith(
            "Error: the memory"
        )
        assert await facts_of(client) == UNREACHABLE
        provider.is_broken = False
        assert "vim" in await text_of(client, "memory_recall", query="editor")
    assert len(failures) == 2


async def test_wrong_names_and_arguments_return_an_error() -> None:
    async with Client(memory_server(await vim_memory(), user="alice")) as client:
        assert "unknown tool" in await text_of(client, "memory_erase")
        assert (await text_of(client, "memory_forget", value="vim")).startswith("Error: nothing")
        with pytest.raises(MCPError):
            await client.read_resource("memory://secrets")


async def test_answers_have_the_declared_structure() -> None:
    """The SDK's client validates each answer against the schema of its tool."""
    memory = await vim_memory({"facts": []})
    async with Client(memory_server(memory, user="alice")) as client:
        tools = (await client.list_tools()).tools
        calls: dict[str, dict[str, Any]] = {
            "memory_recall": {"query": "editor"},
            "memory_list_concepts": {},
            "memory_remember": {"text": "I like fish."},
            "memory_save": {"concept": "shell", "value": ["fish", "zsh"]},
            "memory_forget": {"concept": "shell"},
        }
        assert {tool.name for tool in tools if tool.title and tool.output_schema} == set(calls)
        for name, given in calls.items():
            result: Any = await client.call_tool(name, given)
            assert result.structured_content == json.loads(result.content[0].text)
        assert client.server_info
        assert client.server_info.version == __version__


async def test_the_tools_are_small() -> None:
    async with Client(memory_server(await vim_memory(), user="alice")) as client:
        tools = (await client.list_tools()).tools
    shown = [[each.name, each.title, each.description, each.input_schema] for each in tools]
    # The estimate is cautious: these are 479 tokens of cl100k_base.
    assert estimate_tokens(json.dumps(shown, separators=(",", ":"))) < 870


async def test_a_concept_is_a_resource_with_its_values_in_full() -> None:
    long = "x" * 16_000
    async with Client(memory_server(await vim_memory(), user="alice")) as client:
        await text_of(client, "memory_save", concept="licence text", value=long)
        await text_of(client, "memory_save", concept="취미", value="chess")
        found: Any = await client.read_resource(f"{FACTS_URI}/licence%20text")
        ref = ResourceTemplateReference(type="ref/resource", uri=f"{FACTS_URI}/{{concept}}")
        keywords = [
            (await client.complete(ref, {"name": "concept", "value": value})).completion.values
            for value in ("e", "취")
        ]
        with pytest.raises(MCPError, match="Unknown resource"):
            await client.read_resource(f"{FACTS_URI}/shell")

    assert json.loads(found.contents[0].text)["facts"][0]["values"] == [long]
    assert keywords == [["editor"], ["취미"]]


async def test_prompts_of_the_user() -> None:
    memory = await vim_memory()
    async with Client(memory_server(memory, user="alice")) as client:
        names = [each.name for each in (await client.list_prompts()).prompts]
        about: Any = await client.get_prompt("what-do-you-know-about-me")
        remember: Any = await client.get_prompt("remember", {"text": "I use fish"})
        with pytest.raises(MCPError, match="needs the argument `text`"):
            await client.get_prompt("remember")
        with pytest.raises(MCPError, match="Unknown prompt"):
            await client.get_prompt("erase")
    async with Client(memory_server(memory.of("alice").view(read_only=True))) as client:
        read_only = [each.name for each in (await client.list_prompts()).prompts]

    assert names == ["remember", "what-do-you-know-about-me"]
    assert '"vim"' in about.messages[0].content.text
    assert "memory_save" in remember.messages[0].content.text
    assert "I use fish" in remember.messages[0].content.text
    assert read_only == ["what-do-you-know-about-me"]


async def test_a_client_hears_of_changes_of_its_user_only() -> None:
    """The other user's save comes first: a client that heard of it would count it."""
    who: ContextVar[str] = ContextVar("who")
    server = memory_server(await vim_memory(), user=lambda _: who.get())
    who.set("alice")
    async with Client(server) as client, Client(server) as second:
        who.set("bob")
        async with (
            Client(server) as bobs,
            client.listen(resource_subscriptions=[FACTS_URI]) as changes,
        ):
            await text_of(bobs, "memory_save", concept="editor", value="nano")
            await text_of(second, "memory_recall", query="editor")
            await text_of(second, "memory_save", concept="shell", value="fish")
            with anyio.fail_after(60):
                assert await anext(aiter(changes)) == ResourceUpdated(FACTS_URI)
            assert '"fish"' in await facts_of(client)


class Host(AdapterHost):
    """A client that puts the facts into its prompt, as a server cannot."""

    def __init__(self, memory: AgentMemory, options: dict[str, Any]) -> None:
        self.who: ContextVar[str] = ContextVar("who")
        self.server = memory_server(memory, user=lambda _: self.who.get(), **options)

    async def say(self, user: str, text: str) -> str:
        self.who.set(user)
        async with Client(self.server) as client:
            recalled = await client.call_tool("memory_recall", {"query": text})
            return f"{await facts_of(client)} {recalled}"


class TestContract(AdapterContract):
    learns = False

    async def new_host(self, memory: AgentMemory, **options: Any) -> Host:
        options.pop("auto_detect", None)
        return Host(memory, options)


def program(folder: Path, *options: str, key: Sequence[str] = ()) -> list[str]:
    store = ["-m", "factmem", "--store", str(folder / "memory"), *key]
    return [*store, "mcp", "--user", "alice", *options]


@pytest.mark.storm
def test_the_program_answers_broken_lines(tmp_path: Path) -> None:
    """The SDK alone would let the client wait."""
    ping = {"jsonrpc": "2.0", "id": 7, "method": "ping"}
    command = [sys.executable, *program(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin
        assert process.stdout
        answers = []
        for line in ("no JSON", '{"no": "message"}', json.dumps(ping)):
            process.stdin.write(f"{line}\n".encode())
            process.stdin.flush()
            answers.append(json.loads(process.stdout.readline()))
        process.stdin.close()
    assert [each.get("error", {}).get("code") for each in answers] == [-32700, -32600, None]
    assert (answers[2]["id"], process.returncode) == (7, 0)


NODE_MODULES = Path(__file__).parent.parent.parent / ".frameworks" / "npm" / "node_modules"


def node(*command: str) -> str:
    if shutil.which("node") is None:
        pytest.skip("Node.js is not installed")
    if not NODE_MODULES.exists():
        pytest.skip("`make frameworks ONLY=mcp` installs the TypeScript SDK and the inspector")
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.storm
def test_the_typescript_sdk_uses_everything(tmp_path: Path) -> None:
    client = str(Path(__file__).with_name("mcp_client.cjs"))
    got = json.loads(node("node", client, str(NODE_MODULES), sys.executable, *program(tmp_path)))

    assert got.pop("refused").startswith("Error: nothing was done. There is no argument `user`")
    assert got == {
        "version": {"name": "factmem", "title": "Memory", "version": __version__},
        "titles": [
            "Look up memories",
            "List what is remembered",
            "Save a memory",
            "Forget memories",
        ],
        "saved": {"saved": 1, "concept": "editor"},
        "uri": FACTS_URI,
        "recalled": ["vim"],
        "listed": 1,
        "concept": ["vim"],
        "completed": ["editor"],
        "prompts": ["remember", "what-do-you-know-about-me"],
        "prompt": True,
        "forgotten": {"forgotten": 1},
    }


@pytest.mark.storm
def test_the_inspector_lists_and_calls_the_tools(tmp_path: Path) -> None:
    inspector = str(NODE_MODULES / ".bin" / "mcp-inspector")
    cli = (inspector, "--cli", sys.executable, *program(tmp_path), "--method")
    listed = json.loads(node(*cli, "tools/list"))
    value = ("--tool-name", "memory_save", "--tool-arg", "concept=editor", "value=vim")
    saved = json.loads(node(*cli, "tools/call", *value))

    assert len(listed["tools"]) == 4
    assert saved["structuredContent"] == {"saved": 1, "concept": "editor"}


@pytest.mark.storm
async def test_the_program_speaks_stdio(tmp_path: Path) -> None:
    """A second process, read-only or not, knows the saves of the first. They are encrypted."""
    key = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
    options = ("--key-env", "NOTES_KEY")
    with anyio.fail_after(60):
        writes = StdioServerParameters(
            command=sys.executable, args=program(tmp_path, key=options), env={"NOTES_KEY": key}
        )
        async with Client(stdio_client(writes)) as client:
            await text_of(client, "memory_save", concept="editor", value="vim")
        reads = writes.model_copy(update={"args": program(tmp_path, "--read-only", key=options)})
        async with Client(stdio_client(reads)) as client:
            assert '"vim"' in await facts_of(client)
            names = [tool.name for tool in (await client.list_tools()).tools]
    assert names == ["memory_recall", "memory_list_concepts"]
    assert not holds(tmp_path, b"vim")


def holds(folder: Path, words: bytes) -> bool:
    files = [file for file in folder.rglob("*") if file.is_file()]
    assert files
    return any(words in file.read_bytes() for file in files)


TOKEN = "a-token-of-more-than-32-characters"


@contextmanager
def served(folder: Path) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = program(folder, "--port", str(port), "--token-env", "MCP_TOKEN")
    process = subprocess.Popen([sys.executable, *options], env={**os.environ, "MCP_TOKEN": TOKEN})
    try:
        deadline = time.monotonic() + 60
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert time.monotonic() < deadline, "the server did not start"
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.terminate()
        process.wait()


@pytest.mark.storm
async def test_the_program_speaks_http(tmp_path: Path) -> None:
    """Only clients with the token reach the store."""
    with served(tmp_path) as url, anyio.fail_after(60):
        async with httpx2.AsyncClient() as stranger:
            assert (await stranger.post(url, json={})).status_code == 401
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=30) as http,
            Client(streamable_http_client(url, http_client=http)) as client,
        ):
            await text_of(client, "memory_save", concept="editor", value="vim")
            assert '"vim"' in await facts_of(client)
