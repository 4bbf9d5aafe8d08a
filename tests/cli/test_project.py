"""Project files: options that need not be typed, and what such a file must not do."""

import json
import os
from pathlib import Path

import pytest

from factmem._cli.opening import project_of
from factmem._cli.options import Options
from factmem._cli.output import CommandError, ExitCode
from tests.cli.test_commands import ALICE, call
from tests.tables import table

BOB = "product/my-app/user/bob"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Run in a folder inside a project."""
    inside = tmp_path / "project" / "src"
    inside.mkdir(parents=True)
    monkeypatch.chdir(inside)
    monkeypatch.delenv("FACTMEM_STORE", raising=False)
    return inside.parent


@pytest.mark.parametrize(
    ("name", "head"), [("factmem.toml", ""), ("pyproject.toml", "[tool.factmem]\n")]
)
def test_a_file_names_store_key_and_place(folder: Path, name: str, head: str) -> None:
    """From any folder of the project; paths are relative to the file."""
    call("keys", "generate", str(folder / "store.key"))
    (folder / name).write_text(
        f'{head}store = "memory"\nkey-file = "store.key"\nplace = "{ALICE}"\n', encoding="utf-8"
    )
    for place in (ALICE, BOB):
        call("set", place, "pets", "Miso", "--type", "text")

    assert (folder / "memory" / "facts.db").exists()
    found = json.loads(call("recall", "Which pets?", "--json", "--reveal"))
    assert [each["place"] for each in found] == [ALICE]
    there = json.loads(call("recall", "pets", "--place", BOB, "--json", "--reveal"))
    assert [each["place"] for each in there] == [BOB]
    call("recall", "Which pets?", code=ExitCode.REFUSED)


def test_options_come_before_the_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the command, then FACTMEM_STORE, then the file."""
    (folder / "factmem.toml").write_text('store = "memory"\n', encoding="utf-8")
    call("--store", "other", "set", ALICE, "city", "Busan", "--type", "text")
    monkeypatch.setenv("FACTMEM_STORE", "third")
    call("set", ALICE, "city", "Seoul", "--type", "text")

    assert not (folder / "memory").exists()
    assert "Busan" in call("--store", "other", "show", ALICE)
    assert "Seoul" in call("show", ALICE)


def test_the_nearest_file_counts(folder: Path) -> None:
    """And none beyond the root of the repository."""
    (folder / "factmem.toml").write_text('store = "outer"\n', encoding="utf-8")
    inside = folder / "src"
    assert project_of(inside).store == str(folder / "outer")

    (inside / "pyproject.toml").write_text('[project]\nname = "app"\n', encoding="utf-8")
    assert project_of(inside).store == str(folder / "outer")
    (inside / ".git").mkdir()
    assert project_of(inside) == Options()
    (inside / "factmem.toml").write_text('store = "inner"\n', encoding="utf-8")
    assert project_of(inside).store == str(inside / "inner")


@table(
    ("text", "problem"),
    [
        ("store = 1", "store must be a string"),
        ('keyring = "yes"', "keyring must be true"),
        ('stor = "memory"', "not 'stor'"),
        ("store = ", "cannot be read"),
        ('embedder = "my_app:EMBEDDER"', "embedder must be one of"),
        ('concepts = "my_app:CONCEPTS"', "not 'concepts'"),
    ],
)
def test_a_wrong_file_is_an_error(tmp_path: Path, text: str, problem: str) -> None:
    """Also one that would run code of the folder."""
    (tmp_path / "factmem.toml").write_text(text, encoding="utf-8")

    with pytest.raises(CommandError, match=problem):
        project_of(tmp_path)


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="Windows has no owners of this kind")
def test_a_file_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a shared folder, that user could choose where your facts are saved."""
    (tmp_path / "factmem.toml").write_text('store = "memory"\n', encoding="utf-8")
    owner = (tmp_path / "factmem.toml").stat().st_uid
    if owner == 0:
        os.chown(tmp_path / "factmem.toml", 12345, -1)
    else:
        monkeypatch.setattr(os, "getuid", lambda: owner + 1)

    with pytest.raises(CommandError, match="another user") as refused:
        project_of(tmp_path)
    assert refused.value.code is ExitCode.REFUSED
