"""Commands that copy a whole store: backup, restore."""

from typing import Annotated, TypeAlias

import anyio
import typer

from factmem._cli.commands import command
from factmem._cli.erasures import Erased, receipts_of
from factmem._cli.exits import CommandError, ExitCode
from factmem._cli.maintenance import read_anchor, read_every_place, write_anchor
from factmem._cli.opening import Store, has_store, local, run, storage_of
from factmem._cli.options import GIVEN, Options, confirm
from factmem._cli.output import Answer, counted
from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.providers.storages import Storage

AnchorFile: TypeAlias = Annotated[
    str | None, typer.Option("--anchor", metavar="FILE", help="FOLDER.anchor by default.")
]


@command()
def backup(
    folder: Annotated[str, typer.Argument(metavar="FOLDER", help="Must not exist.")],
    anchor_file: AnchorFile = None,
) -> Answer:
    """Copy the store while others use it, check the copy, and write its anchor.

    Nobody waits. The copy of an encrypted store is encrypted.
    """
    options = GIVEN.get()
    _check_is_folder(options)
    path = anchor_file or f"{folder.rstrip('/')}.anchor"
    storage = storage_of(options)

    async def copy(store: Store) -> str:
        return await local(store, _DATABASE).backup(folder)

    anchor = run(copy, storage=storage)
    write_anchor(path, anchor)
    count = anyio.run(_verify_copy, folder, storage, anchor)
    record = {"folder": folder, "places": count, "anchor": path}
    return Answer(record, f"Copied {counted(count, 'place')} to {folder}; its anchor is in {path}")


@command(asks=True)
def restore(
    folder: Annotated[
        str, typer.Argument(metavar="FOLDER", help="A folder that `backup` created.")
    ],
    anchor_file: AnchorFile = None,
    erased: Erased = None,
) -> Answer:
    """Check a backup with its anchor, and put it in the place of --store, which nobody may have open.

    Places that were erased since stay erased: --store knows them, or --erased names them.
    """
    options = GIVEN.get()
    _check_is_folder(options)
    target = options.location
    if not has_store(folder):
        raise CommandError(f"There is no backup in {folder!r}", ExitCode.NOTHING)
    anchor = read_anchor(anchor_file or f"{folder.rstrip('/')}.anchor")
    receipts = receipts_of(erased)
    if has_store(target):
        confirm(f"Replace the store in {target!r}? What was saved since the backup is lost.")
    storage = storage_of(options)

    async def put_back() -> tuple[int, int]:
        async with LocalFileMemoryProvider(target, storage=storage) as store:
            left_out = await store.restore(folder, anchor=anchor, erased=receipts)
            return await read_every_place(store), left_out

    count, left_out = anyio.run(put_back)
    without = f", without {left_out:,} that were erased since" if left_out else ""
    record = {"folder": target, "places": count, "erased": left_out}
    return Answer(record, f"Restored {counted(count, 'place')} to {target}{without}")


_DATABASE = "back up a database with pg_dump, or use export"


def _check_is_folder(options: Options) -> None:
    if options.is_database:
        raise CommandError(f"backup and restore copy folders only: {_DATABASE}")


async def _verify_copy(folder: str, storage: Storage, anchor: str) -> int:
    """Read a whole copy, verify it against an anchor, and return its number of places."""
    async with LocalFileMemoryProvider(folder, storage=storage) as copy:
        await copy.verify(anchor)
        return await read_every_place(copy)
