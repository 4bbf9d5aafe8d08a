"""The archives that a user installs, built from the source tree."""

import re
import runpy
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.parser import Parser
from importlib.metadata import version
from pathlib import Path

import pytest

import factmem

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel and the source archive with the project's own build backend."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(folder)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> zipfile.ZipFile:
    [file] = built.glob("*.whl")
    return zipfile.ZipFile(file)


@pytest.mark.storm
def test_the_wheel_has_only_the_package(wheel: zipfile.ZipFile) -> None:
    """It has every module and the typing marker; no test, no example, no development file."""
    package = {
        str(file.relative_to(ROOT))
        for file in (ROOT / "factmem").rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }

    packed = {name for name in wheel.namelist() if ".dist-info/" not in name}

    assert packed == package
    assert "factmem/py.typed" in packed


@pytest.mark.storm
def test_the_metadata_of_the_wheel(wheel: zipfile.ZipFile) -> None:
    """Name, version, Python and licence are those of the project."""
    [name] = [name for name in wheel.namelist() if name.endswith("METADATA")]
    metadata = Parser().parsestr(wheel.read(name).decode())

    assert metadata["Name"] == PROJECT["name"] == "factmem"
    assert metadata["Version"] == factmem.__version__ == version("factmem")
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata["License-Expression"] == "Apache-2.0"
    readme = runpy.run_path(str(ROOT / "hatch_build.py"))["indexed"]
    assert metadata.get_payload() == readme((ROOT / "README.md").read_text(), None)


def test_links_of_the_readme_work_on_a_package_index() -> None:
    """They lead to the source once it has an address, and are plain text until then."""
    readme = runpy.run_path(str(ROOT / "hatch_build.py"))["indexed"]
    text = (ROOT / "README.md").read_text()
    assert re.search(r"\]\((docs|tests)/", text)

    assert not re.findall(r"\]\((?!https?://)[^)]*\)", readme(text, None))
    linked = readme(text, "https://example.org/factmem/")
    assert "](https://example.org/factmem/blob/main/docs/tutorial.md)" in linked
    assert not re.findall(r"\]\((?!https?://)[^)]*\)", linked)


@pytest.mark.storm
def test_the_source_archive_can_be_tested(built: Path) -> None:
    """It has the tests, examples, docs and commands."""
    [file] = built.glob("*.tar.gz")
    with tarfile.open(file) as archive:
        tops = {name.split("/")[1] for name in archive.getnames()}

    wanted = {"factmem", "tests", "examples", "docs", "README.md", "CHANGELOG.md", "Makefile"}
    assert wanted <= tops
    assert not tops & {".venv", ".git", "dist", "build"}


def test_the_changelog_has_this_version() -> None:
    """A release needs an entry."""
    text = (ROOT / "CHANGELOG.md").read_text()
    versions = re.findall(r"^## \[?([^\]\s]+)", text, flags=re.MULTILINE)

    assert factmem.__version__ in versions
    assert "### On-disk format" in text
