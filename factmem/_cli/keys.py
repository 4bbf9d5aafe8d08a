"""The commands of the group keys: list, add, rotate, remove, generate."""

import os
from errno import EEXIST
from typing import Annotated

import typer

from factmem._cli.commands import command, keys
from factmem._cli.exits import CommandError
from factmem._cli.opening import Store
from factmem._cli.options import confirm
from factmem._cli.output import Answer, counted
from factmem._concurrency.file_lock import ORDINARY, try_lock
from factmem.encryption.key import Key
from factmem.providers import ProviderKeys
from factmem.transfer._outputs import is_special, write_whole


async def _keys(store: Store) -> ProviderKeys:
    try:
        return store.keys
    except ValueError:
        await store.list_places(limit=1)  # of an encrypted store, its key is required
        raise CommandError(
            "The store is not encrypted and has no keys: export it, and import the bundle into a "
            "new store with --key-file"
        ) from None


async def _answer(done: str, store: Store) -> Answer:
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
    return await _answer("Added the key", store)


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
    return await _answer("Rotated the keys", store)


@command(group=keys, new_key=False, asks=True)
async def remove(store: Store, key: Key) -> Answer:
    """Remove a key.

    With this key and an old copy of the store, its holder can still open the store: use `rotate` to
    prevent that.
    """
    confirm("Remove the key?")
    await (await _keys(store)).remove(key)
    return await _answer("Removed the key", store)


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
