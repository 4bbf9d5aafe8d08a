"""Opening of stores and keys from options.

`command` calls `run` for each command with a `store`; few commands open one themselves. A missing
folder is reported before a passphrase is asked for, and only commands with `creates` create a
store. A key comes from one named place and never from an argument, which other users could see in
the process list; nor may a URL have a password. The store is closed when the work ends, also after
an error.

A project file, `factmem.toml` or `[tool.factmem]` of pyproject.toml, has defaults of the options.
Objects of the application are named `module:NAME`: concepts, an embedder, a memory.
"""

import getpass
import os
import sys
import tomllib
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager, redirect_stdout
from importlib import import_module
from pathlib import Path
from traceback import extract_tb
from typing import Any, TypeAlias, TypeVar
from urllib.parse import parse_qsl, urlsplit

import anyio
from typing_extensions import TypeIs

from factmem._arguments import is_folder_name
from factmem._cli.options import GIVEN, Options
from factmem._cli.output import CommandError, ExitCode, is_terminal
from factmem.embedding.base import Embedder
from factmem.encryption.aes256gcm import Aes256GCMEncryptor
from factmem.encryption.key import Key
from factmem.errors import KeyRequiredError
from factmem.llm.base import ChatModel
from factmem.memory.agent_memory import AgentMemory
from factmem.models.facts import Concept, concepts_by_keyword
from factmem.models.profile import Profile
from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.providers.postgres import PostgresMemoryProvider
from factmem.providers.storages import EncryptedStorage, SimpleStorage, Storage

T = TypeVar("T")

Store: TypeAlias = LocalFileMemoryProvider | PostgresMemoryProvider
"""The stores that the command opens."""


def run(
    work: Callable[[Store], Awaitable[T]], *, creates: bool = False, storage: Storage | None = None
) -> T:
    """Open the store of the command's options, call `work` with it, and close it.

    See `open_store`.
    """
    store = open_store(GIVEN.get(), creates=creates, storage=storage)

    async def call() -> T:
        async with store:
            return await work(store)

    return anyio.run(call)


def check_revealed(options: Options, reveal: bool) -> None:
    """Check that values may be printed: those of an encrypted store only to a terminal."""
    if reveal or not options.is_encrypted or is_terminal():
        return
    if not options.passphrase:  # nobody types one for a refusal
        run(lambda store: store.list_places(limit=1))  # a missing store or a wrong key comes first
    raise CommandError(
        "The store is encrypted, and its values would be written unencrypted to a file or a pipe: "
        "pass --reveal to allow that",
        ExitCode.REFUSED,
    )


def open_store(options: Options, *, creates: bool = False, storage: Storage | None = None) -> Store:
    """Return the store of the options; with `creates` it may be a new one.

    `storage` is the result of `storage_of`: calling it again would ask for a passphrase again.
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
    return LocalFileMemoryProvider(location, storage=kept)


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
            "The key file is in the folder of the store, so that each copy of the folder has its "
            "key too: move it elsewhere, and rotate the key if the folder was copied"
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
    """Return the key of the options; None if there is none."""
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
    """Ask for a passphrase on the terminal, without echo; twice for a new one."""
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
    try:
        urlsplit(url)
    except ValueError:  # of an address in brackets
        raise CommandError("The URL of the store is not valid: postgresql://app@db1/app") from None
    # As libpq reads it, for which a # is a letter of a password.
    address, _, query = url.partition(":")[2].partition("?")
    names = {name for name, _ in parse_qsl(query)}
    if ":" in address.rpartition("@")[0] or names & {"password", "sslpassword"}:
        raise CommandError(
            "The URL contains a password, which other users of this machine can see in the process "
            "list: use PGPASSWORD, PGPASSFILE or a service file instead"
        )


def local(store: Store, instead: str) -> LocalFileMemoryProvider:
    """Return a store that is a folder."""
    if not isinstance(store, LocalFileMemoryProvider):
        raise CommandError(f"This command is for stores in local files: {instead}")
    return store


_PROJECT = ("store", "store-name", "place", "key-env", "key-file", "keyring", "embedder")
"""The options that a project file may have."""


def project_of(folder: Path) -> Options:
    """Return the options of a folder's project: the first file in it or in a folder above it."""
    for file in _files(folder):
        if not file.is_file():
            continue
        _check_owner(file)
        try:
            found: Any = tomllib.loads(file.read_text(encoding="utf-8"))
        except (ValueError, OSError) as exc:
            raise CommandError(f"{file} cannot be read: {exc}") from None
        except RecursionError:
            raise CommandError(f"{file} is nested too deeply") from None
        if file.name == "pyproject.toml":
            tools = found.get("tool")
            found = tools.get("factmem") if isinstance(tools, dict) else None
        if found is not None:
            return _checked(file, found)
    return Options()


def _files(folder: Path) -> Iterator[Path]:
    """Yield the possible files, up to the root of the repository or the home folder."""
    for each in (folder, *folder.parents):
        yield each / "factmem.toml"
        yield each / "pyproject.toml"
        if (each / ".git").exists() or each == Path.home():
            return


def _check_owner(file: Path) -> None:
    if hasattr(os, "getuid") and file.stat().st_uid not in {os.getuid(), 0}:
        raise CommandError(
            f"{file} belongs to another user, who could choose your store: remove it, or run the "
            "command in another folder",
            ExitCode.REFUSED,
        )


def _checked(file: Path, found: Any) -> Options:
    if not isinstance(found, dict):
        raise CommandError(f"{file}: [tool.factmem] must be a table")
    if wrong := sorted(found.keys() - {*_PROJECT}):
        raise CommandError(f"{file} may have {', '.join(_PROJECT)}, not {wrong[0]!r}")
    for name, value in found.items():
        kind = bool if name == "keyring" else str
        if type(value) is not kind:
            raise CommandError(f"{file}: {name} must be {'true' if kind is bool else 'a string'}")
    if "embedder" in found:  # no module: reading a file must not run code
        from factmem.embedding._named import EMBEDDERS  # slow import, and few files name one

        if found["embedder"].partition(":")[0] not in EMBEDDERS:
            raise CommandError(
                f"{file}: embedder must be one of {', '.join(EMBEDDERS)} and a model"
            )
    for name in {"store", "key-file"} & found.keys():
        found[name] = _path(file, found[name])
    return Options(**{name.replace("-", "_"): value for name, value in found.items()})


def _path(file: Path, path: str) -> str:
    return str(file.parent / Path(path).expanduser()) if is_folder_name(path) else path


def _load_object(
    option: str, named: str, example: str, is_right: Callable[[Any], TypeIs[T]], expected: str
) -> T:
    """Import the object of `module:NAME`."""
    module, _, name = named.partition(":")
    if not module or not name:
        raise CommandError(f"{option} must be module:NAME: {option} {example}")
    if "" not in sys.path:
        # The module is often in the current folder. It comes last, or else a file in that folder
        # could replace a module that factmem has yet to import, and would see its keys.
        sys.path.append("")
    try:
        with _printing_to_stderr():
            found: object = getattr(import_module(module), name)
    except (ImportError, AttributeError) as exc:
        raise CommandError(f"{option} {named}: {exc}") from None
    except (Exception, SystemExit) as exc:  # noqa: BLE001 - of the module; 0 would be a success
        *_, last = extract_tb(exc.__traceback__)
        where = f"{last.filename}, line {last.lineno}"
        raise CommandError(f"{option} {named}: {type(exc).__name__} in {where}") from None
    if not is_right(found):
        raise CommandError(f"{option} {named} must be {expected}, not {type(found).__name__}")
    return found


@contextmanager
def _printing_to_stderr() -> Generator[None]:
    """Keep out of the output what a module of the application prints, also by other programs."""
    sys.stdout.flush()
    with redirect_stdout(sys.stderr):
        kept = os.dup(1)
        os.dup2(2, 1)
        try:
            yield
        finally:
            os.dup2(kept, 1)
            os.close(kept)


def load_concepts(named: str | None) -> dict[str, Concept[Any, Any]]:
    """Import the concepts of `module:NAME`: one, a profile, or a list, tuple, set or dict."""
    if named is None:
        return {}
    found = _load_object(
        "--concepts", named, "my_app.memory:CONCEPTS", _are_concepts, "Concept objects or a list"
    )
    return concepts_by_keyword(_listed(found))


def _listed(found: Any) -> list[Any]:
    if isinstance(found, list | tuple | set | frozenset | dict):
        return [*(found.values() if isinstance(found, dict) else found)]
    return [found]


def _are_concepts(found: object) -> TypeIs[object]:
    return all(
        isinstance(each, Concept) or (isinstance(each, type) and issubclass(each, Profile))
        for each in _listed(found)
    )


def load_function(named: str) -> Callable[[Any], Any]:
    """Import the function of `module:NAME`."""
    return _load_object("MODULE:NAME", named, "my_app.memory:to_cents", callable, "a function")


def load_embedder(named: str | None) -> Embedder | None:
    """Return the embedder of `provider:model`, or import that of `module:NAME`."""
    if named is None:
        return None
    from factmem.embedding._named import EMBEDDERS, named_embedder  # slow import

    if named.partition(":")[0] in EMBEDDERS:
        return named_embedder(named)
    return _load_object("--embedder", named, "my_app.memory:EMBEDDER", _is_embedder, "an Embedder")


def load_model(named: str) -> ChatModel:
    """Return the chat model of `provider:model`, or import that of `module:NAME`."""
    if named.partition(":")[0] in ("openai", "ollama"):
        from factmem.llm.openai import named_chat_model  # slow import

        return named_chat_model(named)
    example = "openai:gpt-4o-mini or my_app.memory:MODEL"
    return _load_object("--model", named, example, _is_chat_model, "a ChatModel")


def load_memory(named: str) -> AgentMemory:
    """Import the memory of `module:NAME`."""
    return _load_object("MEMORY", named, "my_app.memory:MEMORY", _is_memory, "an AgentMemory")


def _is_embedder(found: object) -> TypeIs[Embedder]:
    return isinstance(found, Embedder)


def _is_chat_model(found: object) -> TypeIs[ChatModel]:
    return all(callable(getattr(found, name, None)) for name in ("respond", "extract"))


def _is_memory(found: object) -> TypeIs[AgentMemory]:
    return isinstance(found, AgentMemory)
