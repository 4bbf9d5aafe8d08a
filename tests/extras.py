"""Resolves every pair of extras: those that the page names exclude each other, all others do not.

    python -m tests.extras [EXTRA ...]

It asks the package index, by `uv`, which resolves a pair in a second.
"""

import re
import subprocess
import sys
import tomllib
from itertools import combinations
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "frameworks.md"
PYTHON = "3.12"
"""A version that all frameworks support."""


def extras() -> dict[str, list[str]]:
    """Return the requirements of each extra."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found: dict[str, list[str]] = project["optional-dependencies"]
    return found


def excluding() -> set[frozenset[str]]:
    """Return the pairs that the page names, in the rows of its table."""
    rows = re.findall(r"^\| `([\w-]+)` \| (`.*`) \|", PAGE.read_text(), flags=re.MULTILINE)
    pairs = ((one, other) for one, others in rows for other in re.findall(r"`([\w-]+)`", others))
    return {frozenset(pair) for pair in pairs if set(pair) <= extras().keys()}


def is_resolved(*names: str) -> bool:
    """Return whether versions of all packages of some extras fit together."""
    command = [
        "uv",
        "pip",
        "compile",
        "-q",
        "--python-version",
        PYTHON,
        "--prerelease",
        "if-necessary-or-explicit",
    ]
    wanted = [f"--extra={name}" for name in names]
    done = subprocess.run(
        [*command, *wanted, "pyproject.toml"], cwd=ROOT, capture_output=True, check=False
    )
    return done.returncode == 0


def main(named: list[str]) -> None:
    """Resolve the pairs of the named extras with all others, or all pairs."""
    wrong = list[str]()
    for pair in combinations(extras(), 2):
        if named and not set(named) & set(pair):
            continue
        if is_resolved(*pair) == (frozenset(pair) in excluding()):
            wrong.append(" and ".join(pair))
            print("the page is wrong about", wrong[-1], flush=True)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main(sys.argv[1:])
