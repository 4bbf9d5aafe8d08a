"""The tests that runs without `--both-loops` leave out, by folder and suite.

Each repeats another test on another event loop, kind of storage or store, on the same code. The
long form of `make storm` and, for a server, `make postgres` run every one of them.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).parent

ONE_LOOP = {
    *(
        "agent",
        "detection",
        "evaluation",
        "ledger",
        "memory",
        "models",
        "prompt",
        "providers",
        "recall",
        "regressions",
        "storms",
        "transfer",
    )
}
"""Folders whose tests await only what the suites of the stores await on both loops."""

ONE_LOOP_SUITES = {"TestInMemoryProvider", "TestInheriting", "TestOwnProvider"}
"""Conformance suites whose waiting is that of a store in files, which runs on both loops."""

BOTH_LOOPS = {
    "memory/test_remembering.py",
    "memory/test_trio.py",
    "providers/test_erasing.py",
    "providers/test_event_loop_is_free.py",
    "providers/test_group_commit.py",
    "providers/test_local_file_cancellation.py",
    "providers/test_read_only.py",
    "providers/test_rollback.py",
    "providers/test_sharing.py",
    "providers/test_watching.py",
    "recall/test_keeping_vectors.py",
    "recall/test_shared_place.py",
    "recall/test_slow_embedder.py",
    "regressions/test_erased_facts.py",
    "regressions/test_own_rotation.py",
}
"""Their files with tasks, threads or cancellation of their own, and the smoke test on trio."""

TRIO_IN_BOTH = {"cli", "embedding", "integrations", "llm"}
"""Places whose tests on trio differ from those on asyncio in the library that waits."""

PLAIN_IN_BOTH = {
    "agent",
    "cli",
    "memory",
    "providers/test_event_loop_is_free.py",
    "providers/test_large_places.py",
    "providers/test_local_file_removal.py",
    "providers/test_no_ordinary_files.py",
    "providers/test_threads.py",
    "recall",
    "transfer",
}
"""Places where a test on encrypted files passes through all that the one on plain files does."""

LOOPS = {"TestEncrypted": "trio", "TestPlain": "asyncio"}
"""The loop of each kind of store; the other kind runs on the other one."""

FIRST_CASES = {
    "TestStoreView",
    "TestInMemoryProvider",
    "TestInheriting",
    "TestObservedStore",
    "TestOwnProvider",
    "providers/test_local_file.py::TestEncrypted",
    "TestBehindPgBouncer",
    "postgres/test_conformance.py::TestPlain",
}
"""Conformance suites that run the first case of each table: `TestPlain` on files and
`TestBehindRowSecurity` on a server run all."""

FIRST_ON_POSTGRES = {"test_conformance.py", "test_store.py", "test_tenants.py"}
"""The files of `tests/postgres` of the default run."""

LATER_ON_POSTGRES = {
    *("changes", "conversations", "definitions", "indexes", "reviewing", "statements")
}
"""The modules of the conformance suite that only `make postgres` runs on a server."""

KILLS = {"test_a_forked_child_holds_no_lock"}
"""Tests of the contracts that start and kill several processes: `make storm` runs them."""

MANY_CASES = 4
"""Of a sweep with more cases each fourth runs, of others and of those on a server each parameter's
values in rotation, except in the long forms of `make storm` and `make postgres`."""

FEW_SEEDS = 2
"""The random runs of one test, by their parameter `seed`, of the default run."""

POSTGRES_KINDS = {"postgres", "postgres-encrypted"}
"""Kinds of stores among those that documented programs run on."""


def loop_of(path: Path, suite: str | None) -> str | None:
    """Return the event loop that stands for both in a file or suite, or None."""
    name = path.relative_to(TESTS).as_posix()
    folder = name.partition("/")[0]
    if suite in LOOPS and folder in {"postgres", "providers"}:
        return LOOPS[suite]  # a codec never sees the loop
    is_one = suite in ONE_LOOP_SUITES or (folder in ONE_LOOP and name not in BOTH_LOOPS)
    return "asyncio" if is_one else None


def is_later(path: Path) -> bool:
    """Return True for a file that the default run skips, as all of its tests need a server."""
    return path.parent.name == "postgres" and path.name not in FIRST_ON_POSTGRES


def mark_postgres(items: list[pytest.Item]) -> None:
    """Mark the tests on a server that `make postgres` runs and the default run does not."""
    for item in items:
        if _needs_a_server(item):
            item.add_marker(pytest.mark.postgres)


def mark_storm(items: list[pytest.Item]) -> None:
    """Mark the random runs and the kills that `make storm` adds."""
    for item in items:
        name = item.name.partition("[")[0]
        if name in KILLS or (_parameter(item, "seed") or 0) >= FEW_SEEDS:
            item.add_marker(pytest.mark.storm)


def repeated(items: list[pytest.Item]) -> dict[str, pytest.Item]:
    """Return, by name, the tests that only `--both-loops` runs."""
    spared = {item.nodeid: item for item in items if _is_spared(item)}
    names = {item.nodeid for item in items} - spared.keys()
    seen = set[str]()
    for item in items:
        if item.nodeid in names and (_is_a_later_case(item, seen) or _is_repeated(item, names)):
            spared[item.nodeid] = item
    left = [item for item in items if item.nodeid not in spared]
    return spared | {item.nodeid: item for item in _rest_of_sweeps(left)}


def _rest_of_sweeps(items: list[pytest.Item]) -> Iterator[pytest.Item]:
    """Yield the cases of sweeps that their short form leaves out."""
    sweeps = defaultdict[str, list[pytest.Item]](list)
    for item in items:
        if is_later(item.path) or item.get_closest_marker("storm") is not None:
            sweeps[item.nodeid.partition("[")[0]].append(item)
    for cases in sweeps.values():
        if is_later(cases[0].path):
            yield from () if _suite(cases[0]) else _in_rotation(cases)
        elif len(cases) > MANY_CASES:
            yield from (case for number, case in enumerate(cases) if number % 4)
        else:
            yield from _in_rotation(cases)


def _in_rotation(cases: list[pytest.Item]) -> Iterator[pytest.Item]:
    """Yield the cases that are not needed for each value of each parameter to run once."""
    values = [_values(case) for case in cases]
    left = set[tuple[str, str]]().union(*values)
    spared = list(range(len(cases)))
    while left and spared:
        best = max(spared, key=lambda number: len(left & values[number]))
        spared.remove(best)
        left -= values[best]
    yield from (cases[number] for number in spared if values[number])


def _values(item: pytest.Item) -> set[tuple[str, str]]:
    """Return the parameters of a test with their values."""
    callspec = getattr(item, "callspec", None)
    return {(name, repr(value)) for name, value in callspec.params.items()} if callspec else set()


def _is_spared(item: pytest.Item) -> bool:
    """Return True for a test that another loop or another role's suites stand for."""
    loop, wanted = _parameter(item, "anyio_backend"), loop_of(item.path, _suite(item))
    is_owners = _path(item).as_posix() == "postgres/test_conformance.py"
    return (None not in {loop, wanted} and loop != wanted) or (is_owners and _needs_a_server(item))


def _needs_a_server(item: pytest.Item) -> bool:
    """Return True if a test leaves the default run with the rest of PostgreSQL."""
    path = _path(item)
    if path.parts[0] == "postgres":
        suite = str(getattr(getattr(item, "function", None), "__module__", "")).rpartition(".")[2]
        return is_later(path) or suite in LATER_ON_POSTGRES
    return (
        "cluster" in getattr(item, "fixturenames", ()) or _parameter(item, "kind") in POSTGRES_KINDS
    )


def _is_repeated(item: pytest.Item, names: set[str]) -> bool:
    """Return True if a test on the other loop or storage in the default run is enough."""
    path = _path(item)
    places = {path.parts[0], path.as_posix()}
    loop, kinds = _parameter(item, "anyio_backend"), _kinds(item)
    if places & PLAIN_IN_BOTH and "plain" in kinds:
        return _swapped(item, "plain", "encrypted") in names
    is_left = loop == "trio" if places & TRIO_IN_BOTH else _is_crossed(loop, kinds)
    return is_left and _swapped(item, "asyncio", "trio") in names


def _is_crossed(loop: object, kinds: set[str | None]) -> bool:
    """Return True for plain on trio and encrypted on asyncio: a codec never sees the loop."""
    if kinds & {"plain", "TestPlain"}:
        return loop == "trio"
    return loop == "asyncio" and bool(kinds & {"encrypted", "TestEncrypted"})


def _is_a_later_case(item: pytest.Item, seen: set[str]) -> bool:
    """Return True if a suite that runs first cases had another case of the same test."""
    suite = _suite(item)
    if not {suite, f"{_path(item).as_posix()}::{suite}"} & FIRST_CASES:
        return False
    test = f"{item.nodeid.partition('[')[0]} {_parameter(item, 'anyio_backend')}"
    is_later = test in seen
    seen.add(test)
    return is_later


def _swapped(item: pytest.Item, one: str, other: str) -> str:
    """Return the name of the test's twin on the other loop or storage."""
    names = {one: other, other: one}
    return re.sub(rf"\b({one}|{other})\b", lambda found: names[found[0]], item.nodeid)


def _path(item: pytest.Item) -> Path:
    return item.path.relative_to(TESTS)


def _kinds(item: pytest.Item) -> set[str | None]:
    """Return the words among a test's parameters, and its suite."""
    return {*item.name.removesuffix("]").replace("[", "-").split("-"), _suite(item)}


def _suite(item: pytest.Item) -> str | None:
    return getattr(getattr(item, "cls", None), "__name__", None)


def _parameter(item: pytest.Item, name: str) -> Any:
    """Return what a test has for one of its parameters, or None."""
    callspec = getattr(item, "callspec", None)
    return None if callspec is None else callspec.params.get(name)
