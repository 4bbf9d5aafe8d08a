"""Commands that copy a whole store: backup, restore."""

import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import Annotated, TypeAlias

import anyio
import typer

from factmem.cli.exits import CommandError, ExitCode
from factmem.cli.maintenance import read_anchor, read_every_place, write_anchor
from factmem.cli.opening import has_store, storage_of
from factmem.cli.options import Json, Options, options_of
from factmem.cli.output import counted, print_json, print_line
from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.providers.storages import Storage

__all__ = ["app"]

app: typer.Typer = typer.Typer()
"""The commands of this module."""

AnchorFile: TypeAlias = Annotated[
    str | None, typer.Option("--anchor", metavar="FILE", help="FOLDER.anchor by default.")
]

_COPIED = (".jsonl", ".fmj")
"""Journals. Indexes are rebuilt; copies by `salvage` and drafts are not part of the store."""


@app.command()
def backup(
    ctx: typer.Context,
    folder: Annotated[str, typer.Argument(metavar="FOLDER", help="Must not exist.")],
    anchor_file: AnchorFile = None,
    as_json: Json = False,
) -> None:
    """Copy the store while others use it, check the copy, and write its anchor.

    Writers wait while files are copied; readers do not. The copy of an encrypted store is
    encrypted.
    """
    options = options_of(ctx)
    source = _folder(options)
    anchor_path = anchor_file or f"{folder.rstrip('/')}.anchor"
    storage = storage_of(options)
    journals = storage.open(Path(source))
    try:
        if not journals.exists():
            raise CommandError(f"There is no store in {source!r}", ExitCode.NOTHING)
        # Of the store, not of the copy: opening a copy may rewrite its last records.
        anchor = journals.anchor()
        with _new_folder(folder) as draft, journals.exclusive():
            _copy(Path(source), draft)
    finally:
        journals.close()
    count = anyio.run(_verify_copy, folder, storage, anchor)
    write_anchor(anchor_path, anchor)
    _report("Copied", count, folder, anchor_path, as_json)


@app.command()
def restore(
    ctx: typer.Context,
    folder: Annotated[
        str, typer.Argument(metavar="FOLDER", help="A folder that `backup` created.")
    ],
    anchor_file: AnchorFile = None,
    as_json: Json = False,
) -> None:
    """Check a backup with its anchor and copy it to --store, where there must be no store."""
    options = options_of(ctx)
    target = _path(options)
    if has_store(target):
        raise CommandError(
            f"There is already a store in {target!r}: pass another folder, or move it first",
            ExitCode.REFUSED,
        )
    if not has_store(folder):
        raise CommandError(f"There is no backup in {folder!r}", ExitCode.NOTHING)
    anchor_path = anchor_file or f"{folder.rstrip('/')}.anchor"
    anchor = read_anchor(anchor_path)
    storage = storage_of(options)
    count = anyio.run(_verify_copy, folder, storage, anchor)
    with _new_folder(target) as draft:
        _copy(Path(folder), draft)
    _report("Restored", count, target, anchor_path, as_json)


def _path(options: Options) -> str:
    if options.is_database:
        raise CommandError(
            "backup and restore copy folders only: back up a database with pg_dump, or use export"
        )
    return options.location


def _folder(options: Options) -> str:
    path = _path(options)
    if not has_store(path):
        raise CommandError(f"There is no store in {path!r}", ExitCode.NOTHING)
    return path


async def _verify_copy(folder: str, storage: Storage, anchor: str) -> int:
    """Read a whole copy, verify it against an anchor, and return its number of places."""
    async with LocalFileMemoryProvider(folder, storage=storage) as copy:
        await copy.verify(anchor)
        return await read_every_place(copy)


@contextmanager
def _new_folder(path: str) -> Generator[Path, None, None]:
    """Create a temporary folder next to `path`, and rename it to `path` when it is complete.

    Raises:
        CommandError: `path` exists already.
    """
    target = Path(path)
    if target.is_symlink() or (target.exists() and (not target.is_dir() or any(target.iterdir()))):
        raise CommandError(f"{path!r} exists: pass a new folder", ExitCode.REFUSED)
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.parent / f".{target.name}-{token_hex(8)}.tmp"
    draft.mkdir(mode=0o700)
    try:
        yield draft
        draft.rename(target)  # an empty folder at `path` is replaced
        _sync(target.parent)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise


def _copy(source: Path, target: Path) -> None:
    """Copy the files of a store, durably."""
    journals = target / "journals"
    journals.mkdir(mode=0o700)
    _copy_file(source / "factmem.json", target / "factmem.json")
    for file in sorted((source / "journals").iterdir()):
        if file.suffix in _COPIED and file.is_file() and not file.is_symlink():
            _copy_file(file, journals / file.name)
    _sync(journals)
    _sync(target)


def _copy_file(source: Path, target: Path) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with source.open("rb") as given, os.fdopen(os.open(target, flags, 0o600), "wb") as taken:
        shutil.copyfileobj(given, taken, 1 << 20)
        taken.flush()
        os.fsync(taken.fileno())


def _sync(folder: Path) -> None:
    opened = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _report(what: str, count: int, folder: str, anchor_path: str, as_json: bool) -> None:
    if as_json:
        print_json({"folder": folder, "places": count, "anchor": anchor_path})
    else:
        print_line(f"{what} {counted(count, 'place')} to {folder}; its anchor is in {anchor_path}")
