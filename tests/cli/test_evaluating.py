"""The group eval: the walk of docs/evaluate.md, and what its commands refuse."""

import json
import re
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from factmem._cli.application import app
from factmem._cli.output import ExitCode
from factmem.evaluation import EvalReport
from tests.cli.test_command_line_page import run_page
from tests.cli.test_commands import ALICE, call

PAGE = Path(__file__).parents[2] / "docs" / "evaluate.md"
_TIME = re.compile(r"\d+(\.\d+)?( ms| before| after)")

CODES = {"eval run": ExitCode.FAILED, "eval compare": ExitCode.FAILED}
"""The exit codes of the walk: each of its runs has a failed case."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Run in an empty folder, from which an application can be imported."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delenv("FACTMEM_STORE", raising=False)
    return tmp_path


def test_the_walk_prints_what_the_page_says(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stranger drafts, accepts and runs cases, breaks the memory, and is told which case."""
    page = PAGE.read_text(encoding="utf-8")
    for command, done, expected in run_page(page, monkeypatch):
        assert _TIME.sub("#", done.output) == _TIME.sub("#", expected), command
        assert done.exit_code == CODES.get(" ".join(command.split()[1:3]), 0), command
        monkeypatch.delitem(sys.modules, "my_app", raising=False)  # as a new process

    report = EvalReport.from_json((folder / "report.json").read_text(encoding="utf-8"))
    assert [each.outcome for each in report.results] == ["found", "silent", "answered"]
    assert report.results[0].rank == 1
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "What is the pet called?" in page
    assert "<script" not in page


def _cases(folder: Path, *cases: dict[str, object]) -> str:
    (folder / "cases.jsonl").write_text("\n".join(map(json.dumps, cases)), encoding="utf-8")
    return "cases.jsonl"


def test_a_store_is_asked_without_an_application(folder: Path) -> None:
    """In all of its places; a case may name one."""
    store = ["--store", "memory"]
    call(*store, "set", ALICE, "pets", "Miso", "Rex", "--type", "text", "--multiple")
    call(*store, "set", "product/my-app/user/bob", "pets", "Nero", "--type", "text", "--multiple")
    asked = {"question": "Which pets?", "expect": ["miso", "Rex"]}
    alice = ["product", "my-app", "user", "alice"]
    cases = _cases(
        folder, {"id": "all", **asked}, {"id": "hers", **asked, "place": alice, "erased": ["Nero"]}
    )

    printed = call(*store, "eval", "run", cases, "--json")

    assert json.loads(printed)["outcomes"] == {"found": 2}


def test_cases_are_accepted_one_by_one(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not accepted is removed, and is not run before."""
    answers = iter([True, False])
    monkeypatch.setattr("factmem._cli.evaluating._is_wanted", lambda: next(answers))
    draft = {"question": "Which pets?", "expect": ["Miso"], "accepted": False}
    cases = _cases(folder, {**draft, "id": "1"}, {**draft, "id": "2"})
    call("--store", "memory", "set", ALICE, "pets", "Miso", "--type", "text")
    call("--store", "memory", "eval", "run", cases, code=ExitCode.NOTHING)

    assert "1 accepted case, 1 removed" in call("eval", "accept", cases)

    assert "1 of 1 cases passed" in call("--store", "memory", "eval", "run", cases)


def test_values_of_an_encrypted_store_need_reveal(folder: Path) -> None:
    """A report has the facts that were found."""
    call("keys", "generate", "store.key")
    store = ["--store", "memory", "--key-file", "store.key"]
    call(*store, "set", ALICE, "pets", "Miso", "--type", "text")
    cases = _cases(folder, {"id": "1", "question": "Which pets?", "expect": ["Miso"]})

    call(*store, "eval", "run", cases, "--out", "report.json", code=ExitCode.REFUSED)
    assert not (folder / "report.json").exists()
    call(*store, "eval", "run", cases, "--out", "report.json", "--reveal")
    assert "Miso" in (folder / "report.json").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["eval", "run", "none.jsonl"], "No such file"),
        (["eval", "run", "wrong.jsonl"], "Line 1 is not a case"),
        (["eval", "run", "wrong.jsonl", "--out", "report.txt"], "--out must end in"),
        (["eval", "compare", "wrong.jsonl", "wrong.jsonl"], "not a report"),
        (["eval", "draft", "wrong.jsonl", "--model", "my_app:NONE"], "no chats"),
        (["eval", "draft", "chats.json", "--model", "ollama:"], "name of a chat model must have"),
    ],
)
def test_wrong_files_and_names_are_told(folder: Path, arguments: list[str], problem: str) -> None:
    """In one line, with the file."""
    (folder / "wrong.jsonl").write_text('{"id": "1"}\n', encoding="utf-8")
    (folder / "chats.json").write_text('[{"role": "user", "content": "Hi"}]', encoding="utf-8")

    done = CliRunner().invoke(app, ["--store", "memory", *arguments])

    assert problem in done.output
    assert done.exit_code in {ExitCode.USAGE, ExitCode.FAILED}
