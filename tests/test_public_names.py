"""Public names exist, are sorted, and have docstrings."""

import ast
import importlib
import importlib.util
import inspect
import re
from collections.abc import Iterator
from difflib import ndiff
from pathlib import Path

import factmem
from tests.syntax import tree_of
from tests.tables import table

PACKAGE = Path(factmem.__file__).parent
LIST = Path(__file__).parent / "public_names.txt"
MOST = 250
ROOT: list[str] = vars(factmem)["__all__"]
ELSEWHERE = {
    "factmem.integrations.agent_framework": "agent_framework",
    "factmem.integrations.crewai": "crewai",
    "factmem.integrations.google_adk": "google",
    "factmem.integrations.hermes": "hermes_cli",
    "factmem.integrations.llama_index": "llama_index",
    "factmem.integrations.strands": "strands",
}
"""Adapters whose packages only `make frameworks` installs."""


def _public_modules() -> Iterator[str]:
    for file in sorted(PACKAGE.rglob("*.py")):
        parts = file.relative_to(PACKAGE.parent).with_suffix("").parts
        if not any(part.startswith("_") and part != "__init__" for part in parts):
            yield ".".join(part for part in parts if part != "__init__")


MODULES = [
    name
    for name in _public_modules()
    if ELSEWHERE.get(name) is None or importlib.util.find_spec(ELSEWHERE[name]) is not None
]
"""All modules whose packages are installed."""


def _tree(module: str) -> ast.Module:
    return tree_of(inspect.getsource(importlib.import_module(module)))


def _defines_anything(tree: ast.Module) -> bool:
    return any(not isinstance(node, ast.Expr) for node in tree.body)


def _reading_order(name: str) -> tuple[int, str]:
    """Sort constants before classes before functions, like the linter."""
    if re.fullmatch(r"[A-Z][A-Z0-9_]*", name) and len(name) > 1:
        return 0, name
    return (1 if name[0].isupper() else 2), name


@table("module", MODULES)
def test_all_is_correct_and_sorted(module: str) -> None:
    """`from module import *` works, and the list is readable."""
    if not _defines_anything(_tree(module)):
        return
    names: list[str] = importlib.import_module(module).__all__

    missing = [n for n in names if not hasattr(importlib.import_module(module), n)]

    assert missing == []
    assert names == sorted(set(names), key=_reading_order)


def test_private_modules_have_no_list_of_names() -> None:
    """A module with an underscore is no part of the API, and never imported with *."""
    private = [
        file
        for file in PACKAGE.rglob("_*.py")
        if file.name != "__init__.py" and "sync" not in file.parts  # generated
    ]

    assert [file.name for file in private if "\n__all__ " in file.read_text()] == []


def _undocumented(tree: ast.Module, names: set[str]) -> Iterator[str]:
    """Yield the public names that a module defines without a docstring, methods included."""
    for node, after in zip(tree.body, [*tree.body[1:], None], strict=True):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() if node.name in names:
                if not _has_decorator(node, "overload") and not ast.get_docstring(node):
                    yield node.name
            case ast.ClassDef() if node.name in names:
                yield from _undocumented_in(node)
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                if name in names and name != "__all__" and not _is_text(after):
                    yield name
            case _:
                pass


def _undocumented_in(node: ast.ClassDef) -> Iterator[str]:
    if not ast.get_docstring(node):
        yield node.name
    for member in node.body:
        if isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef):
            is_public = not member.name.startswith("_")
            is_elsewhere = _has_decorator(member, "overload", "override")
            if is_public and not is_elsewhere and not ast.get_docstring(member):
                yield f"{node.name}.{member.name}"


def _has_decorator(node: ast.FunctionDef | ast.AsyncFunctionDef, *names: str) -> bool:
    """Overloads are documented by their implementation, overrides by the inherited method."""
    return any(ast.unparse(decorator).endswith(names) for decorator in node.decorator_list)


def _is_text(node: ast.stmt | None) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


@table("module", MODULES)
def test_every_public_name_has_a_docstring(module: str) -> None:
    """Classes, methods, functions, constants and aliases have one at their definition."""
    tree = _tree(module)
    names = set(getattr(importlib.import_module(module), "__all__", ()))

    assert ast.get_docstring(tree), f"{module} has no docstring"
    assert list(_undocumented(tree, names)) == []


def test_a_missing_docstring_is_noticed() -> None:
    """The check finds a class, a method, a function and a constant without one."""
    tree = ast.parse("class A:\n    def b(self): ...\ndef c(): ...\nD = 1\nE = 2\n'Told.'\n")

    assert list(_undocumented(tree, {"A", "c", "D", "E"})) == ["A", "A.b", "c", "D"]


def _foreign(tree: ast.Module, room: str) -> set[str]:
    """Return the names that a module imports from other rooms."""
    return {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and not f"{node.module}.".startswith(f"{room}.")
        for alias in node.names
    }


def _public_names() -> set[str]:
    """Return all public names with their room: a name counts once, in the room that defines it."""
    found: set[str] = set()
    for file in sorted(PACKAGE.rglob("*.py")):
        parts = file.relative_to(PACKAGE).with_suffix("").parts
        module = [part for part in parts if part != "__init__"]
        if not module or any(part.startswith("_") for part in module):
            continue
        room = ".".join(module if module[0] == "integrations" else module[:1])
        tree = tree_of(file.read_text())
        own = set(_exported(tree)) - _foreign(tree, f"factmem.{room}")
        found |= {f"{room}.{name}" for name in own}
    return found


def _exported(tree: ast.Module) -> list[str]:
    """Return the names in `__all__`, or those that a package imports as themselves."""
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id="__all__")], value=value):
                return list(ast.literal_eval(value))
            case _:
                pass
    imports = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
    return [each.name for node in imports for each in node.names if each.name == each.asname]


def test_public_names_are_decided() -> None:
    """A new name is a line in `public_names.txt` that a reviewer sees.

    A name belongs there if a program in the docs imports it, if a caller passes an object of it, if
    it is an error, or if authors of providers, chat models and embedders need it. The reports that
    calls only return are no names: their objects say what they have. All others are in a module
    whose name begins with an underscore.
    """
    listed = LIST.read_text().splitlines()

    changed = [line for line in ndiff(listed, sorted(_public_names())) if line[0] in "+-"]
    assert changed == []
    assert len(listed) <= MOST


PROGRAMS = sorted(
    file
    for pattern in ("README.md", "docs/*.md", "examples/*.py", "examples/*.ipynb")
    for file in PACKAGE.parent.glob(pattern)
)
IMPORT = re.compile(r"from (factmem[.\w]*) import (?:\(([^)]*)\)|([\w, ]*))")


@table("file", PROGRAMS)
def test_programs_of_the_docs_import_public_names(file: Path) -> None:
    """Whatever a page or an example imports is in the `__all__` of a public module."""
    text = file.read_text().replace("\\n", "\n")  # of a notebook

    for module, several, line in IMPORT.findall(text):
        path = PACKAGE.parent / module.replace(".", "/")
        source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        exported = set(_exported(tree_of(source.read_text())))
        assert "._" not in module, f"{file.name}: {module}"
        assert set(re.findall(r"\w+", several or line)) <= exported, f"{file.name}: {module}"


def test_every_room_has_the_names_of_the_root() -> None:
    """A name of the root is a name of its room as well."""
    short = {name.rpartition(".")[2] for name in _public_names()}

    assert set(ROOT) - short == set()


def test_the_root_exports_are_few() -> None:
    """A first program finds what it needs; `dir` shows nothing else."""
    assert len(ROOT) <= 42
    assert dir(factmem) == ROOT
