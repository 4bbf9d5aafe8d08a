"""Stores and keys from options."""

import getpass
import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeAlias, TypeVar
from urllib.parse import parse_qsl, urlsplit

import anyio
import typer

from factmem.cli.exits import CommandError, ExitCode
from factmem.cli.options import Options, options_of
from factmem.models.places import Identity, Place
from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.providers.postgres import PostgresMemoryProvider
from factmem.storage.base import JournalName, Storage
from factmem.storage.encrypted import EncryptedStorage
from factmem.storage.encryption.aes256gcm import Aes256GCMEncryptor
from factmem.storage.encryption.key import Key
from factmem.storage.simple import SimpleStorage

__all__ = [
    "Store",
    "ask_passphrase",
    "has_store",
    "key_from",
    "local",
    "opened",
    "places_of",
    "run",
    "storage_of",
]

Store: TypeAlias = LocalFileMemoryProvider | PostgresMemoryProvider
"""The stores that the command opens."""

T = TypeVar("T")


def run(
    ctx: typer.Context,
    work: Callable[[Store], Awaitable[T]],
    *,
    creates: bool = False,
    storage: Storage | None = None,
) -> T:
    """Open the store, call `work` with it, and close it.

    Raises:
        CommandError: There is no store, and `creates` is False.
    """
    store = opened(options_of(ctx), creates=creates, storage=storage)

    async def call() -> T:
        async with store:
            return await work(store)

    return anyio.run(call)


def opened(options: Options, *, creates: bool = False, storage: Storage | None = None) -> Store:
    """Return the store that the options name.

    Args:
        options: The options before the command.
        creates: Whether a store that is not there is created.
        storage: What `storage_of` returned; a second call would ask for a passphrase again.

    Raises:
        CommandError: There is no store, and `creates` is False.
    """
    location = options.location
    if options.is_database:
        _check_no_password(location)
        return PostgresMemoryProvider(
            location, store=options.store_name, encryption=_encryption(options, is_new=False)
        )
    is_new = not has_store(location)
    if is_new and not creates:
        raise CommandError(
            f"There is no store in {location!r}: `set` and `import` create one", ExitCode.NOTHING
        )
    kept = storage or storage_of(options, is_new=is_new)
    return LocalFileMemoryProvider(location, storage=kept)


def places_of(options: Options, storage: Storage) -> list[Place]:
    """Return the places of a local store by their files, without reading these.

    Raises:
        CommandError: There is no store.
    """
    if not has_store(options.location):
        raise CommandError(f"There is no store in {options.location!r}", ExitCode.NOTHING)
    journals = storage.open(Path(options.location))
    try:
        names = journals.names() if journals.exists() else []
    finally:
        journals.close()
    return [Place.of_identity(_identity(name)) for name in names]


def _identity(name: JournalName) -> Identity:
    kind, scope, subject, entity = name
    assert kind is not None and scope is not None and subject is not None  # noqa: S101, PT018
    return kind, scope, subject, entity


def _check_key(options: Options) -> None:
    """Raise where an encrypted store has no key, in the words of the command line."""
    try:
        manifest = json.loads((Path(options.location) / "factmem.json").read_bytes())
    except (OSError, ValueError):
        return  # opening the store raises what is wrong
    is_sealed = isinstance(manifest, dict) and manifest.get("mode") != "plain"
    if is_sealed and not options.is_encrypted:
        raise CommandError(
            f"The store in {options.location!r} is encrypted: pass --key-env, --key-file, "
            f"--passphrase or --keyring before the command",
            ExitCode.KEY,
        )


def has_store(folder: str) -> bool:
    """Whether a folder holds a store, be it a damaged one."""
    return any((Path(folder) / name).exists() for name in ("factmem.json", "journals"))


def storage_of(options: Options, *, is_new: bool = False) -> Storage:
    """Return how the files of a local store are kept, by the key options."""
    _check_key(options)
    encryption = _encryption(options, is_new=is_new)
    return SimpleStorage() if encryption is None else EncryptedStorage(encryption)


def _encryption(options: Options, *, is_new: bool) -> Aes256GCMEncryptor | None:
    key = key_from(
        options.key_env,
        options.key_file,
        options.passphrase,
        _keyring_entry(options) if options.keyring else None,
        is_new=is_new,
    )
    return None if key is None else Aes256GCMEncryptor(key)


def key_from(
    env: str | None,
    file: str | None,
    passphrase: bool,
    keyring_entry: str | None,
    *,
    is_new: bool,
    prompt: str = "Passphrase: ",
) -> Key | None:
    """Return the key that options name; None where they name none.

    Raises:
        CommandError: They name more than one, or a passphrase is asked for without a terminal.
    """
    if sum(map(bool, (env, file, passphrase, keyring_entry))) > 1:
        raise CommandError("Pass one key: an environment variable, a file, a passphrase or keyring")
    if env:
        return Key.from_env(env)
    if file:
        return Key.from_file(file)
    if keyring_entry:
        return Key.from_keyring("factmem", keyring_entry, create=is_new)
    if passphrase:
        return Key.from_passphrase(ask_passphrase(prompt, twice=is_new))
    return None


def ask_passphrase(prompt: str, *, twice: bool) -> str:
    """Ask on the terminal, without echo; a new passphrase twice.

    Raises:
        CommandError: There is no terminal, or the two differ.
    """
    try:
        os.close(os.open("/dev/tty", os.O_RDWR))
    except OSError:  # getpass would read stdin instead, and echo it
        raise CommandError(
            "--passphrase asks on the terminal, and there is none: use --key-env or --key-file",
            ExitCode.REFUSED,
        ) from None
    given = getpass.getpass(prompt)
    if twice and getpass.getpass("Once more: ") != given:
        raise CommandError("The two passphrases differ")
    return given


def _keyring_entry(options: Options) -> str:
    """Return the name of the store's entry in the keyring, the same from any folder."""
    if options.is_database:
        return f"{options.location} {options.store_name}"
    return os.path.realpath(options.location)


def _check_no_password(url: str) -> None:
    parts = urlsplit(url)
    if parts.password is not None or "password" in dict(parse_qsl(parts.query)):
        raise CommandError(
            "The URL holds a password, which other users of the machine can see in the list of "
            "processes: use PGPASSWORD, PGPASSFILE or a service file instead"
        )


def local(store: Store, instead: str) -> LocalFileMemoryProvider:
    """Return a store if it is a folder.

    Raises:
        CommandError: It is in a database.
    """
    if not isinstance(store, LocalFileMemoryProvider):
        raise CommandError(f"This command is for stores in local files: {instead}")
    return store
