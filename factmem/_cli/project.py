"""Project: the options that a project file holds, `factmem.toml` or `[tool.factmem]` of pyproject.toml."""

import os
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from factmem._cli.exits import CommandError, ExitCode


@dataclass(frozen=True, slots=True)
class Project:
    """Options of a project. Those of the command line come first."""

    store: str | None = None
    """The folder, relative to the file, or the URL of the store."""
    store_name: str | None = None
    place: str | None = None
    """The place that is searched if a command names none."""
    key_env: str | None = None
    key_file: str | None = None
    keyring: bool = False
    embedder: str | None = None
    """An embedder by name. A module is not accepted: reading a file must not run code."""


_NAMES = {each.name.replace("_", "-"): each.name for each in fields(Project)}


def project_of(folder: Path) -> Project:
    """Return the options of a folder's project: the first file in it or in a folder above it.

    Raises:
        CommandError: The file belongs to another user, or is not valid.
    """
    for file in _files(folder):
        if not file.is_file():
            continue
        _check_owner(file)
        try:
            found: Any = tomllib.loads(file.read_text(encoding="utf-8"))
        except (ValueError, OSError) as exc:
            raise CommandError(f"{file} cannot be read: {exc}") from None
        if file.name == "pyproject.toml":
            tools = found.get("tool")
            found = tools.get("factmem") if isinstance(tools, dict) else None
        if found is not None:
            return _checked(file, found)
    return Project()


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


def _checked(file: Path, found: Any) -> Project:
    if not isinstance(found, dict):
        raise CommandError(f"{file}: [tool.factmem] must be a table")
    if wrong := sorted(found.keys() - _NAMES.keys()):
        raise CommandError(f"{file} may have {', '.join(_NAMES)}, not {wrong[0]!r}")
    for name, value in found.items():
        kind = bool if name == "keyring" else str
        if type(value) is not kind:
            raise CommandError(f"{file}: {name} must be {'true' if kind is bool else 'a string'}")
    project = Project(**{_NAMES[name]: value for name, value in found.items()})
    if project.embedder is not None:
        from factmem.embedding._named import EMBEDDERS  # slow import, and few files name one

        if project.embedder.partition(":")[0] not in EMBEDDERS:
            raise CommandError(
                f"{file}: embedder must be one of {', '.join(EMBEDDERS)} and a model"
            )
    return replace(
        project,
        store=_path(file, project.store),
        key_file=_path(file, project.key_file),
    )


def _path(file: Path, path: str | None) -> str | None:
    if path is None or path.startswith(("postgresql://", "postgres://")):
        return path
    return str(file.parent / Path(path).expanduser())
