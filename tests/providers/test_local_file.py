"""The store in local files: the contract, plain and encrypted, and behaviour of files."""

# ruff: noqa: ASYNC240 - the tests look at the disk themselves

import threading
from base64 import urlsafe_b64encode
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import pytest

from factmem.encryption.key import Key
from factmem.errors import StorageError
from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.providers.storages import Storage
from factmem.providers.store import FactStore
from factmem.testing._facts import AGENT, LANGUAGES, PERSON, THEME, languages, theme
from factmem.testing.clock import START, SettableClock
from tests.contracts.stores import WholeStoreContract
from tests.doors import watched
from tests.providers.local_stores import ALICE, BOB, current, sealed
from tests.tables import table


class TestPlain(WholeStoreContract):
    """A plain store passes the contract."""

    @pytest.fixture
    def provider(self, root: Path, clock: SettableClock) -> FactStore:
        return LocalFileMemoryProvider(root, clock=clock)

    @pytest.fixture
    def second(self, root: Path, clock: SettableClock) -> FactStore:
        return LocalFileMemoryProvider(root, clock=clock)


class TestEncrypted(WholeStoreContract):
    """An encrypted store passes the contract."""

    @pytest.fixture
    def provider(self, root: Path, clock: SettableClock) -> FactStore:
        storage = sealed()
        return LocalFileMemoryProvider(root, storage=storage, clock=clock)

    @pytest.fixture
    def second(self, root: Path, clock: SettableClock) -> FactStore:
        storage = sealed()
        return LocalFileMemoryProvider(root, storage=storage, clock=clock)


ANCHOR = urlsafe_b64encode(
    b'{"anchor":1,"store":"%b","taken":1,"places":{}}' % (b"ab" * 16)
).decode()
"""An anchor of a store without places."""


Call = Callable[[LocalFileMemoryProvider], Awaitable[object]]

QUIET: dict[str, Call] = {
    "load": lambda store: store.load(THEME, ALICE, AGENT),
    "load as_of": lambda store: store.load(THEME, ALICE, AGENT, as_of=START),
    "load_all": lambda store: store.load_all(ALICE, AGENT),
    "load_by_description": lambda store: store.load_by_description("theme", ALICE, AGENT),
    "history": lambda store: store.history(THEME, ALICE, AGENT),
    "forget": lambda store: store.forget(ALICE, AGENT, concept=THEME),
    "purge": lambda store: store.forget(ALICE, AGENT, concept=THEME, purge=True),
    "erase": lambda store: store.erase(ALICE, AGENT),
    "places": lambda store: store.places(),
    "entries": lambda store: store.entries(ALICE, AGENT),
    "replay": lambda store: store.replay([], ALICE, AGENT),
    "save_many": lambda store: store.save_many([], ALICE, AGENT),
    "compact": lambda store: store.compact(ALICE, AGENT),
    "anchor": lambda store: store.anchor(),
    "aclose": lambda store: store.aclose(),
}
"""Calls that are no saves; on a store that does not exist they find nothing."""

LOUD: dict[str, tuple[Call, type[Exception], str]] = {
    "verify": (lambda store: store.verify(ANCHOR), StorageError, "not the one that"),
    "unbound": (lambda store: store.save(theme("dark"), PERSON, AGENT), ValueError, r"\.of\("),
    "surrogate": (lambda store: store.save(theme("\ud800"), ALICE, AGENT), ValueError, "theme"),
}
"""Operations that fail on a store that does not exist, and their messages."""


@pytest.mark.parametrize("call", [call for call in QUIET if call != "erase"])
async def test_nothing_is_created_before_the_first_save(root: Path, call: str) -> None:
    """Only an erasure, which is counted, creates files; the parent folder is not created either."""
    await QUIET[call](LocalFileMemoryProvider(root))

    assert not root.parent.exists()


@pytest.mark.parametrize("call", LOUD)
async def test_a_refused_call_creates_nothing(root: Path, call: str) -> None:
    """There is no folder, no lock and no database."""
    act, error, message = LOUD[call]

    with pytest.raises(error, match=message):
        await act(LocalFileMemoryProvider(root))

    assert not root.parent.exists()


@pytest.mark.parametrize("call", ["load", "load_all", "history", "forget", "places", "anchor"])
async def test_a_root_that_is_a_file_raises(root: Path, call: str) -> None:
    """The error says what to do, and the file does not change."""
    root.parent.mkdir()
    root.write_text("my diary")
    store = LocalFileMemoryProvider(root)

    with pytest.raises(ValueError, match="is a file: pass the path of a folder"):
        await store.save(theme("dark"), ALICE, AGENT)
    with pytest.raises(ValueError, match="is a file: pass the path of a folder"):
        await QUIET[call](store)

    assert root.read_text() == "my diary"


CLOSED: dict[str, Call] = {
    **QUIET,
    "save": lambda store: store.save(theme("dark"), ALICE, AGENT),
    "verify": lambda store: store.verify(ANCHOR),
    "keys": lambda store: store.keys.ids(),
    "create": lambda store: store.create(),
    "ping": lambda store: store.ping(),
}
del CLOSED["aclose"]


@table("call", CLOSED.values(), ids=CLOSED)
async def test_a_closed_store_raises(root: Path, storage: Storage, call: Call) -> None:
    """Every call raises an error that says what to do; closing again does not."""
    store = LocalFileMemoryProvider(root, storage=storage)
    await store.save(theme("dark"), ALICE, AGENT)
    await store.aclose()
    await store.aclose()

    with pytest.raises(ValueError, match="is closed: make a new one"):
        await call(store)
    with pytest.raises(ValueError, match="is closed: make a new one"):
        async with store:
            pass


async def test_closing_waits_for_started_saves(root: Path, storage: Storage) -> None:
    """A save that started before is acknowledged and stored; a later one raises."""
    store = LocalFileMemoryProvider(root, storage=storage)
    saved: list[str] = []
    refused: list[str] = []

    async def save(value: str) -> None:
        try:
            await store.save(languages(value), ALICE, AGENT)
        except ValueError:
            refused.append(value)
        else:
            saved.append(value)

    async with anyio.create_task_group() as tasks:
        for number in range(40):
            tasks.start_soon(save, f"v{number}")
            if number == 19:
                await anyio.lowlevel.checkpoint()
                tasks.start_soon(store.aclose)
                await anyio.lowlevel.checkpoint()

    assert len(saved) >= 20
    assert len(saved) + len(refused) == 40
    assert sorted(await current(LocalFileMemoryProvider(root, storage=storage))) == sorted(saved)


def test_the_repr_shows_no_key(root: Path) -> None:
    """This holds for the store and its storage."""
    key = Key.generate()
    storage = sealed(key)

    told = repr(LocalFileMemoryProvider(root, storage=storage)) + repr(storage)

    assert key.to_base64() not in told
    assert str(root) in told


@pytest.mark.parametrize("act", ["save", "purge", "create"])
async def test_a_change_during_a_read(root: Path, storage: Storage, act: str) -> None:
    """Its snapshot is older than what this process knows of the place by then: no false alarm."""
    store = LocalFileMemoryProvider(root, storage=storage)
    await store.save(languages("java", "c"), BOB if act == "create" else ALICE, AGENT)
    await current(store)
    acts: dict[str, Callable[[], Awaitable[object]]] = {
        "save": lambda: store.save(languages("rust"), ALICE, AGENT),
        "purge": lambda: store.forget(ALICE, AGENT, concept=LANGUAGES, value="c", purge=True),
        "create": lambda: store.save(languages("rust"), ALICE, AGENT),
    }
    todo = [acts[act]]

    def look(sql: str) -> None:
        if "SELECT place, names" in sql and todo:  # of `places`, after its snapshot began
            thread = threading.Thread(target=anyio.run, args=(todo.pop(),))
            thread.start()
            thread.join()

    wanted = {"save": ["java", "c", "rust"], "purge": ["java"], "create": ["rust"]}[act]
    with watched(look):
        other = LocalFileMemoryProvider(root, storage=storage)
        await other.save(theme("dark"), BOB, AGENT)
        await store.aclose()
        store = LocalFileMemoryProvider(root, storage=storage)
        await current(store)
        await store.places()
        assert not todo
        for each in (store, other):
            assert await current(each) == wanted
