"""Files that were made to harm are refused whole, quickly, and without filling the memory."""

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.storm
def test_a_hostile_file_is_imported_whole_or_not_at_all(tmp_path: Path, thorough: bool) -> None:
    """Nests of 300 levels and 1e400 were noticed by the store, after earlier places."""
    count = 50 if thorough else 20
    command = [sys.executable, "-m", "tests.transfer.hostile_files", str(count), "7"]
    done = subprocess.run([*command, str(tmp_path)], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    printed = [json.loads(line) for line in done.stdout.splitlines()]
    results, used = printed[::2], printed[1::2]
    assert (len(results), len(used)) == (count, count)
    for (name, code, problems, places, is_expected), (seconds, megabytes) in zip(
        results, used, strict=True
    ):
        assert is_expected, name
        if name in {"m.jsonl", "koog"} and places:  # one bad record drops no other, and is named
            assert bool(code) == bool(problems), name
        else:
            assert places == 0 or code == 0, name
        assert code or name not in {"b.jsonl", "r.jsonl", "t.csv"} or (problems, places) == (0, 2)
        assert seconds < 30, name
        assert megabytes < 200, name
