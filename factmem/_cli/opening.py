"""Opening of stores and keys from options.

`command` calls `run` for each command with a `store`; few commands open one themselves. A missing
folder is reported before a passphrase is asked for, and only commands with `creates` create a
store. A key comes from one named place and never from an argument, which other users could see in
the process list; nor may a URL have a password. The store is closed when the work ends, also after
an error.
"""

import getpass
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeAlias, TypeVar
from urllib.parse import parse_qsl, urlsplit

import anyio

from factmem._cli.exits import CommandError, ExitCode
from factmem._cli.options import GIVEN, Options
from factmem.encryption.aes256gcm import Aes256GCMEncryptor
from factmem.encryption.key import Key
from factmem.errors import KeyRequiredError
from factmem.providers._searched_files import SearchedFileProvider
from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.providers.postgres import PostgresMemoryProvider
from factmem.providers.storages import EncryptedStorage, SimpleStorage, Storage

Store: TypeAlias = LocalFileMemoryProvider | PostgresMemoryProvider
"""The stores that the command opens."""

T = TypeVar("T")


def run(
    work: Callable[[Store], Awaitable[T]],
    *,
    creates: bool = False,
    storage: Storage | None = None,
    is_searched: bool = False,
) -> T:
    """Open the store of the command's options, call `work` with it, and close it; see `open_store`."""
    store = open_store(GIVEN.get(), creates=creates, storage=storage, is_searched=is_searched)

    async def call() -> T:
        async with store:
            return await work(store)

    return anyio.run(call)


def open_store(
    options: Options,
    *,
    creates: bool = False,
    storage: Storage | None = None,
    is_searched: bool = False,
) -> Store:
    """Return the store of the options.

    Args:
        options: The options before the command.
        creates: Whether to create a store that does not exist.
        storage: The result of `storage_of`; calling it again would ask for a passphrase again.
        is_searched: Whether the work is one recall by words, for which indexes are stored.

    Raises:
        CommandError: There is no store, and `creates` is False.
    """
    location = options.location
    if options.is_database:
        _check_no_password(location)
        return PostgresMemoryProvider(
            location,
            store=options.store_name,
            encryption=_encryption(options, is_new=False),
            must_exist=not creates,
        )
    is_new = not has_store(location)
    if is_new and not creates:
        raise CommandError(
            f"There is no store in {location!r}: `set` and `import` create one", ExitCode.NOTHING
        )
    kept = storage or storage_of(options, is_new=is_new)
    if not is_searched:
        return LocalFileMemoryProvider(location, storage=kept)
    from factmem.recall._lexical.analysis import default_stem  # slow import, for one command

    return SearchedFileProvider(location, storage=kept, stems=default_stem().__name__)


def has_store(folder: str) -> bool:
    """Return whether a folder contains a store, even a damaged one."""
    return (Path(folder) / "facts.db").exists()


def storage_of(options: Options, *, is_new: bool = False) -> Storage:
    """Return the storage of a local store: encrypted if a key option is set."""
    encryption = _encryption(options, is_new=is_new)
    return SimpleStorage() if encryption is None else EncryptedStorage(encryption)


def _encryption(options: Options, *, is_new: bool) -> Aes256GCMEncryptor | None:
    # The entry of a folder does not depend on the current folder.
    entry = (
        f"{options.location} {options.store_name}"
        if options.is_database
        else os.path.realpath(options.location)
    )
    file = options.key_file
    if file and not options.is_database and Path(entry) in Path(file).resolve().parents:
        raise CommandError(
            "The key file is in the folder of the store, so that each copy of the folder has its key "
            "too: move it elsewhere, and rotate the key if the folder was copied"
        )
    named = options.key_env, file, options.passphrase
    key = key_from(*named, entry if options.keyring else None, is_new=is_new)
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
    """Return the key of the options; None if there is none.

    Raises:
        CommandError: There is more than one key, not the one that is named, or no terminal to ask for
            a passphrase.
    """
    if sum(map(bool, (env, file, passphrase, keyring_entry))) > 1:
        raise CommandError("Pass only one key: a variable, a file, a passphrase or a keyring")
    try:
        if env:
            return Key.from_env(env)
        if file:
            return Key.from_file(file)
        if keyring_entry:
            return Key.from_keyring("factmem", keyring_entry, create=is_new)
    except KeyRequiredError as exc:  # the message of others says to pass a key
        raise CommandError(str(exc), ExitCode.KEY) from None
    if passphrase:
        return Key.from_passphrase(ask_passphrase(prompt, twice=is_new))
    return None


def ask_passphrase(prompt: str, *, twice: bool) -> str:
    """Ask for a passphrase on the terminal, without echo; twice for a new one.

    Raises:
        CommandError: There is no terminal, or the two differ.
    """
    try:
        os.close(os.open("/dev/tty", os.O_RDWR))
    except OSError:  # getpass would read from stdin, with echo
        raise CommandError(
            "--passphrase needs a terminal: use --key-env or --key-file without one",
            ExitCode.REFUSED,
        ) from None
    given = getpass.getpass(prompt)
    if twice and getpass.getpass("Repeat it: ") != given:
        raise CommandError("The two passphrases differ")
    return given


def _check_no_password(url: str) -> None:
    parts = urlsplit(url)
    if parts.password is not None or "password" in dict(parse_qsl(parts.query)):
        raise CommandError(
            "The URL contains a password, which other users of this machine can see in the process "
            "list: use PGPASSWORD, PGPASSFILE or a service file instead"
        )


def local(store: Store, instead: str) -> LocalFileMemoryProvider:
    """Return a store that is a folder.

    Raises:
        CommandError: The store is in a database.
    """
    if not isinstance(store, LocalFileMemoryProvider):
        raise CommandError(f"This command is for stores in local files: {instead}")
    return store
