"""The commands of the group keys: list, add, rotate, remove."""

import os
from collections.abc import Awaitable, Callable
from errno import EEXIST
from typing import Annotated, TypeAlias

import typer

from factmem._cli.exits import CommandError
from factmem._cli.opening import Store, key_from, run
from factmem._cli.options import Json, Yes, confirm
from factmem._cli.output import counted, print_json, print_line
from factmem.encryption.key import Key
from factmem.providers import ProviderKeys

__all__ = ["app"]

app: typer.Typer = typer.Typer(
    name="keys", no_args_is_help=True, help="The keys of an encrypted store."
)
"""The commands of this module."""

Env: TypeAlias = Annotated[
    str | None,
    typer.Option("--key-env", metavar="NAME", help="The environment variable with the key."),
]
File: TypeAlias = Annotated[
    str | None, typer.Option("--key-file", metavar="PATH", help="The file with the key.")
]
Passphrase: TypeAlias = Annotated[
    bool, typer.Option("--passphrase", help="Ask for a passphrase on the terminal.")
]
KeyringEntry: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--keyring-entry", metavar="NAME", help="The entry with the key, of the service 'factmem'."
    ),
]


def _key_of_options(
    env: str | None, file: str | None, passphrase: bool, entry: str | None, *, is_new: bool
) -> Key:
    prompt = "New passphrase: " if is_new else "Passphrase of the key: "
    key = key_from(env, file, passphrase, entry, is_new=is_new, prompt=prompt)
    if key is None:
        raise CommandError("Pass a key: --key-env, --key-file, --passphrase or --keyring-entry")
    return key


def _keys(store: Store) -> ProviderKeys:
    try:
        return store.keys
    except ValueError:
        raise CommandError(
            "The store is not encrypted and has no keys: export it, and import the bundle into a "
            "new store with --key-file"
        ) from None


async def _ids(store: Store) -> list[str]:
    return await _keys(store).ids()


def _change(
    ctx: typer.Context,
    change: Callable[[ProviderKeys], Awaitable[object]],
    done: str,
    as_json: bool,
) -> None:
    """Change the keys, and print how many open the store now."""

    async def work(store: Store) -> list[str]:
        await change(_keys(store))
        return await _ids(store)

    ids = run(ctx, work)
    if as_json:
        print_json({"keys": ids})
    else:
        print_line(f"{done}; the store opens with {counted(len(ids), 'key')}")


@app.command("list")
def list_(ctx: typer.Context, as_json: Json = False) -> None:
    """List the ids of the keys that open the store."""
    ids = run(ctx, _ids)
    if as_json:
        print_json({"keys": ids})
        return
    for each in ids:
        print_line(each)


@app.command()
def add(
    ctx: typer.Context,
    env: Env = None,
    file: File = None,
    passphrase: Passphrase = False,
    keyring_entry: KeyringEntry = None,
    as_json: Json = False,
) -> None:
    """Add another key that opens the store."""
    key = _key_of_options(env, file, passphrase, keyring_entry, is_new=True)
    _change(ctx, lambda keys: keys.add(key), "Added the key", as_json)


@app.command()
def rotate(
    ctx: typer.Context,
    env: Env = None,
    file: File = None,
    passphrase: Passphrase = False,
    keyring_entry: KeyringEntry = None,
    rewrite: Annotated[
        bool, typer.Option("--rewrite/--no-rewrite", help="Also re-encrypt every place.")
    ] = True,
    as_json: Json = False,
    yes: Yes = False,
) -> None:
    """Replace all keys with a new one and re-encrypt the store. Old keys stop working at once.

    Back up the new key first, and keep the old one until the command ends. After a crash, run it
    again.
    """
    key = _key_of_options(env, file, passphrase, keyring_entry, is_new=True)
    confirm("Rotate the keys? Only the new key will open the store.", yes)
    _change(ctx, lambda keys: keys.rotate(key, rewrite=rewrite), "Rotated the keys", as_json)


@app.command()
def remove(
    ctx: typer.Context,
    env: Env = None,
    file: File = None,
    passphrase: Passphrase = False,
    keyring_entry: KeyringEntry = None,
    as_json: Json = False,
    yes: Yes = False,
) -> None:
    """Remove a key.

    With this key and an old copy of the store, its holder can still open the store: use `rotate` to
    prevent that.
    """
    key = _key_of_options(env, file, passphrase, keyring_entry, is_new=False)
    confirm("Remove the key?", yes)
    _change(ctx, lambda keys: keys.remove(key), "Removed the key", as_json)


@app.command()
def generate(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Must not exist.")],
    as_json: Json = False,
) -> None:
    """Write a new random key to a file that only its owner can read."""
    opened = os.open(file, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
    with os.fdopen(opened, "r+") as target:
        if target.read(1):  # an empty file is what a killed command has left
            raise FileExistsError(EEXIST, "This file exists and is kept", file)
        os.chmod(file, 0o600)
        target.write(f"{Key.generate().to_base64()}\n")
    if as_json:
        print_json({"file": file})
    else:
        print_line(f"Wrote a new key to {file}")
