"""Every public async method has a synchronous twin with the same signature, types and docstring."""

import ast
import inspect
from collections.abc import Iterable
from datetime import UTC, datetime
from inspect import getattr_static
from pathlib import Path
from typing import Any

import pytest

import factmem
from factmem import (
    Aes256GCMEncryptor,
    AgentMemory,
    Concept,
    EncryptedStorage,
    InMemoryProvider,
    Key,
    LocalFileMemoryProvider,
    MemoryScope,
    MemoryScopesProfile,
    MemorySubject,
    Place,
    SingleFact,
)
from factmem.memory import MemoryContents, MemoryDocuments, MemoryTool
from factmem.providers.no_memory import NoMemory
from factmem.providers.postgres import PostgresMemoryProvider
from factmem.providers.provider import AgentMemoryProvider
from factmem.providers.storages import ProviderKeys
from factmem.providers.store import FactStore
from factmem.sync import LocalStoreSync, MemorySync, PostgresStoreSync, StoreSync
from factmem.sync._contents import ContentsSync
from factmem.sync._documents import DocumentsSync, ToolSync
from factmem.sync._sql_stores import KeysSync
from factmem.sync.stores import ProviderSync
from tests.sync.generate import FILES, ROOM, left_out_of, made
from tests.tables import table

USER = MemorySubject("user", "The person the agent talks to", 1, per_entity=True)
ALICE = USER.of("alice")
DESK = MemoryScope.Agent("desk")
EDITOR = Concept("editor", "The editor that the user prefers")

TWINS: dict[type, type] = {
    AgentMemory: MemorySync,
    MemoryContents: ContentsSync,
    MemoryDocuments: DocumentsSync,
    MemoryTool: ToolSync,
    AgentMemoryProvider: ProviderSync,
    FactStore: StoreSync,
    NoMemory: StoreSync,
    InMemoryProvider: StoreSync,
    LocalFileMemoryProvider: LocalStoreSync,
    PostgresMemoryProvider: PostgresStoreSync,
    ProviderKeys: KeysSync,
}


def _public(owner: type) -> list[str]:
    """The public names, without those that have no twin, and without class methods.

    A store's conversations are reached through a memory.
    """
    names = [name for name in dir(owner) if not name.startswith("_")]
    names = [name for name in names if name not in left_out_of(owner)]
    names = [name for name in names if owner is AgentMemory or name != "conversations"]
    return [name for name in names if not isinstance(getattr_static(owner, name), classmethod)]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_files_are_current(file: Any) -> None:
    """If it fails, the async classes changed or a file was edited: run `make twins`."""
    written = ast.parse((ROOM / f"{file.name}.py").read_text())
    fresh = ast.parse(made(file))

    assert _comparable(written) == _comparable(fresh), "not current: run `make twins`"


def _comparable(tree: ast.Module) -> list[str]:
    """A module without the formatting of its imports and docstrings."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            node.value = inspect.cleandoc(node.value)
    imports = sorted(
        f"{node.module}.{alias.name}"
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    )
    return imports + [ast.dump(node) for node in tree.body if not isinstance(node, ast.ImportFrom)]


@table("owner", TWINS, ids=lambda owner: owner.__name__)
def test_every_public_name_has_a_twin(owner: type) -> None:
    missing = [name for name in _public(owner) if not hasattr(TWINS[owner], name)]

    assert missing == []


def test_a_missing_twin_is_noticed() -> None:
    class Grown(MemoryContents):
        async def shrink(self) -> None: ...

    assert [name for name in _public(Grown) if not hasattr(ContentsSync, name)] == ["shrink"]


def _memory(provider: Any, **options: Any) -> MemorySync:
    profile = MemoryScopesProfile(agent="desk")
    return MemorySync(AgentMemory(provider, scopes=profile, subjects=[ALICE], **options))


def test_any_number_of_arguments_reaches_the_async_method() -> None:
    """Levels of an entity matter most: without them a user's view would be the tenant's."""
    store = InMemoryProvider()
    profile = MemoryScopesProfile(agent="desk")
    memory = MemorySync(AgentMemory(store, scopes=profile, subjects=[USER]))
    alice = memory.of("acme", "alice")
    assert alice.subjects == (USER.of("acme", "alice"),)

    alice.store.save(SingleFact(EDITOR, "vim"), USER.of("acme", "alice"), DESK)
    [record] = alice.contents.records()
    assert alice.contents.delete(record.fact.id) == 1


def _values(facts: Iterable[Any]) -> list[object]:
    return [value for fact in facts for value in fact.values]


def test_a_program_without_await(tmp_path: Path) -> None:
    with LocalStoreSync(LocalFileMemoryProvider(tmp_path)) as store:
        memory = _memory(store.wrapped)
        memory.store.save(SingleFact(EDITOR, "vim"), ALICE, DESK)

        assert _values(memory.current()) == ["vim"]
        assert _values(memory.provider.load_all(ALICE, DESK)) == ["vim"]
        assert _values(match.fact for match in memory.recall("editor")) == ["vim"]
        assert "vim" in memory.tools()[0].call({"query": "editor"})
        assert memory.view(read_only=True).boundary.is_read_only
        assert memory.contents.tree().count == 1
        assert memory.contents.forget(concept=EDITOR) == 1
        assert store.compact(ALICE, DESK) > 0
        store.verify(store.anchor())
    with pytest.raises(ValueError, match="closed"):
        store.load_all(ALICE, DESK)


def test_keys_of_an_encrypted_store(tmp_path: Path) -> None:
    first, second = Key.generate(), Key.generate()
    storage = EncryptedStorage(Aes256GCMEncryptor(first))
    with LocalStoreSync(LocalFileMemoryProvider(tmp_path, storage=storage)) as store:
        store.save(SingleFact(EDITOR, "vim"), ALICE, DESK)
        assert len(store.keys.ids()) == 1
        store.keys.add(second)
        assert len(store.keys.ids()) == 2


def test_errors_are_raised_unchanged() -> None:
    with pytest.raises(factmem.UnboundSubjectError):
        _memory(InMemoryProvider()).view(subjects=[USER]).current()
    with pytest.raises(TypeError, match="memory must be an AgentMemory, not InMemoryProvider"):
        MemorySync(InMemoryProvider())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="store must have save"):
        StoreSync("folder")  # type: ignore[type-var]


def test_a_watch_yields_changes_without_await(tmp_path: Path) -> None:
    """As `async for` does; the next look is taken when it is asked for."""
    with LocalStoreSync(LocalFileMemoryProvider(tmp_path)) as store:
        place = Place(DESK, ALICE)
        watched = store.watch([place], since=datetime(2020, 1, 1, tzinfo=UTC))
        store.save(SingleFact(EDITOR, "dark"), ALICE, DESK)
        assert [fact.values[0] for fact in next(watched).added] == ["dark"]
        store.save(SingleFact(EDITOR, "light"), ALICE, DESK)
        assert [fact.values[0] for fact in next(watched).added] == ["light"]
        watched.close()
