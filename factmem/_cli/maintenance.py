"""Commands that maintain a store: anchors, backups, checks, counts, and the group `keys`."""

import json
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from datetime import datetime
from errno import EEXIST
from pathlib import Path
from typing import Annotated, NamedTuple, TypeAlias

import anyio
import typer

from factmem._cli.commands import command, keys
from factmem._cli.opening import Store, has_store, local, run, storage_of
from factmem._cli.options import GIVEN, Options, confirm, parse_age
from factmem._cli.output import Answer, CommandError, ExitCode, Table, counted, time_words
from factmem._cli.targets import PlaceOrAll, find_place, parse_place, place_name
from factmem._concurrency import ORDINARY, try_lock
from factmem.encryption.key import Key
from factmem.errors import CorruptJournalError, DecryptionError, FactmemError, TamperedError
from factmem.models.places import Place
from factmem.providers import ProviderKeys
from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.providers.results import ErasureReceipt
from factmem.providers.storages import Storage
from factmem.transfer._outputs import is_special, write_whole


def read_anchor(path: str) -> str:
    """Read an anchor from a file."""
    with open(path, encoding="ascii", errors="replace") as file:
        return file.read().strip()


async def read_every_place(store: Store) -> int:
    """Read all entries of all places, and return the number of places.

    Raises:
        StorageError: A place is damaged.
        DecryptionError: The authentication of a place failed.
    """
    places = await store.places()
    for info in places:
        await store.entries(info.subject, info.scope)
    return len(places)


@command()
async def anchor(
    store: Store,
    out: Annotated[str | None, typer.Option(metavar="FILE", help="Write it to a file.")] = None,
) -> Answer:
    """Print an anchor, the current state of all places. Keep it elsewhere: `verify` compares it."""
    taken = await store.anchor()
    if out is not None:
        write_whole(out, f"{taken}\n")
    return Answer({"anchor": taken}, taken if out is None else f"Wrote the anchor to {out}")


@command()
async def verify(
    store: Store,
    anchor_file: Annotated[
        str | None, typer.Option("--anchor", metavar="FILE", help="An anchor from an earlier time.")
    ] = None,
) -> Answer:
    """Read every place; with an anchor, also check that no place was rolled back."""
    await store.verify(None if anchor_file is None else read_anchor(anchor_file))
    count = await read_every_place(store)
    than = " and not older than the anchor" if anchor_file is not None else ""
    are = f"{counted(count, 'place')} {'is' if count == 1 else 'are'}"
    record = {"places": count, "is_anchored": anchor_file is not None}
    return Answer(record, f"{are} readable{than}")


@command(asks=True)
async def compact(
    store: Store,
    place: PlaceOrAll = None,
    keep_history: Annotated[
        str, typer.Option(help="Keep the history of this time span: 90d.")
    ] = "0d",
) -> Answer:
    """Rewrite places without older history. Current values are not changed."""
    kept, freed = parse_age(keep_history), 0
    confirm(f"Remove the history of {place or 'every place'} older than {keep_history}?")
    for each in [await find_place(store, place)] if place else await store.list_places():
        freed += await store.compact(each.subject, each.scope, keep_history=kept)
    return Answer({"freed_bytes": freed}, f"Freed {counted(freed, 'byte')}")


@command()
async def salvage(
    store: Store, folder: Annotated[str, typer.Argument(metavar="FOLDER", help="Must not exist.")]
) -> Answer:
    """Save what can be read of a damaged store into a store in a new folder."""
    found = await local(store, "restore a database from its own backup").salvage(folder)
    lines = [f"Saved {counted(found.places, 'place')} to {folder}"]
    if found.lost or found.missing:
        lost, missing = counted(found.lost, "place"), counted(found.missing, "line")
        lines.append(f"{lost} and {missing} are missing")
    return Answer({"folder": folder, **asdict(found)}, *lines)


Erased: TypeAlias = Annotated[
    str | None, typer.Option(metavar="FILE", help="Receipts that `erase` printed: leave these out.")
]
"""The option --erased."""


def receipts_of(path: str | None) -> list[ErasureReceipt]:
    """Read the receipts in a file; none if there is no file."""
    if path is None:
        return []
    text = Path(path).read_text(encoding="utf-8", errors="replace")
    found: list[ErasureReceipt] = []
    try:
        while text := text.lstrip():
            fields, end = json.JSONDecoder().raw_decode(text)
            text = text[end:]
            place, at = parse_place(fields["place"]), datetime.fromisoformat(fields["erased_at"])
            found.append(ErasureReceipt(place.scope, place.subject, at, count=None, bytes=0))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, CommandError):
        raise CommandError(
            f"Receipt {len(found) + 1} in {path!r} cannot be read. `erase` prints them so: "
            '{"place": "product/my-app/user/alice", "erased_at": "2026-01-31T12:00:00Z"}'
        ) from None
    return found


AnchorFile: TypeAlias = Annotated[
    str | None, typer.Option("--anchor", metavar="FILE", help="FOLDER.anchor by default.")
]


@command()
def backup(
    folder: Annotated[str, typer.Argument(metavar="FOLDER", help="Must not exist.")],
    anchor_file: AnchorFile = None,
) -> Answer:
    """Copy the store while others use it, check the copy, and write its anchor.

    Nobody waits. The copy of an encrypted store is encrypted. If the command was killed after the
    copy, repeat it: it writes the anchor of the copy.
    """
    options = GIVEN.get()
    _check_is_folder(options)
    path = anchor_file or f"{folder.rstrip('/')}.anchor"
    storage = storage_of(options)
    is_killed = has_store(folder) and not os.path.exists(path)  # before it wrote the anchor

    async def copy(store: Store) -> str:
        if is_killed:
            async with LocalFileMemoryProvider(folder, storage=storage) as copied:
                return await copied.anchor()
        return await local(store, _DATABASE).backup(folder)

    anchor = run(copy, storage=storage)
    write_whole(path, f"{anchor}\n")
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
    """Check a backup with its anchor, and replace --store by it, which no process may have open.

    Places that were erased since stay erased: --store knows them, or --erased names them.
    """
    options = GIVEN.get()
    _check_is_folder(options)
    target = options.location
    if not has_store(folder):
        raise CommandError(f"There is no backup in {folder!r}", ExitCode.NOTHING)
    path = anchor_file or f"{folder.rstrip('/')}.anchor"
    if not os.path.exists(path):
        raise CommandError(
            f"There is no anchor {path!r}: pass the one of this backup by --anchor. If it is lost, "
            "open the folder as a store, `verify` it, and take a new `anchor` of it",
            ExitCode.NOTHING,
        )
    anchor = read_anchor(path)
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


class _Finding(NamedTuple):
    """A problem and its remedy."""

    problem: str
    remedy: str
    is_damage: bool = True


@command()
def doctor() -> Answer:
    """Check a store place by place; report problems and the commands that repair them."""
    options, places = GIVEN.get(), list[Place]()
    findings: list[_Finding] = []

    async def examine(store: Store) -> None:
        if options.is_database:
            places.extend(info.place for info in await store.places())
            findings.extend(await _unlearnt(store))
            return
        places.extend(await store.list_places())
        for place in places:
            try:
                await store.entries(place.subject, place.scope)
                await store.load_all(place.subject, place.scope)
            except FactmemError as exc:
                remedy = "restore from a backup, or: salvage NEW_FOLDER"
                findings.append(_Finding(f"{place_name(place)}: {exc}", remedy))
        findings.extend(await _unlearnt(store))

    try:
        if not options.is_database:
            findings += _files_of(Path(options.location))
        run(examine)
    except (DecryptionError, CorruptJournalError) as exc:
        if isinstance(exc, DecryptionError) and not isinstance(exc, TamperedError):
            raise
        findings.append(_Finding(str(exc), "restore from a backup"))
    lines = [line for each in findings for line in (each.problem, f"  -> {each.remedy}")]
    listed = [{"problem": each.problem, "remedy": each.remedy} for each in findings]
    return Answer(
        {"places": len(places), "findings": listed},
        *lines,
        f"{counted(len(places), 'place')} checked, {counted(len(findings), 'finding')}",
        code=ExitCode.DAMAGED if any(each.is_damage for each in findings) else ExitCode.OK,
    )


async def _unlearnt(store: Store) -> list[_Finding]:
    """Return what became of conversations that were stored and not learnt."""
    state, found = await store.conversations.state(), list[_Finding]()
    if state.pending:
        since = f", since {time_words(state.oldest)}" if state.oldest else ""
        words = f"{counted(state.pending, 'conversation')} to be learnt{since}"
        found.append(_Finding(words, "learn MODULE:NAME shows why it fails", is_damage=False))
    if state.failed:
        words = f"{counted(state.failed, 'conversation')} given up"
        found.append(_Finding(words, "learn MODULE:NAME --retry", is_damage=False))
    return found


def _files_of(folder: Path) -> Iterator[_Finding]:
    """Yield the problems of the folder itself."""
    for path in (folder, folder / "facts.db"):
        if path.exists() and path.stat().st_mode & 0o077:
            mode = "700" if path.is_dir() else "600"
            remedy = f"chmod {mode} {path}"
            yield _Finding(f"{path} can be read by other users", remedy, is_damage=False)


_WIDTH = 40
_LISTED = 10
_MOST_DAYS = 31


@command()
async def stats(store: Store) -> Answer:
    """Count places, values and bytes, by place and by concept, and chart saves over time."""
    places = await store.places()
    values, saves = Counter[str](), Counter[str]()
    for info in places:
        for fact in await store.load_all(info.subject, info.scope):
            values[fact.concept.keyword] += len(fact.values)
        for entry in await store.entries(info.subject, info.scope):
            if entry.get("facts"):
                saves[entry["at"][:10]] += 1
    count, size = sum(info.count for info in places), sum(info.bytes for info in places)
    largest = sorted(places, key=lambda info: (-info.count, place_name(info.place)))[:_LISTED]
    named = ((place_name(info.place), info.count, info.bytes) for info in largest)
    return Answer(
        {
            "places": len(places),
            "values": count,
            "bytes": size,
            "saves": saves.total(),
            "concepts": dict(values.most_common()),
            "saves_by_day": dict(sorted(saves.items())),
        },
        f"{counted(len(places), 'place')}, {counted(count, 'value')}, {counted(size, 'byte')}",
        "",
        Table(("place", "values", "bytes"), named),
        "",
        Table(("concept", "values"), values.most_common(_LISTED)),
        "",
        _chart(saves),
    )


def _chart(saves: Counter[str]) -> Table:
    """Return a bar for each day, or for each month of a longer time."""
    growth = saves
    if len(saves) > _MOST_DAYS:
        growth = Counter[str]()
        for day, count in saves.items():
            growth[day[:7]] += count
    most = max(growth.values(), default=1)
    bars = (
        (when, count, "█" * max(1, round(count * _WIDTH / most)))
        for when, count in sorted(growth.items())
    )
    return Table(("saved", "entries", ""), bars)


async def _keys(store: Store) -> ProviderKeys:
    try:
        return store.keys
    except ValueError:
        await store.list_places(limit=1)  # of an encrypted store, its key is required
        raise CommandError(
            "The store is not encrypted and has no keys: export it, and import the bundle into a "
            "new store with --key-file"
        ) from None


async def _keys_answer(done: str, store: Store) -> Answer:
    """Return how many keys open the store now."""
    ids = await (await _keys(store)).ids()
    return Answer({"keys": ids}, f"{done}; the store opens with {counted(len(ids), 'key')}")


@command(group=keys)
async def list_(store: Store) -> Answer:
    """List the ids of the keys that open the store."""
    ids = await (await _keys(store)).ids()
    return Answer({"keys": ids}, *ids)


@command(group=keys, new_key=True)
async def add(store: Store, key: Key) -> Answer:
    """Add another key that opens the store."""
    await (await _keys(store)).add(key)
    return await _keys_answer("Added the key", store)


@command(group=keys, new_key=True, asks=True)
async def rotate(
    store: Store,
    key: Key,
    rewrite: Annotated[
        bool, typer.Option("--rewrite/--no-rewrite", help="Also re-encrypt every place.")
    ] = True,
) -> Answer:
    """Replace all keys with a new one and re-encrypt the store. Old keys stop working at once.

    Back up the new key first, and keep the old one until the command ends. After a crash, run it
    again.
    """
    confirm("Rotate the keys? Only the new key will open the store.")
    await (await _keys(store)).rotate(key, rewrite=rewrite)
    return await _keys_answer("Rotated the keys", store)


@command(group=keys, new_key=False, asks=True)
async def remove(store: Store, key: Key) -> Answer:
    """Remove a key.

    With this key and an old copy of the store, its holder can still open the store: use `rotate` to
    prevent that.
    """
    confirm("Remove the key?")
    await (await _keys(store)).remove(key)
    return await _keys_answer("Removed the key", store)


@command(group=keys)
def generate(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Must not exist.")],
) -> Answer:
    """Write a new random key to a file that only its owner can read."""
    text = f"{Key.generate().to_base64()}\n"
    if is_special(file):
        write_whole(file, text)
        return Answer({"file": file})
    path = os.path.realpath(os.path.expanduser(file))
    opened = os.open(path, os.O_RDWR | os.O_CREAT | ORDINARY, 0o600)
    with os.fdopen(opened, "r+") as target:
        try_lock(opened)  # of two commands one writes
        if target.read(1):  # an empty file is what a killed command has left
            raise FileExistsError(EEXIST, "This file exists and is kept", file)
        try:
            os.chmod(path, 0o600)
            target.write(text)
            target.flush()
            os.fsync(opened)
        except OSError:
            os.unlink(path)
            raise
    return Answer({"file": file}, f"Wrote a new key to {file}")
