"""The programs of the page on PostgreSQL, and the example, run against the test server."""

import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import psycopg
import pytest

from tests.postgres.cluster import Cluster

PAGE = Path(__file__).parent.parent.parent / "docs" / "postgres.md"
EXAMPLE = PAGE.parent.parent / "examples" / "postgres_tenants.py"
PROGRAMS = re.findall(r"^```python[^\n]*\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def database(cluster: Cluster) -> str:
    """Return the URL of an empty database with the role that the page grants rights to."""
    with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
        connection.execute("CREATE DATABASE docs")
        connection.execute("CREATE ROLE factmem_app")
    return cluster.dsn(database="docs")


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_programs_run_as_printed(
    number: int,
    database: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """With the test server in the place of the page's hosts."""
    monkeypatch.chdir(tmp_path)
    program = re.sub(r'"host=db1,db2 dbname=app user=\w+"', repr(database), PROGRAMS[number])
    assert repr(database) in program

    exec(compile(program, str(PAGE), "exec"), vars(ModuleType("__main__")))

    printed = capsys.readouterr().out.splitlines()
    assert printed == re.findall(r"#> (.*)", program)


def test_the_example_runs_against_a_server(database: str, tmp_path: Path) -> None:
    """`tests/test_examples.py` runs it without one."""
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLE)],
        cwd=tmp_path,
        env={**os.environ, "DATABASE_URL": database},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "another host reads: Busan",
        "another tenant reads: []",
        "place: product/my-app user(alice)",
        "erased 1; copies remain: True",
        "final",
    ]
