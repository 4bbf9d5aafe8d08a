"""Documented programs on every kind of store: in memory, files and PostgreSQL, plain and encrypted.

A program whose fence has a name, ```python {every_store="instructions"}, opens an
`InMemoryProvider()`, or a `LocalFileMemoryProvider(folder)` with or without storage. Here it runs
with each kind in its place and prints the same; in memory only if it opens the store once.
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
from factmem.providers import local_file
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


NUMBERS = {
    "imports of another library": "coming-from",
    "instructions": "instructions",
    "users, shared places, a whole tenant": "users",
    "web services": "web-service",
    "three lines to start": "open",
}
"""The feature that each program documents."""


def test_every_feature_has_a_program() -> None:
    assert set(NUMBERS.values()) == set(PROGRAMS)


CASES = [
    pytest.param(name, kind, id=f"{name}-{kind}")
    for name, block in sorted(PROGRAMS.items())
    for kind in KINDS
    if kind != "memory" or "reopens" not in block.settings
]


@pytest.fixture
def make_store(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> MakeStore:
    """Return a function that takes what both constructors take, and makes a store of one kind.

    A program that opens a folder again gets what it saved there. In memory nothing is left.
    """
    encryptor = Aes256GCMEncryptor(Key.generate())
    made: dict[str, str] = {}

    def make(folder: object = None, **options: Any) -> Any:
        given = {name: options[name] for name in ("clock", "limit") if name in options}
        name = str(folder if folder is not None else uuid4().hex)
        if kind == "memory":
            return InMemoryProvider(**given)
        if kind in {"plain", "encrypted"}:
            storage = EncryptedStorage(encryptor) if kind == "encrypted" else None
            return LocalFileMemoryProvider(tmp_path / name, storage=storage, **given)
        cluster: Cluster = request.getfixturevalue("cluster")
        sealed = encryptor if kind == "postgres-encrypted" else None
        store = made.setdefault(name, uuid4().hex)
        return PostgresMemoryProvider(cluster.dsn(), store=store, encryption=sealed, **given)

    return make


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_a_program_prints_the_same_on_every_store(
    name: str, make_store: MakeStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    block = PROGRAMS[name]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(factmem, "InMemoryProvider", make_store, raising=False)
    monkeypatch.setattr(factmem, "LocalFileMemoryProvider", make_store, raising=False)
    monkeypatch.setattr(local_file, "LocalFileMemoryProvider", make_store)
    module = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", module)

    assert run_block(block, module) == block.expected
