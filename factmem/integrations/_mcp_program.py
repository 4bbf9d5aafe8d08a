"""The program `factmem-mcp`: an MCP server for one user's facts in a local folder.

    $ factmem-mcp ~/.memory --product my-notes --user alice
    $ factmem-mcp ~/.memory --product my-notes --user alice --port 8000

The first command serves over stdio, for desktop assistants and editors. The second serves
streamable HTTP to clients on this machine, at `http://127.0.0.1:8000/mcp`.
"""

import argparse
import sys
from collections.abc import Sequence

import anyio

from factmem.encryption.aes256gcm import Aes256GCMEncryptor
from factmem.encryption.key import Key
from factmem.errors import FactmemError, MissingExtraError
from factmem.memory.agent_memory import AgentMemory
from factmem.models.places import MemorySubject
from factmem.models.scopes import MemoryScopesProfile
from factmem.providers.base import FactStore
from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.providers.storages import EncryptedStorage, Storage

__all__ = ["main", "serve_user"]

_USER = MemorySubject("user", "The person who talks to the assistant", 1, per_entity=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line and serve until the client disconnects."""
    options = _parser().parse_args(arguments)
    try:
        anyio.run(_serve, options)
    except KeyboardInterrupt:
        sys.exit(130)
    except (FactmemError, ValueError) as exc:
        sys.exit(f"factmem-mcp: {exc}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="factmem-mcp", description=f"{(__doc__ or '').partition('.')[0]}."
    )
    parser.add_argument("folder", help="the folder of the facts; created by the first save")
    parser.add_argument("--product", default="mcp", help="the scope of the facts: %(default)s")
    parser.add_argument("--user", default="me", help="the user of the facts: %(default)s")
    parser.add_argument("--port", type=int, help="serve HTTP on this port of this machine")
    parser.add_argument(
        "--key-env", metavar="VARIABLE", help="encrypt with the key in this environment variable"
    )
    parser.add_argument(
        "--read-only", action="store_true", help="offer only tools that do not write"
    )
    return parser


async def _serve(options: argparse.Namespace) -> None:
    storage: Storage | None = None
    if options.key_env is not None:
        storage = EncryptedStorage(Aes256GCMEncryptor(Key.from_env(options.key_env)))
    async with LocalFileMemoryProvider(options.folder, storage=storage) as store:
        await serve_user(
            store,
            product=options.product,
            user=options.user,
            port=options.port,
            read_only=options.read_only,
        )


async def serve_user(
    store: FactStore, *, product: str, user: str, port: int | None, read_only: bool
) -> None:
    """Serve one user's facts over stdio, or over HTTP on a port, until the client disconnects.

    Raises:
        MissingExtraError: The extra `mcp` is not installed.
    """
    try:
        from factmem.integrations.mcp import memory_server
    except ImportError as exc:
        raise MissingExtraError('Install the MCP SDK: pip install "factmem[mcp]"') from exc
    scopes = MemoryScopesProfile(product=product)
    memory = AgentMemory(store, scopes=scopes, subjects=[_USER.of(user)])
    server = memory_server(memory.view(read_only=read_only))
    if port is None:
        from mcp.server.stdio import stdio_server

        async with stdio_server() as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())
    else:
        import uvicorn

        app = server.streamable_http_app()
        config = uvicorn.Config(app, "127.0.0.1", port, log_level="warning")
        await uvicorn.Server(config).serve()
