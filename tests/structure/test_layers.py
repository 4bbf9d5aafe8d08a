"""Import rules: folders import only folders below them, optional packages have one module each."""

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

import pytest

import factmem
from tests.syntax import tree_of

PACKAGE = Path(factmem.__file__).parent

ROOMS = [
    {"_lazy", "usage"},
    {"errors"},
    {"_arguments"},
    {"_concurrency"},
    {"models"},
    {"ledger", "events"},
    {"encryption"},
    {"llm"},
    {"_text"},
    {"embedding", "prompt", "providers"},
    {"transfer", "detection"},
    {"recall"},
    {"memory"},
    {"sync"},
    {"agent"},
    {"evaluation", "integrations", "testing"},
    {"_cli"},
    {"", "__main__"},
]
"""From the bottom up: a folder imports folders of earlier lines, never of its own line."""

SHARED = {
    "detection": {"_detector", "_synonyms"},
    "embedding": {"_named"},
    "encryption": {"_ciphers"},
    "ledger": {
        "_entry_check",
        "_items",
        "_merging",
        "_purging",
        "_reads",
        "_removal",
        "_trace",
        "_undo",
    },
    "memory": {"_selection", "_statements"},
    "models": {"_definition_changes", "_display", "_values"},
    "prompt": {"_transcript"},
    "providers": {"_sql.store", "_view"},
    "recall": {"_place_cache", "_search"},
    "transfer": {"_inputs", "_outputs", "_rows"},
}
"""Private modules that other rooms import, although they are no part of the API."""

DOORS = {
    "cryptography": ["encryption._ciphers"],
    "keyring": ["encryption.key"],
    "litellm": ["embedding.litellm"],
    "numpy": ["recall._place_vectors"],
    "openai": ["llm.openai", "embedding.openai"],
    "sentence_transformers": ["embedding.sentence_transformer"],
    "rich": ["models._display"],
    "psycopg": ["providers._postgres.driver"],
    "snowballstemmer": ["_text.analysis"],
}
"""The modules that may import heavy or optional packages, inside functions only."""

LIGHT = {"anyio", "orjson", "pydantic", "pydantic_core", "sniffio", "typing_extensions"}
"""The third parties that any module may import at its top."""


def _name(file: Path) -> str:
    """Return the dotted name of a module inside the package; empty for the package itself."""
    parts = file.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


FILES = {_name(file): file for file in sorted(PACKAGE.rglob("*.py"))}


def _imports(tree: ast.AST, *, with_types: bool = True) -> Iterator[str]:
    """Return the full names of all imports in a module."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.expr):  # most nodes do not import
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"from {node.module}: relative imports are in no table"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif with_types or not _is_for_types(node):
            yield from _imports(node, with_types=with_types)


def _is_for_types(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.If)
        and isinstance(node.test, ast.Name)
        and node.test.id == "TYPE_CHECKING"
    )


def _own(imported: str) -> str | None:
    """Return the module of the package that an import reaches, or None for another package."""
    parts = imported.split(".")
    if parts[0] != "factmem":
        return None
    while ".".join(parts[1:]) not in FILES:
        parts.pop()
    return ".".join(parts[1:])


@cache
def _graph(*, with_types: bool) -> dict[str, set[str]]:
    """Return the modules of the package that each module imports, also inside functions."""
    return {
        module: {
            own
            for name in _imports(tree_of(file.read_text()), with_types=with_types)
            if (own := _own(name)) is not None and own != module
        }
        for module, file in FILES.items()
    }


def _room(module: str) -> str:
    return module.partition(".")[0]


def _level(room: str) -> int:
    levels = [level for level, rooms in enumerate(ROOMS) if room in rooms]
    assert levels, f"factmem.{room} is in no line of ROOMS"
    return levels[0]


ENGINES = ("providers._sqlite.", "providers._postgres.")
"""The databases. They know their common core, `providers._sql`, and not each other."""


def _is_allowed(module: str, imported: str) -> bool:
    """A private file is imported by its own room, or it is in SHARED; an engine by no other one."""
    room, _, rest = imported.partition(".")
    if _room(module) == room:
        engine = next((each for each in ENGINES if imported.startswith(each)), "")
        return not module.startswith((*ENGINES, "providers._sql.")) or module.startswith(engine)
    is_private = any(part.startswith("_") for part in rest.split("."))
    is_open = not is_private or rest in SHARED.get(room, ())
    return is_open and _level(room) < _level(_room(module))


def test_imports_point_downward() -> None:
    """One line of ROOMS shows all that a folder can depend on."""
    wrong = [
        f"factmem.{module} imports factmem.{name}"
        for module, names in _graph(with_types=True).items()
        for name in sorted(names)
        if not _is_allowed(module, name)
    ]

    assert wrong == []


def test_adapters_need_no_private_module() -> None:
    """An adapter for another framework can be written outside of the package."""
    graph = _graph(with_types=True)
    of_others = {
        (module, name)
        for module, names in graph.items()
        for name in names
        if _room(module) == "integrations" and _room(name) != "integrations"
    }

    assert of_others
    assert [pair for pair in of_others if any(p.startswith("_") for p in pair[1].split("."))] == []


def test_shared_modules_are_in_use() -> None:
    """The table shrinks with the imports."""
    used = {
        name
        for module, names in _graph(with_types=True).items()
        for name in names
        if _room(module) != _room(name)
    }

    assert [n for room, names in SHARED.items() for n in names if f"{room}.{n}" not in used] == []


def test_no_module_imports_itself() -> None:
    """Cycles are refused, also of types: a reader would have to learn all files at once."""
    doors = {module for module, file in FILES.items() if file.name == "__init__.py"}
    graph = _graph(with_types=True)
    list(
        TopologicalSorter({m: g - doors for m, g in graph.items() if m not in doors}).static_order()
    )


def test_broken_rules_are_reported() -> None:
    """An import upward, sideways or of another room's private file is reported."""
    assert _is_allowed("ledger.ledger", "models.facts")
    assert not _is_allowed("models.facts", "ledger.ledger")
    assert not _is_allowed("transfer.bundle", "detection._detector")
    assert not _is_allowed("memory.runs", "providers._sql.sealing")
    assert _is_allowed("memory.runs", "detection._detector")
    assert _is_allowed("providers.postgres", "providers._sql.sealing")
    assert not _is_allowed("providers._sql.sealing", "providers._sqlite.session")
    assert not _is_allowed("providers._sqlite.session", "providers._postgres.session")


def test_the_top_level_is_small() -> None:
    """It has one folder per noun of the domain, and few files."""
    entries = {
        path.stem
        for path in PACKAGE.iterdir()
        if path.suffix == ".py" or (path.is_dir() and path.name != "__pycache__")
    } - {"__main__"}

    assert len(entries) <= 26
    assert len([name for name in entries if name.startswith("_") and name != "__init__"]) <= 6


def test_files_are_short() -> None:
    """A file holds what is read together, and a reader gets through it in one sitting."""
    lengths = {name: len(file.read_text().splitlines()) for name, file in FILES.items()}

    longer = {"providers.store": 900}
    assert {n: size for n, size in lengths.items() if size > longer.get(n, 800)} == {}


def test_functions_are_short() -> None:
    """40 lines are enough for nearly all, without the docstring; a third more are too many."""
    assert {
        f"{module}.{node.name}": _lines(node)
        for module, file in FILES.items()
        for node in ast.walk(tree_of(file.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _lines(node) > 55
    } == {}


def _lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the lines of a function without its docstring."""
    body = function.body[1:] if ast.get_docstring(function) else function.body
    return function.end_lineno - body[0].lineno + 1 if body and function.end_lineno else 0


VAGUE = re.compile(r"(Base|Abstract)[A-Z]|(Manager|Helper|Handler|Factory|Impl)$|^_?get_")
"""Names that say nothing; those of adapters are their hosts' names."""


def test_names_say_what_they_name() -> None:
    """A class is a noun of the domain, a function a verb that says more than `get`."""
    defined = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)

    assert [
        f"{module}.{node.name}"
        for module, file in FILES.items()
        for node in ast.walk(tree_of(file.read_text()))
        if isinstance(node, defined) and VAGUE.search(node.name) and _room(module) != "integrations"
    ] == []


def test_optional_packages_have_one_module_each() -> None:
    """If a heavy package changes, one module changes."""
    for module, file in FILES.items():
        _check_third_parties(module, file)


def _check_third_parties(module: str, file: Path) -> None:
    for name in _imports(tree_of(file.read_text())):
        package = name.partition(".")[0]
        assert package != "asyncio", f"factmem.{module} imports asyncio: use anyio"
        assert package != "typer" or _room(module) == "_cli", f"factmem.{module}"
        is_browser = module.startswith("_cli.browse.")
        assert is_browser or package != "textual"
        if package in DOORS and not (package == "rich" and _room(module) == "_cli"):
            assert module in DOORS[package], f"factmem.{module} imports {package}"
        elif module.partition(".")[0] not in {"_cli", "integrations", "testing"}:
            known = package in LIGHT or package in sys.stdlib_module_names or package == "factmem"
            assert known, f"factmem.{module} imports {package}, which has no module in the table"


def test_heavy_packages_are_imported_on_first_use() -> None:
    """Imports are inside functions: a program loads only the packages that it uses."""
    for module, file in FILES.items():
        tree = tree_of(file.read_text())
        at_top = {name.partition(".")[0] for node in tree.body for name in _imports_at_top(node)}
        allowed = {"rich"} if _room(module) == "_cli" else set()
        assert not at_top & (DOORS.keys() - allowed), f"factmem.{module}"


def _imports_at_top(node: ast.stmt) -> Iterator[str]:
    """Yield the imports that run when a module is imported."""
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
    """Return the effects of importing factmem in a new process in an empty directory."""
    empty = tmp_path_factory.mktemp("empty")
    done = subprocess.run(
        [sys.executable, "-B", "-W", "error", "-c", PROBE],  # without writing bytecode
        cwd=empty,
        capture_output=True,
        text=True,
        check=True,
    )
    assert not list(empty.iterdir())
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def test_importing_loads_no_heavy_package(imported: dict[str, Any]) -> None:
    """`import factmem` and access to all its names load none of these."""
    heavy = {*DOORS, "asyncio", "httpx2", "httpx", "trio", "pytest", "rich", "typer"}

    assert not heavy & set(imported["modules"])


def test_importing_has_no_side_effects(imported: dict[str, Any]) -> None:
    """It opens only files of Python packages, and starts no thread, process or connection."""
    roots = tuple(imported["roots"])

    foreign = [seen for seen in imported["seen"] if not seen[1].startswith(roots)]

    assert foreign == []
    assert imported["threads"] == 1


def test_a_memory_is_imported_without_what_it_may_not_use() -> None:
    """Detection, recall, encryption and databases are imported with their first use."""
    probe = (
        "import sys\n"
        "from factmem import AgentMemory, Concept, InMemoryProvider, SingleFact\n"
        "print(*(name for name in sys.modules if name.partition('.')[0] == 'factmem'))\n"
    )

    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)

    modules = done.stdout.split()
    assert len(modules) <= 65
    late = (
        "factmem.detection._detector",
        "factmem.recall._documents",
        "factmem.recall._search",
        "factmem.prompt._transcript",
        "factmem.encryption",
        "factmem.providers._sql",
    )
    assert [name for name in modules if name.startswith(late)] == []
