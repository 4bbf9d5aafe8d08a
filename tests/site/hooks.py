"""Hooks of the documentation site: the reference pages, and links to files outside of docs/."""

import ast
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent.parent
PACKAGE = ROOT / "factmem"

_OUTSIDE = re.compile(r"\[([^\]]*)\]\(\.\./[^)]*\)")
_UNSEARCHED = "---\nsearch:\n  exclude: true\n---\n\n"
"""The search finds answers; the reference has an index of its own, by room and name."""
_SETTINGS = re.compile(r"^( *```\w+) \{[^\n]*\}$", re.MULTILINE)


def public_modules() -> dict[str, list[str]]:
    """Return the public names by the module that defines them, or a private one's room."""
    found: dict[str, list[str]] = {}
    for file in sorted(PACKAGE.rglob("*.py")):
        parts = file.relative_to(ROOT).with_suffix("").parts
        if not any(part.startswith("_") for part in parts):
            names = _names(ast.parse(file.read_text()))
            if names:
                found[".".join(parts)] = names
    defined = {name for names in found.values() for name in names}
    for file in sorted(PACKAGE.glob("*/__init__.py")):
        if not file.parent.name.startswith("_"):
            own = [name for name in _exported(ast.parse(file.read_text())) if name not in defined]
            found |= {f"factmem.{file.parent.name}": own} if own else {}
    return dict(sorted(found.items()))


def _names(tree: ast.Module) -> list[str]:
    defined: set[str] = set()
    for node in tree.body:
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                defined.add(name)
            case ast.AsyncFunctionDef(name=name):
                defined.add(name)
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                defined.add(name)
            case _:
                pass
    return [name for name in _exported(tree) if name in defined]


def _exported(tree: ast.Module) -> list[str]:
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id="__all__")], value=ast.List(elts=elements)):
                return [ast.literal_eval(each) for each in elements]
            case _:
                pass
    imports = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
    return [each.name for node in imports for each in node.names if each.name == each.asname]


def page_of(module: str) -> str:
    """Return the path of the page of a module: one page for each room."""
    parts = module.split(".")
    is_room = len(parts) > 2 or (PACKAGE / parts[1]).is_dir()
    return f"reference/{parts[1] if is_room else 'factmem'}.md"


def reference() -> dict[str, str]:
    """Return the text of each page of the reference."""
    pages: dict[str, list[str]] = {}
    for module, names in public_modules().items():
        page = pages.setdefault(page_of(module), [])
        page.append(f"## {module}\n")
        page += [f"::: {module}.{name}\n    options: {{ heading_level: 3 }}\n" for name in names]
    return {
        path: f"{_UNSEARCHED}# {path.removeprefix('reference/').removesuffix('.md')}\n\n"
        + "\n".join(page)
        for path, page in pages.items()
    }


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add the pages of the reference to the navigation."""
    [section] = [each["Reference"] for each in config.nav or () if "Reference" in each]
    section += [path for path in sorted(reference()) if path not in section]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of the reference, which are made of the docstrings."""
    for path, text in reference().items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Take out what only the tests and a checkout understand."""
    # Examples and benchmarks are no part of the site, and have no address of their own yet.
    return _SETTINGS.sub(r"\1", _OUTSIDE.sub(r"\1", markdown))
