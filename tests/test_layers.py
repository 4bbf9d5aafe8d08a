"""Imports point downward, third parties enter by one door each, and importing does nothing.

The table is the architecture. A new module gets a level here before it gets a line of code.
"""

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from fnmatch import fnmatchcase
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

import pytest

import factmem
from tests.syntax import tree_of

PACKAGE = Path(factmem.__file__).parent

LEVELS: list[list[str]] = [
    ["usage"],
    ["errors"],
    [
        *("names", "values", "schemas", "models", "entries", "tokens", "messages"),
        *("_given", "_places", "encryption", "_key", "_ciphers", "indexed_store"),
    ],
    [
        *("ledger", "provider", "scopes", "resolution", "transcript", "boundary", "_*"),
        "events",
        *("storage.base", "storage._*", "llm.base", "llm._*", "embedding.base", "embedding._*"),
    ],
    [
        *("history", "prompts", "rendering", "loading", "origin", "reach", "detection", "views"),
        "consolidation",
        *("background", "observing"),
        *("storage.simple", "storage.encrypted", "storage._keys", "storage"),
        *("llm.openai", "llm.extraction", "llm"),
        *("embedding._threads", "embedding.*", "embedding"),
    ],
    [
        *("providers.*", "providers", "bundle", "koog"),
        *("saving", "memory_message", "compression"),
    ],
    ["recall.*", "recall"],
    ["pending_texts", "_memory_arguments"],
    ["memory_core"],
    ["presenting", "detecting", "consolidating", "contents", "recall.recalling"],
    ["remembering", "memory_tools"],
    ["memory"],
    ["context"],
    ["tools", "tool_loop", "features"],
    ["nodes", "memory_feature"],
    ["_agent_arguments"],
    ["agent"],
    ["integrations.*", "integrations", "testing.*", "testing", ""],
]
"""What may import what: a module imports from the levels above it in this list.

A name of its own goes before a pattern.
"""

SIBLINGS = {
    ("values", "names"): "values refuse the texts that names refuse",
    ("models", "names"): "models check their names",
    ("_places", "names"): "places check theirs as well",
    ("models", "schemas"): "a concept's schema is a part of the concept, kept apart for length",
    ("models", "values"): "a concept has the codec of its type",
    ("entries", "models"): "entries are what facts become",
    ("indexed_store", "models"): "what has changed in a place is facts",
}
"""Imports within a level, each with its reason. A package's private modules need none."""

ONE_THING = {"recall", "testing"}
"""Packages that are one noun in several files, which import one another."""

DOORS = {
    "cryptography": ["_ciphers"],
    "keyring": ["_key"],
    "litellm": ["embedding.litellm"],
    "numpy": ["recall.vectors"],
    "openai": ["llm.openai", "embedding.openai"],
    "sentence_transformers": ["embedding.sentence_transformer"],
    "snowballstemmer": ["recall.stemming"],
    "tiktoken": ["tokens"],
}
"""Where heavy or optional packages may be imported, inside functions only."""

LIGHT = {"anyio", "orjson", "pydantic", "pydantic_core", "sniffio", "typing_extensions"}
"""The third parties that any module may import at its top."""


def _name(file: Path) -> str:
    """The dotted name of a module inside the package; empty for the package itself."""
    parts = file.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


FILES = {_name(file): file for file in sorted(PACKAGE.rglob("*.py"))}


def _imports(tree: ast.AST, *, with_types: bool = True) -> Iterator[str]:
    """The full name of everything that is imported anywhere in a module."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif with_types or not _is_for_types(node):
            yield from _imports(node, with_types=with_types)


def _is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def _own(imported: str) -> str | None:
    """The module of the package that an import reaches, or None for a third party."""
    parts = imported.split(".")
    if parts[0] != "factmem":
        return None
    while ".".join(parts[1:]) not in FILES:
        parts.pop()
    return ".".join(parts[1:])


def _graph(*, with_types: bool) -> dict[str, set[str]]:
    """Which of the package's modules each one imports, at its top or inside functions."""
    return {
        module: {
            own
            for name in _imports(tree_of(file.read_text()), with_types=with_types)
            if (own := _own(name)) is not None and own != module
        }
        for module, file in FILES.items()
    }


GRAPH = _graph(with_types=True)


def _level(module: str) -> int:
    for matches in (str.__eq__, fnmatchcase):
        for level, patterns in enumerate(LEVELS):
            if any(matches(module, pattern) for pattern in patterns):
                return level
    raise AssertionError(f"factmem.{module} has no level in the table")


def _is_part_of(module: str, imported: str) -> bool:
    """Whether both are one thing: a package and its module, or a private room on either side."""
    package, _, leaf = imported.rpartition(".")
    if package == module:
        return True
    is_private = leaf.startswith("_") or module.rpartition(".")[2].startswith("_")
    return module.rpartition(".")[0] == package and (is_private or package in ONE_THING)


def _is_allowed(module: str, imported: str) -> bool:
    if _level(imported) != _level(module):
        return _level(imported) < _level(module)
    return _is_part_of(module, imported) or (module, imported) in SIBLINGS


@pytest.mark.parametrize("module", FILES)
def test_imports_point_downward(module: str) -> None:
    """Read one level and you know all that it can depend on."""
    wrong = [name for name in sorted(GRAPH[module]) if not _is_allowed(module, name)]

    assert not wrong, f"factmem.{module} (level {_level(module)}) imports {wrong}"


def test_no_module_needs_itself() -> None:
    """Not within a level or a package either, but for the names of types."""
    list(TopologicalSorter(_graph(with_types=False)).static_order())


def test_the_rule_can_be_broken() -> None:
    """Upward, sideways and into another package's private rooms: each is told."""
    assert _is_allowed("ledger", "models")
    assert not _is_allowed("models", "ledger")
    assert not _is_allowed("ledger", "provider")
    assert not _is_allowed("provider", "storage._journal")
    assert _is_allowed("storage._journal", "storage._lock")
    assert _is_allowed("storage", "storage.simple")
    assert not _is_allowed("storage.simple", "storage.encrypted")


def test_exceptions_are_in_use() -> None:
    """An exception that nothing needs any more is deleted from the table."""
    for module, imported in SIBLINGS:
        assert imported in GRAPH[module], f"factmem.{module} does not import factmem.{imported}"


def test_every_module_is_reached_by_its_full_name() -> None:
    """Relative imports would slip past the table."""
    for module, file in FILES.items():
        for node in ast.walk(tree_of(file.read_text())):
            assert not isinstance(node, ast.ImportFrom) or node.level == 0, f"factmem.{module}"


@pytest.mark.parametrize("module", FILES)
def test_third_parties_enter_by_their_doors(module: str) -> None:
    """One module knows each heavy package, so one module changes when it does."""
    for name in _imports(tree_of(FILES[module].read_text())):
        package = name.partition(".")[0]
        assert package != "asyncio", f"factmem.{module} imports asyncio: use anyio"
        if package in DOORS:
            assert module in DOORS[package], f"factmem.{module} imports {package}"
        elif module.partition(".")[0] not in {"integrations", "testing"}:
            known = package in LIGHT or package in sys.stdlib_module_names or package == "factmem"
            assert known, f"factmem.{module} imports {package}, which has no door in the table"


@pytest.mark.parametrize("module", FILES)
def test_heavy_packages_wait_for_their_first_use(module: str) -> None:
    """Their imports stand inside functions: nobody pays for what he does not use."""
    tree = tree_of(FILES[module].read_text())

    at_top = {name.partition(".")[0] for node in tree.body for name in _imports_at_top(node)}

    assert not at_top & DOORS.keys()


def _imports_at_top(node: ast.stmt) -> Iterator[str]:
    """What a statement of a module imports when the module is."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield from _imports(ast.Module([node], []), with_types=False)


PROBE = """
import json, os, sys, threading
import anyio, pydantic, pydantic.types  # what they do is not ours
before, seen = set(sys.modules), []
def hook(event, args):
    if event in ("open", "os.mkdir", "os.remove", "os.rename", "socket.connect", "subprocess.Popen",
                 "_thread.start_new_thread", "os.putenv"):
        seen.append([event, str(args[0]) if args else ""])
sys.addaudithook(hook)
import factmem
for name in factmem.__all__:
    getattr(factmem, name)
print(json.dumps({
    "seen": seen,
    "roots": [p for p in sys.path if p] + [os.path.realpath(p) for p in sys.path if p],
    "modules": sorted(set(sys.modules) - before),
    "threads": threading.active_count(),
}))
"""


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What importing factmem did to a fresh process in an empty directory."""
    empty = tmp_path_factory.mktemp("empty")
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROBE],
        cwd=empty,
        capture_output=True,
        text=True,
        check=True,
    )
    assert not list(empty.iterdir())
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def test_importing_loads_nothing_heavy(imported: dict[str, Any]) -> None:
    """`import factmem`, and touching every name it has, leaves these for their first use."""
    heavy = {*DOORS, "asyncio", "httpx2", "httpx", "trio", "pytest"}

    assert not heavy & set(imported["modules"])


def test_importing_touches_nothing(imported: dict[str, Any]) -> None:
    """No file but those of Python packages, no thread, no process, no network."""
    roots = tuple(imported["roots"])

    foreign = [seen for seen in imported["seen"] if not seen[1].startswith(roots)]

    assert foreign == []
    assert imported["threads"] == 1
