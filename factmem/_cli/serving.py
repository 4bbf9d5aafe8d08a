"""Commands that serve a store: browse, review and mcp; and its worker: learn.

Packages of extras are looked for before anything else and imported in the functions, as only these
commands need them. All three serve until they are interrupted, with the store open all the time;
`run` closes it. HTTP servers listen on 127.0.0.1 only, behind a `PortGuard`; TLS is left to a
proxy.
"""

import os
import re
import sys
from getpass import getuser
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any

import anyio
import typer

from factmem._cli.commands import command
from factmem._cli.desk import Desk
from factmem._cli.opening import Store, load_embedder, load_memory, run
from factmem._cli.options import GIVEN, EmbedderName
from factmem._cli.output import (
    Answer,
    CommandError,
    ExitCode,
    Problem,
    counted,
    is_terminal,
    print_error,
    print_line,
)
from factmem._cli.port_guard import Role, Tokens, Visitor, guarded, listening, secret_of, serve_http
from factmem.memory.agent_memory import AgentMemory
from factmem.memory.conversations import LearningRun
from factmem.models.places import MemoryScopesProfile, MemorySubject
from factmem.providers.conversations import LearningState

if TYPE_CHECKING:
    from mcp.server import Server

_USER = MemorySubject("user", "The person who talks to the assistant", 1, per_entity=True)


def _check_installed(name: str, extra: str, *packages: str) -> None:
    if missing := [each for each in packages if find_spec(each) is None]:
        needed = " and ".join(missing)
        raise CommandError(
            f"{name} needs {needed}: pip install 'factmem[{extra}]'", ExitCode.FAILED
        )


@command(json=False)
def browse(embedder: EmbedderName = None) -> None:
    """Browse the store in the terminal, and edit and forget values."""
    _check_installed("browse", "tui", "textual")
    if not is_terminal():
        raise CommandError("browse needs a terminal: use `show` or `recall`", ExitCode.REFUSED)
    options = GIVEN.get()
    vectors = load_embedder(embedder or options.embedder)
    from factmem._cli.browse.browser import Browser, BrowserSession

    async def work(store: Store) -> None:
        actor, reason = os.environ.get("FACTMEM_ACTOR"), os.environ.get("FACTMEM_REASON", "")
        session = BrowserSession(store, options, embedder=vectors, actor=actor, reason=reason)
        await Browser(session).run_async()

    run(work)


@command(json=False)
def review(
    name: Annotated[
        str | None,
        typer.Option(metavar="NAME", envvar="FACTMEM_ACTOR", help="Your name, in each change."),
    ] = None,
    port: Annotated[int, typer.Option(min=1, max=65_535, help="The port, of this machine.")] = 8765,
    address: Annotated[
        str | None,
        typer.Option(metavar="URL", help="The address of a proxy with TLS for the port."),
    ] = None,
    token_env: Annotated[
        str | None, typer.Option(metavar="NAME", help="The environment variable that signs links.")
    ] = None,
    hours: Annotated[int, typer.Option(min=1, max=720, help="How long the link is valid.")] = 12,
    link: Annotated[
        Role | None, typer.Option(help="Only print a link, signed by --token-env, for a role.")
    ] = None,
    days: Annotated[int, typer.Option(min=1, help="For how many days a value is new.")] = 7,
    embedder: EmbedderName = None,
) -> None:
    """Serve a page in the browser, to check what agents learnt."""
    _check_installed("review", "review", "jinja2", "starlette", "uvicorn")
    if address is not None and not re.fullmatch(r"https://[^/?#\s]+/?", address):
        raise CommandError("--address must be https:// and a host: https://review.example.com")
    tokens = Tokens(secret_of(token_env), port, address)
    visitor = Visitor.for_hours(hours, name or getuser(), link or Role.ADMINISTRATOR)
    if link is not None:
        print_line(tokens.link(visitor))
        return
    from factmem._cli.review.pages import guarded_page

    options = GIVEN.get()
    found = load_embedder(embedder or options.embedder)

    async def work(store: Store) -> None:
        await store.list_places(limit=1)  # a wrong key is an error of the command, not of a page
        with listening(port) as opened:
            if token_env is None or sys.stderr.isatty():
                print_error(f"Open {tokens.link(visitor)}")
            print_error(f"Serving on {tokens.address} until you press Ctrl+C")
            desk = Desk(store, options, embedder=found, days=days)
            await serve_http(guarded_page(desk, tokens), opened)

    run(work)


@command(json=False)
def mcp(
    product: Annotated[str, typer.Option(metavar="NAME", help="The scope of the facts.")] = "mcp",
    user: Annotated[str, typer.Option(metavar="NAME", help="The user of the facts.")] = "me",
    port: Annotated[
        int | None,
        typer.Option(min=1, max=65_535, help="Serve HTTP on this port, to this machine only."),
    ] = None,
    token_env: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The environment variable with the token of --port."),
    ] = None,
    hours: Annotated[int, typer.Option(min=1, max=720, help="How long the token is valid.")] = 12,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Offer only tools that do not write.")
    ] = False,
) -> None:
    """Serve one user's facts to MCP clients, over stdio or HTTP."""
    _check_installed("mcp", "mcp", "mcp")
    # Imported here: they take as long as all other imports, and no other command needs them.
    from factmem.integrations.mcp import memory_server

    async def work(store: Store) -> None:
        await store.list_places(limit=1)  # a missing key is an error of the command, not of a call
        scopes = MemoryScopesProfile(product=product)
        memory = AgentMemory(store, scopes=scopes, subjects=[_USER.of(user)])
        server = memory_server(memory.view(read_only=read_only))
        if port is None:
            await _serve_stdio(server)
            return
        app = server.streamable_http_app()
        with listening(port) as opened:
            await serve_http(guarded(app, port=port, token_env=token_env, hours=hours), opened)

    run(work, creates=True)


async def _serve_stdio(server: "Server[Any]") -> None:
    """Serve MCP over stdio. The SDK drops a line that is no message.

    Here its sender gets an error.
    """
    from mcp.server.stdio import stdio_server
    from mcp.shared.message import SessionMessage
    from mcp_types import INVALID_REQUEST, PARSE_ERROR, ErrorData
    from mcp_types.jsonrpc import JSONRPCError
    from pydantic import ValidationError

    # What the application prints would be no message. The descriptor is the SDK's from here on.
    protocol = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    send, receive = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    async with (
        stdio_server(stdout=anyio.wrap_file(protocol)) as (incoming, outgoing),
        anyio.create_task_group() as tasks,
    ):

        async def relay() -> None:
            async with send:
                async for item in incoming:
                    if not isinstance(item, ValidationError):
                        await send.send(item)
                        continue
                    is_json = all(each["type"] != "json_invalid" for each in item.errors())
                    error = (
                        ErrorData(code=INVALID_REQUEST, message="The line is no JSON-RPC message")
                        if is_json
                        else ErrorData(code=PARSE_ERROR, message="The line is no JSON")
                    )
                    answer = JSONRPCError(jsonrpc="2.0", id=None, error=error)
                    await outgoing.send(SessionMessage(answer))

        tasks.start_soon(relay)
        await server.run(receive, outgoing, server.create_initialization_options())
        tasks.cancel_scope.cancel()


@command()
def learn(
    memory: Annotated[
        str, typer.Argument(metavar="MODULE:NAME", help="The application's AgentMemory.")
    ],
    every: Annotated[
        float | None,
        typer.Option(min=0.1, metavar="SECONDS", help="Go on, and look for chats so often."),
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Chats learnt at the same time.")] = 1,
    per_minute: Annotated[
        int | None, typer.Option(min=1, help="The most chats begun in a minute.")
    ] = None,
    retry: Annotated[
        bool, typer.Option("--retry", help="Also the chats that were given up.")
    ] = False,
) -> Answer:
    """Learn facts from stored conversations, until none is due or, with --every, until stopped.

    Any number of these commands and of the application's own workers can run at the same time. With
    --every each round that learnt or failed prints a line. Exit code 1 means that a chat failed; it
    is tried again later.
    """
    found = load_memory(memory)
    pause = max(every or 0.0, 60 / per_minute if per_minute else 0.0)

    async def work() -> Answer:
        async with found.store, found:
            if retry:
                await found.conversations.retry_failed()
            while True:
                done = await found.conversations.learn(workers=workers, per_minute=per_minute)
                answer = _answer(done, await found.conversations.pending())
                if every is None:
                    return answer
                if done.learnt or done.failures:
                    answer.show(as_json=GIVEN.get().as_json, is_last=False)
                await anyio.sleep(pause)

    return anyio.run(work)


def _answer(done: LearningRun, state: LearningState) -> Answer:
    causes = {f"{type(each).__name__}: {each}" for each in done.failures}
    record = {
        "learnt": done.learnt,
        "postponed": done.postponed,
        "given_up": done.given_up,
        "pending": state.pending,
        "failed": state.failed,
        "oldest": None if state.oldest is None else state.oldest.isoformat(),
    }
    return Answer(
        {**record, "failures": sorted(causes)},
        f"Learnt {counted(done.learnt, 'conversation')}",
        f"Pending: {state.pending}, given up: {state.failed}",
        *(Problem(f"factmem: {each}") for each in sorted(causes)),
        code=ExitCode.FAILED if done.failures else ExitCode.OK,
    )
