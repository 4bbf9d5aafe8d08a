"""The programs and commands of the README run in order, and again in the same folder."""

import re
import shlex
import sys
from pathlib import Path
from types import ModuleType

import pytest
from typer.testing import CliRunner

from factmem._cli.application import app
from tests.test_docs import Block, blocks_of, run_block

README = Path(__file__).parents[2] / "README.md"


def run_commands(block: Block) -> dict[str, str]:
    """Run the `factmem` commands of a block and return the output of each."""
    printed: dict[str, str] = {}
    for line in re.findall(r"^\$ (factmem .*)$", block.code, re.MULTILINE):
        arguments = shlex.split(line)[1:] + ["--yes"] * (" erase " in line)  # there is no terminal
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, f"{line}: {result.output}"
        printed[line] = result.output
    return printed


def test_the_whole_readme_runs_twice_in_one_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader who runs a program again, or after the commands, gets the same output."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    for _ in range(2):
        module = ModuleType("__main__")
        monkeypatch.setitem(sys.modules, "__main__", module)
        commands: dict[str, str] = {}
        for block in blocks_of(README):
            if "skip" in block.settings:
                continue
            if block.language == "python":
                assert run_block(block, module) == block.expected, f"line {block.line}"
            elif block.language == "console":
                commands |= run_commands(block)

        [recalled] = [text for line, text in commands.items() if " recall " in line]
        assert "Miso" in recalled


@pytest.mark.storm
def test_programs_run_again_after_commands_that_erase_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A value saved on the command line does not change the output of the programs."""
    monkeypatch.chdir(tmp_path)
    blocks = [block for block in blocks_of(README) if "skip" not in block.settings]
    programs = [block for block in blocks if block.language == "python"]
    [saves] = [block for block in blocks if "factmem --store memory set" in block.code]
    for _ in range(2):
        module = ModuleType("__main__")
        monkeypatch.setitem(sys.modules, "__main__", module)
        run_commands(saves)
        for block in programs:
            assert run_block(block, module) == block.expected, f"line {block.line}"


def test_nothing_is_erased_before_a_later_command_needs_it() -> None:
    """The command that erases Alice comes last, also after those that need a server."""
    commands = re.findall(r"^\$ (factmem .*)$", README.read_text(), re.MULTILINE)

    assert [" erase " in command for command in commands] == [False] * (len(commands) - 1) + [True]
