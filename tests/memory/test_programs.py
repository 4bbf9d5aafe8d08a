"""Documented programs on every kind of store: in memory, files and PostgreSQL, plain and encrypted.

A program whose fence has a name, ```python {every_store="instructions"}, opens an
`InMemoryProvider()`, or a `LocalFileMemoryProvider(folder)` with or without storage. Here it runs
with each kind in its place and prints the same.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any
from uuid import uuid4

import pytest

import factmem
from factmem import (
    Aes256GCMEncryptor,
    EncryptedStorage,
    InMemoryProvider,
    Key,
    LocalFileMemoryProvider,
)
from factmem.providers.postgres import PostgresMemoryProvider
from tests.postgres.cluster import Cluster
from tests.test_docs import PAGES, Block, blocks_of, run_block

PROGRAMS: dict[str, Block] = {
    block.settings["every_store"]: block
    for page in PAGES
    for block in blocks_of(page)
    if "every_store" in block.settings
}

KINDS = ["memory", "plain", "encrypted", "postgres", "postgres-encrypted"]

MakeStore = Callable[..., Any]


@pytest.fixture(params=KINDS)
def make_store(request: pytest.FixtureRequest, tmp_path: Path) -> MakeStore:
    """Return a function that takes what both constructors take, and makes a store of one kind.

    A program that opens a folder twice gets the same facts twice.
    """
    kind: str = request.param
    encryptor = Aes256GCMEncryptor(Key.generate())
    made: dict[str, Any] = {}

    def make(folder: object = None, **options: Any) -> Any:
        given = {name: options[name] for name in ("clock", "limit") if name in options}
        name = str(folder if folder is not None else uuid4().hex)
        if kind == "memory":
            return made.setdefault(name, InMemoryProvider(**given))
        if kind in {"plain", "encrypted"}:
            storage = EncryptedStorage(encryptor) if kind == "encrypted" else None
            return LocalFileMemoryProvider(tmp_path / name, storage=storage, **given)
        cluster: Cluster = request.getfixturevalue("cluster")
        sealed = encryptor if kind == "postgres-encrypted" else None
        store = made.setdefault(name, uuid4().hex)
        return PostgresMemoryProvider(cluster.dsn(), store=store, encryption=sealed, **given)

    return make


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_a_program_prints_the_same_on_every_store(
    name: str, make_store: MakeStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    block = PROGRAMS[name]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(factmem, "InMemoryProvider", make_store, raising=False)
    monkeypatch.setattr(factmem, "LocalFileMemoryProvider", make_store, raising=False)
    module = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", module)

    assert run_block(block, module) == block.expected
