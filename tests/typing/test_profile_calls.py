"""mypy and pyright refuse each wrong use of a profile, with a message that names the mistake."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.types

ROOT = Path(__file__).parents[2]
RIGHT = ROOT / "tests" / "typing" / "profile_calls.py"
WRONG = json.loads((ROOT / "tests" / "data" / "wrong_profile_calls.json").read_text())
"""Wrong uses, each with what the two checkers of types say to it."""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[int, int]]:
    """Return a program with the right and the wrong uses, and the wrong ones by their lines."""
    lines = [*RIGHT.read_text().splitlines(), "", "", "async def wrong("]
    lines += ["    memory: AgentMemory, me: Traveller", ") -> None:"]
    numbers: dict[int, int] = {}
    for number, wrong in enumerate(WRONG):
        lines.append(f"    {wrong['statement']}")
        numbers[len(lines)] = number
    path = tmp_path_factory.mktemp("typing") / "program.py"
    path.write_text("\n".join(lines) + "\n")
    return path, numbers


def test_mypy(program: tuple[Path, dict[int, int]]) -> None:
    """With no configuration but strict: an application need not have pydantic's plugin."""
    pytest.importorskip("mypy")
    path, numbers = program
    settings = path.with_name("mypy.ini")
    # Reading the thousands of modules of openai, of which no message speaks, took most of the time.
    settings.write_text("[mypy]\nstrict = true\n[mypy-numpy.*,openai.*]\nfollow_imports = skip\n")
    command = [
        sys.executable,
        "-m",
        "mypy",
        f"--config-file={settings}",
        "--follow-imports=silent",
        "--cache-dir=/dev/null",  # other options than the project's would empty its cache
    ]

    done = subprocess.run([*command, path], cwd=ROOT, capture_output=True, text=True, check=False)

    found: dict[int, str] = {}
    for number, message in re.findall(r"program\.py:(\d+): error: (.*)  \[", done.stdout):
        found.setdefault(numbers.get(int(number), -int(number)), message)
    assert found == {number: wrong["mypy"] for number, wrong in enumerate(WRONG)}, done.stdout


def test_pyright(program: tuple[Path, dict[int, int]]) -> None:
    """In strict mode."""
    pytest.importorskip("pyright")
    path, numbers = program
    settings = {"include": ["."], "extraPaths": [str(ROOT)], "typeCheckingMode": "strict"}
    (path.parent / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "--outputjson"]

    done = subprocess.run(
        [*command, "-p", path.parent], cwd=path.parent, capture_output=True, text=True, check=False
    )

    found: dict[int, str] = {}
    for each in json.loads(done.stdout)["generalDiagnostics"]:
        number = int(each["range"]["start"]["line"]) + 1
        is_noise = each["rule"] in {"reportUnusedExpression", "reportUnknownMemberType"}
        if not is_noise:
            found.setdefault(numbers.get(number, -number), each["message"].splitlines()[0])
    assert found == {number: wrong["pyright"] for number, wrong in enumerate(WRONG)}
    assert len(WRONG) >= 20
