"""mypy refuses each wrong call with a message that names the mistake."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.types

ROOT = Path(__file__).parents[2]
CALLS = ROOT / "tests" / "typing" / "wrong_calls.py"
IGNORE = re.compile(r"  # type: ignore\[([a-z-]+)\]")


def test_mypy_refuses_the_wrong_calls_and_no_other(tmp_path: Path) -> None:
    """Without the comments that allow them, every wrong call is an error of its own line."""
    pytest.importorskip("mypy")
    source = CALLS.read_text()
    expected = {
        number: match[1]
        for number, line in enumerate(source.splitlines(), start=1)
        if (match := IGNORE.search(line))
    }
    bare = tmp_path / "bare.py"
    bare.write_text(IGNORE.sub("", source))

    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", str(bare)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    errors = re.findall(r"bare\.py:(\d+): error: (.*)  \[([a-z-]+)\]", done.stdout)

    assert {int(number): code for number, _, code in errors} == expected, done.stdout
    mistakes = ("type parameter", "Concept[str, ", "List item")
    assert all(any(mistake in message for mistake in mistakes) for _, message, _ in errors)
