"""The programs of the page on PostgreSQL run against the test server."""

import re
from pathlib import Path
from types import ModuleType

import psycopg
import pytest

from factmem.storage.encryption import Aes256GCMEncryptor
from tests.postgres.cluster import Cluster
from tests.postgres.conftest import Login

PAGE = Path(__file__).parent.parent.parent / "docs" / "postgres.md"
PROGRAMS = re.findall(r"^```python[^\n]*\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def database(cluster: Cluster, login: Login) -> str:
    """Return a connection string of an empty database; the page names its role "app", as `login`."""
    with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
        connection.execute("CREATE DATABASE docs")
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
    monkeypatch.setenv("TENANT_7_KEY", Aes256GCMEncryptor.generate_key())
    program = re.sub(r'"host=db1,db2 dbname=app user=\w+"', repr(database), PROGRAMS[number])
    assert database in program

    exec(compile(program, str(PAGE), "exec"), vars(ModuleType("__main__")))

    printed = capsys.readouterr().out.splitlines()
    assert printed == re.findall(r"#> (.*)", program)
