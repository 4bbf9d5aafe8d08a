"""The commands on stores in PostgreSQL, plain and encrypted, give the same results as on files."""

import uuid
from pathlib import Path

import pytest

from factmem._cli.output import ExitCode
from tests.cli.test_commands import ALICE, MEM0, ask, call
from tests.postgres.cluster import Cluster


def _url(cluster: Cluster) -> str:
    return f"postgresql://postgres@127.0.0.1:{cluster.port}/postgres"


@pytest.fixture(params=["plain", "encrypted"])
def store(request: pytest.FixtureRequest, cluster: Cluster, tmp_path: Path) -> list[str]:
    """Return the options of a store that does not exist yet."""
    named = ["--store", _url(cluster), "--store-name", f"cli-{uuid.uuid4().hex[:12]}"]
    if request.param == "encrypted":
        key = str(tmp_path / "store.key")
        call("keys", "generate", key)
        named += ["--key-file", key]
    return named


def test_commands_answer_as_on_files(store: list[str], tmp_path: Path) -> None:
    """The test runs from the first save to the erasure."""
    call(*store, "set", ALICE, "age", "36", "--type", "integer")
    call(*store, "set", ALICE, "age", "37")
    call(*store, "set", ALICE, "pets", "Miso", "Rex", "--type", "text", "--multiple")
    call(*store, "set", ALICE, "age", "old", code=ExitCode.USAGE)

    assert [place["count"] for place in ask(*store, "places")] == [3]
    assert ask(*store, "show", ALICE, "age", "--reveal")[0]["value"] == 37
    assert len(ask(*store, "history", ALICE, "age", "--reveal")) == 2
    assert ask(*store, "why", ALICE, "age", "--reveal")[0]["sources"]
    assert ask(*store, "recall", "which pets", "--reveal")[0]["keyword"] == "pets"
    assert ask(*store, "stats")["values"] == 3
    assert ask(*store, "doctor") == {"places": 1, "findings": []}
    assert ask(*store, "forget", ALICE, "pets", "--value", "Rex", "--yes")["forgotten"] == 1

    anchor, bundle = str(tmp_path / "anchor"), str(tmp_path / "bundle.jsonl")
    call(*store, "anchor", "--out", anchor)
    assert ask(*store, "verify", "--anchor", anchor)["is_anchored"]
    assert ask(*store, "export", bundle, "--reveal")["entries"] == 4
    copy = ["--store", str(tmp_path / "copy")]
    assert ask(*copy, "import", bundle)["new"] == 4
    assert ask(*store, "import", bundle)["new"] == 0
    call(*store, "compact", "--yes")
    assert len(ask(*store, "history", ALICE, "age", "--reveal")) == 1
    assert ask(*store, "erase", ALICE, "--yes")["count"] == 2
    assert ask(*store, "places", code=ExitCode.NOTHING) == []


def test_rows_and_keys(store: list[str], tmp_path: Path) -> None:
    """Rows are imported once; keys rotate; commands for files only raise a clear error."""
    rows = tmp_path / "rows.csv"
    rows.write_text(
        f"place,keyword,value,type\n{ALICE},city,Berlin,text\n{ALICE},city,Paris,text\n"
    )
    assert ask(*store, "import", str(rows))["new"] == 2
    assert ask(*store, "import", str(rows))["new"] == 0
    memories = ["import", str(MEM0), "--place", "product/other/user"]
    assert [ask(*store, *memories)["new"] for _ in range(2)] == [3, 0]
    for command in (["backup", str(tmp_path / "b")], ["salvage", str(tmp_path / "s")]):
        assert "database" in call(*store, *command, code=ExitCode.USAGE)
    if "--key-file" in store:
        other = str(tmp_path / "other.key")
        call("keys", "generate", other)
        call(*store, "keys", "rotate", "--key-file", other, "--yes")
        assert len(ask(*store[:-1], other, "keys", "list")["keys"]) == 1
        call(*store, "show", ALICE, "--reveal", code=ExitCode.KEY)
    else:
        call(*store, "keys", "list", code=ExitCode.USAGE)
