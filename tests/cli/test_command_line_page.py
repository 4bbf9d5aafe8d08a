"""Every command has a section and an example in docs/command-line.md, with the output it prints."""

import re
import runpy
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from factmem._cli.application import app
from factmem._cli.output import ExitCode

PAGE = Path(__file__).parents[2] / "docs" / "command-line.md"

_FENCE = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_VARYING = (
    (re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z"), "<stamp>"),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\dZ"), "<time>"),
    (re.compile(r"\d{4}-\d\d-\d\d"), "<day>"),
    (re.compile(r"\b[0-9a-f]{16,}\b"), "<id>"),
    (re.compile(r"\b\d{1,3},\d{3}\b|\b\d{3,}\b"), "<size>"),
    (re.compile(r" +"), " "),
)


def _normal(text: str) -> list[str]:
    """Return output without the parts that differ between runs."""
    for pattern, name in _VARYING:
        text = pattern.sub(name, text)
    return [line.rstrip() for line in text.splitlines() if line.strip()]


def run_page(text: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, Result, str]]:
    """Run a page's examples in the current folder; yield the command, the result and the page's."""
    runner = CliRunner()
    for language, settings, body in _FENCE.findall(text):
        if file := re.search(r'file="([^"]+)"', settings):
            Path(file[1]).write_text(body)
        if language != "console" or "skip=" in settings:
            continue
        for example in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
            command, _, expected = example.partition("\n")
            program, *arguments = shlex.split(command)
            if program == "export":
                monkeypatch.setenv(*arguments[0].split("=", 1))
            elif program == "python":
                runpy.run_path(arguments[0], run_name="__main__")
            elif program == "factmem":
                yield command, runner.invoke(app, arguments), expected


def test_examples_print_what_the_page_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader who types an example gets the output that the page shows."""
    monkeypatch.chdir(tmp_path)
    for command, done, expected in run_page(PAGE.read_text(), monkeypatch):
        assert _normal(done.output) == _normal(expected), command


def _commands(
    group: typer.core.TyperGroup, *names: str
) -> Iterator[tuple[str, typer.core.TyperCommand]]:
    for name, command in group.commands.items():
        if isinstance(command, typer.core.TyperGroup):
            yield from _commands(command, *names, name)
        elif isinstance(command, typer.core.TyperCommand):
            yield " ".join([*names, name]), command


def _group() -> typer.core.TyperGroup:
    group = typer.main.get_command(app)
    assert isinstance(group, typer.core.TyperGroup)
    return group


def _sections() -> dict[str, str]:
    page = PAGE.read_text()
    return dict(re.findall(r"^## ([^\n]*)\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL))


def test_every_command_has_a_section_and_an_example() -> None:
    """A command that is missing on the page fails here."""
    sections = _sections()

    commands = [name for name, _ in _commands(_group())]

    assert len(commands) >= 25
    for name in commands:
        assert name in sections, f"docs/command-line.md has no section '## {name}'"
        shown = re.search(rf"^\$ factmem (--?[\w-]+ \S+ )*{name}\b", sections[name], re.MULTILINE)
        assert shown, f"the section '## {name}' has no example"


_EVERYWHERE = {"--json", "--yes", "--reveal"}
"""Options that the page describes once."""


def test_every_option_is_on_the_page() -> None:
    """It is in the section of its command; of two opposite options, one is enough."""
    page, sections = PAGE.read_text(), _sections()
    for option in _group().params:
        assert option.opts[0] in page, f"docs/command-line.md does not name {option.opts[0]}"
    for name, command in _commands(_group()):
        for option in command.params:
            named = {each for each in [*option.opts, *option.secondary_opts] if each[:2] == "--"}
            text = page if named & _EVERYWHERE else sections[name]
            assert not named or any(each in text for each in named), (name, named)


def test_every_exit_code_is_in_the_table() -> None:
    """The table has no other codes."""
    table = PAGE.read_text().partition("## Exit codes")[2].partition("## ")[0]

    assert [int(each) for each in re.findall(r"^\| (\d+) \|", table, re.MULTILINE)] == [*ExitCode]
