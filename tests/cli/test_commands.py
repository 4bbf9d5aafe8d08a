"""Commands on plain and encrypted stores: results, refusals, exit codes."""

import json
import os
import re
import resource
import signal
import sqlite3
import sys
import unicodedata
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest
import typer
from typer.testing import CliRunner

from factmem import (
    Concept,
    FactSource,
    Key,
    LocalFileMemoryProvider,
    MemoryScope,
    MemorySubject,
    Place,
    SingleFact,
    SourceKind,
    acting,
)
from factmem._cli import commands, main, opening, options, output
from factmem._cli.application import app
from factmem._cli.commands import EXAMPLES, GROUPS
from factmem._cli.output import CommandError, ExitCode
from factmem._cli.targets import parse_place, place_name
from factmem.models import FactState
from factmem.models._display import shown
from factmem.testing.clock import SettableClock

ALICE = "product/my-app/user/alice"
Run = Callable[..., str]


@pytest.fixture(params=["plain", "encrypted"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> list[str]:
    """Return the options of a store that does not exist yet."""
    named = ["--store", str(tmp_path / "memory")]
    if request.param == "encrypted":
        key = str(tmp_path / "store.key")
        call("keys", "generate", key)
        named += ["--key-file", key]
    return named


def call(*arguments: str, code: int = 0, stdin: str | None = None) -> str:
    """Run a command, check its exit code, and return what it printed."""
    done = CliRunner().invoke(app, [*arguments], input=stdin)
    assert done.exit_code == code, done.output
    return done.output


def ask(*arguments: str, code: int = 0) -> Any:
    """Run a command and return its JSON."""
    return json.loads(call(*arguments, "--json", code=code))


def fill(store: list[str]) -> None:
    """Save three keywords."""
    call(*store, "set", ALICE, "ide-theme", "dark", "--type", "text")
    call(*store, "set", ALICE, "age", "36", "--type", "integer")
    call(*store, "set", ALICE, "pets", "Miso", "Rex", "--type", "text", "--multiple")


def damage(folder: Path, statement: str) -> None:
    """Run a statement on the closed database of a store."""
    with closing(sqlite3.connect(folder / "facts.db")) as database, database:
        assert database.execute(statement).rowcount == 1


def test_set_show_history_forget_erase(store: list[str]) -> None:
    """The output is JSON from the first save of a value to its erasure."""
    fill(store)
    call(*store, "set", ALICE, "age", "37")

    facts = {each["keyword"]: each for each in ask(*store, "show", ALICE, "--reveal")}
    assert facts["age"]["value"] == 37
    assert facts["pets"]["values"] == ["Miso", "Rex"]
    changes = ask(*store, "history", ALICE, "age", "--reveal")
    assert [each["fact"]["value"] for each in changes] == [36, 37]
    [why] = ask(*store, "why", ALICE, "age", "--reveal")
    assert why["sources"] == [{"kind": "code", "conversation": "command line"}]
    [match] = ask(*store, "recall", "which pets", "--limit", "1", "--reveal")
    assert match["keyword"] == "pets"

    assert ask(*store, "forget", ALICE, "age", "--value", "37", "--yes")["forgotten"] == 1
    call(*store, "show", ALICE, "age", "--reveal", code=ExitCode.NOTHING)
    [place] = ask(*store, "places")
    assert (place["place"], place["count"]) == (ALICE, 3)
    receipt = ask(*store, "erase", ALICE, "--yes")
    assert (receipt["place"], receipt["count"]) == (ALICE, 3)
    assert (receipt["copies_remain"], receipt["is_shreddable"]) == (False, False)
    assert "No place has facts" in call(*store, "places", code=ExitCode.NOTHING)


def test_a_value_begins_and_ends(store: list[str]) -> None:
    """A planned value is shown as such, and `--valid-at` asks about any time."""
    call(*store, "set", ALICE, "job", "Naver", "--type", "text", "--since", "2024")
    call(*store, "set", ALICE, "job", "Kakao", "--since", "2999-03", "--until", "2999-05")

    naver, kakao = ask(*store, "show", ALICE, "job", "--reveal")
    assert (naver["value"], "planned" in naver) == ("Naver", False)
    assert (kakao["value"], kakao["planned"], kakao["since"]) == ("Kakao", True, "2999-03")
    [then] = ask(*store, "show", ALICE, "--valid-at", "2999-05-31", "--reveal")
    assert then["value"] == "Kakao"
    for command in (["history", ALICE, "job"], ["log", ALICE]):
        actions = [each["action"] for each in ask(*store, *command, "--reveal")]
        assert sorted(actions) == ["planned", "saved"]
    [lately] = ask(*store, "show", ALICE, "--valid-at", "7d", "--reveal")
    assert lately["value"] == "Naver"
    call(*store, "set", ALICE, "city", "Busan", "--type", "text", "--until", "2020")
    assert ask(*store, "forget", ALICE, "city", "--value", "Busan", "--yes")["forgotten"] == 1
    nothing = [*store, "show", ALICE, "--reveal", "--valid-at"]
    call(*nothing, "2019", code=ExitCode.NOTHING)
    call(*nothing, "2999-06", code=ExitCode.NOTHING)
    call(*nothing, "soon", code=ExitCode.USAGE)


def test_a_tenants_user_is_a_place_of_five_names(tmp_path: Path) -> None:
    """Each level is a part of the name, and its own `/` is encoded."""
    store = ["--store", str(tmp_path / "memory")]
    names = ["product/my-app/user/acme%2Feu/alice", "product/my-app/user/acme%2Feu"]
    for name in names:
        call(*store, "set", name, "age", "36", "--type", "integer")

    assert {place["place"] for place in ask(*store, "places")} == set(names)
    assert str(parse_place(names[0])) == "product/my-app user(acme/eu, alice)"
    assert parse_place(names[0]).subject.levels == ("acme/eu", "alice")


def test_outputs_replace_no_link_and_no_pipe(tmp_path: Path) -> None:
    """As root, an export to /dev/stdout replaced the device. What a link names is written whole."""
    store = ["--store", str(tmp_path / "memory")]
    call(*store, "set", ALICE, "age", "36", "--type", "integer")
    link, pipe = tmp_path / "link", tmp_path / "pipe"
    os.mkfifo(pipe)
    for command in (["anchor", "--out"], ["export"], ["keys", "generate"]):
        other = tmp_path / command[0]
        link.unlink(missing_ok=True)
        link.symlink_to(other)
        call(*store, *command, str(link))
        assert (link.is_symlink(), other.stat().st_size > 40) == (True, True)

        reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)  # a writer does not wait for it
        call(*store, *command, str(pipe))
        assert (len(os.read(reader, 65_536)) > 40, pipe.is_fifo()) == (True, True)
        os.close(reader)

        # `command /dev/stdout >> log`: the log has what was there, and other programs have it open.
        with (tmp_path / "log").open("w") as log:
            print("before", file=log, flush=True)
            (tmp_path / "output").unlink(missing_ok=True)
            (tmp_path / "output").symlink_to(f"/dev/fd/{log.fileno()}")
            call(*store, *command, str(tmp_path / "output"))
            print("after", file=log, flush=True)
        lines = (tmp_path / "log").read_text().splitlines()
        assert (lines[0], lines[-1], len(lines) > 2) == ("before", "after", True)
    link.unlink()
    link.symlink_to(link)
    assert "symbolic links" in call(*store, "export", str(link), code=1)
    printed = call(*store, "export", str(tmp_path / "none" / "facts"), code=1)
    assert printed.endswith(f"No such file or directory: {tmp_path / 'none'}\n"), printed


def test_what_could_not_be_written_whole_is_not_left(tmp_path: Path) -> None:
    """A key of which a part is missing opens nothing, and a bundle cannot be imported."""
    store = ["--store", str(tmp_path / "memory")]
    call(*store, "set", ALICE, "age", "36", "--type", "integer")
    folder = tmp_path / "out"
    folder.mkdir()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        for command in (["anchor", "--out"], ["export"], ["keys", "generate"]):
            resource.setrlimit(resource.RLIMIT_FSIZE, (20, hard))
            call("--store", str(tmp_path / "memory"), *command, str(folder / "x"), code=1)
            assert [*folder.iterdir()] == []
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, ignored)


def test_a_recall_without_a_match_says_so_and_no_more(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It searched all places: no other product has the facts."""
    store = ["--store", str(tmp_path / "memory")]
    fill(store)

    said = call(*store, "recall", "zzz", code=ExitCode.NOTHING)

    assert said == "factmem: No fact matches the question\n"
    assert caplog.records == []


def test_an_empty_file_is_named_as_such(tmp_path: Path) -> None:
    """It is no other format: --format csv would not help."""
    for name in ("rows.jsonl", "rows.csv"):
        (tmp_path / name).touch()
        said = call(
            "--store", str(tmp_path / "m"), "import", str(tmp_path / name), code=ExitCode.USAGE
        )
        assert said == "factmem: The file is empty: nothing was imported\n"


@pytest.mark.parametrize("command", ["show", "history", "why", "recall"])
def test_values_of_an_encrypted_store_stay_on_the_terminal(tmp_path: Path, command: str) -> None:
    """A pipe gets them only with --reveal."""
    key = str(tmp_path / "k")
    call("keys", "generate", key)
    store = ["--store", str(tmp_path / "memory"), "--key-file", key]
    fill(store)
    asked = {"show": [ALICE], "recall": ["pets Miso"]}.get(command, [ALICE, "pets"])

    call("keys", "generate", f"{key}-2")
    call(*store[:2], "--key-file", f"{key}-2", command, *asked, code=ExitCode.KEY)
    call("--store", "no", *store[2:], command, *asked, code=ExitCode.NOTHING)
    refused = call(*store, command, *asked, code=ExitCode.REFUSED)
    assert "--reveal" in refused
    assert "Miso" not in refused
    assert "Miso" in call(*store, command, *asked, "--reveal")
    call(*store, "export", str(tmp_path / "b.jsonl"), code=ExitCode.REFUSED)
    assert not (tmp_path / "b.jsonl").exists()


@pytest.mark.parametrize("command", [["forget", ALICE, "age"], ["erase", ALICE], ["compact"]])
def test_destructive_commands_ask(
    store: list[str], command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a terminal they refuse; on a terminal, "n" changes nothing and "y" continues."""
    fill(store)
    before = ask(*store, "show", ALICE, "--reveal")

    assert "--yes" in call(*store, *command, code=ExitCode.REFUSED)
    monkeypatch.setattr(options, "_can_ask", lambda: True)
    call(*store, *command, stdin="n\n", code=ExitCode.REFUSED)
    assert ask(*store, "show", ALICE, "--reveal") == before
    call(*store, *command, stdin="y\n")


def test_a_keyword_keeps_its_kind(store: list[str]) -> None:
    """A value of another JSON type is refused in every place, and no message quotes it."""
    fill(store)
    bob = "product/my-app/user/bob"
    for text in ("seven", "3.5", "true", "[7]"):
        printed = call(*store, "set", bob, "age", text, code=ExitCode.USAGE)
        assert "'age' has integer values" in printed
        assert text not in printed
    call(*store, "set", bob, "age", "7", "--type", "text", code=ExitCode.USAGE)
    call(*store, "set", ALICE, "ide-theme", "a", "b", code=ExitCode.USAGE)

    call(*store, "set", bob, "height", "1.7", "--type", "number")
    call(*store, "set", bob, "height", "2")
    call(*store, "set", bob, "home", '{"city": "Paris"}', "--type", "object")
    call(*store, "set", bob, "ide-theme", "36")
    values = {each["keyword"]: each["value"] for each in ask(*store, "show", bob, "--reveal")}
    assert values == {"height": 2.0, "home": {"city": "Paris"}, "ide-theme": "36"}


def test_the_applications_own_types(
    store: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """--concepts validates values with the types that the application uses."""
    (tmp_path / "their_concepts.py").write_text(
        "from datetime import date\nfrom factmem import Concept\n"
        "CONCEPTS = [Concept('born', 'Day of birth', value_type=date)]\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    named = [*store, "--concepts", "their_concepts:CONCEPTS"]

    call(*named, "set", ALICE, "born", "1990-02-30", code=ExitCode.USAGE)
    call(*named, "set", ALICE, "born", "1990-03-01")
    [fact] = ask(*store, "show", ALICE, "born", "--reveal")
    assert (fact["value"], fact["description"]) == ("1990-03-01", "Day of birth")
    sys.modules.pop("their_concepts")
    call(*store, "--concepts", "no_such:X", "places", code=ExitCode.USAGE)
    late = call("places", *store, code=ExitCode.USAGE)
    assert late == "factmem: --store comes before the command: see `factmem --help`\n"
    call(*store, "--concepts", "json:loads", "places", code=ExitCode.USAGE)
    for number, text in enumerate(("1 / 0", "raise SystemExit(0)")):
        (tmp_path / f"broken_{number}.py").write_text(f"\n{text}\n")
        printed = call(*store, "--concepts", f"broken_{number}:X", "places", code=ExitCode.USAGE)
        assert printed.endswith(f"broken_{number}.py, line 2\n"), printed


def test_rows_are_imported_once(store: list[str], tmp_path: Path) -> None:
    """A second import changes nothing; a longer file adds its new rows; a wrong row rejects all."""
    rows = [
        {"place": ALICE, "keyword": "pets", "value": "Miso", "fact_type": "MULTIPLE"},
        {"place": ALICE, "keyword": "pets", "value": "Rex", "fact_type": "MULTIPLE"},
        {"place": "agent/desk/everything", "keyword": "open", "value": True, "importance": 0.9},
    ]
    file = tmp_path / "rows.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)))

    assert ask(*store, "import", str(file))["new"] == 3
    before = ask(*store, "history", ALICE, "pets", "--reveal")
    assert ask(*store, "import", str(file)) == {
        "format": "jsonl",
        "entries": 3,
        "new": 0,
        "skipped": 0,
        "failed": 0,
        "problems": [],
    }
    assert ask(*store, "history", ALICE, "pets", "--reveal") == before
    file.write_text(
        file.read_text() + '\n{"place":"agent/desk/everything","keyword":"n","value":1}'
    )
    assert ask(*store, "import", str(file))["new"] == 1

    file.write_text(
        f'{{"place":"{ALICE}","keyword":"pets","value":"Tom"}}\n'
        f'{{"place":"{ALICE}","keyword":"pets","value":5}}'
    )
    assert "Line 2" in call(*store, "import", str(file), code=ExitCode.USAGE)
    file.write_text(
        f'{{"place":"{ALICE}","keyword":"fresh","value":"1","type":"text"}}\n'
        f'{{"place":"agent/desk/everything","keyword":"fresh","value":1,"type":"integer"}}'
    )
    assert "Line 2" in call(*store, "import", str(file), code=ExitCode.USAGE)
    assert ask(*store, "history", ALICE, "pets", "--reveal") == before


def test_rows_hold_for_a_time(tmp_path: Path) -> None:
    store, file = ["--store", str(tmp_path / "m")], tmp_path / "rows.csv"
    file.write_text(
        "place,keyword,value,type,since,until\n"
        f"{ALICE},city,Berlin,text,2020-05,2022\n{ALICE},city,Paris,text,2023,\n"
    )
    file = file.rename(tmp_path / "rows")  # its name does not show its format
    said = call(*store, "import", str(file), code=ExitCode.USAGE)
    assert "for CSV pass --format csv" in said
    call(*store, "import", str(file), "--format", "csv")

    [paris] = ask(*store, "show", ALICE)
    [berlin] = ask(*store, "show", ALICE, "--valid-at", "2021")
    assert (paris["value"], paris["since"]) == ("Paris", "2023")
    assert (berlin["value"], berlin["since"], berlin["until"]) == ("Berlin", "2020-05", "2022")


@pytest.mark.parametrize(
    "text",
    [
        "keyword,value\nage,1\n",  # no such place
        "place,keyword\nproduct/a/b,age\n",  # no such value
        "place,keyword,value,colour\nproduct/a/b,age,1,red\n",
        "place,keyword,value,type,keyword\nproduct/a/b,age,1,integer,size\n",
        "place,keyword,value,type\nproduct/a/b,age,x,integer\n",
        "place,keyword,value,type\nproduct/a/b,age,1\n",
        "place,keyword,value,type,timestamp\nproduct/a/b,age,1,integer,soon\n",
        'place,keyword,value,type\nproduct/a/b,age,"1,integer\n',
        "place,keyword,value,type,since\nproduct/a/b,age,1,integer,soon\n",
        "place,keyword,value,type\nproduct/a/b,age,\udcff,text\n",
    ],
)
def test_wrong_rows_are_rejected(tmp_path: Path, text: str) -> None:
    """The error has the line number, and nothing is written."""
    file = tmp_path / "rows.csv"
    file.write_bytes(text.encode(errors="surrogateescape"))

    printed = call("--store", str(tmp_path / "m"), "import", str(file), code=ExitCode.USAGE)

    assert "Line" in printed
    assert not (tmp_path / "m").exists()


def test_a_value_that_is_not_current_is_named(tmp_path: Path) -> None:
    """Its period is over, or a machine whose clock is ahead has said something later."""
    store = ["--store", str(tmp_path / "m")]
    assert "it is not current" in call(*store, "set", ALICE, "city", "Rome", "--until", "2020")
    assert "it is not current" not in call(*store, "set", ALICE, "city", "Busan")
    clock = SettableClock(now=datetime.now(UTC) + timedelta(days=1))
    ahead = LocalFileMemoryProvider(tmp_path / "m", clock=clock)
    more: dict[str, Any] = {"timestamp": clock.now, "state": FactState.CONFIRMED, "id": "f" * 26}
    fact = SingleFact(Concept("city", "city"), "Oslo", **more)
    place = parse_place(ALICE)
    anyio.run(ahead.save, fact, place.subject, place.scope)

    assert ask(*store, "set", ALICE, "city", "Seoul")["current"] is False
    assert ask(*store, "show", ALICE)[0]["value"] == "Oslo"


def test_the_end_of_a_name_may_be_decomposed(tmp_path: Path) -> None:
    """As file names of macOS are."""
    store = ["--store", str(tmp_path / "m")]
    call(*store, "set", "product/app/user/앨리스", "age", "3")
    name = unicodedata.normalize("NFD", "앨리스")
    assert ask(*store, "show", name, "age")[0]["place"] == "product/app/user/앨리스"


def test_a_cell_may_be_large(tmp_path: Path) -> None:
    """Python's own limit is 128 KiB."""
    store, file = ["--store", str(tmp_path / "m")], tmp_path / "rows.csv"
    file.write_text(f"place,keyword,value,type\n{ALICE},note,{'x' * 200_000},text\n")
    call(*store, "import", str(file))
    assert len(ask(*store, "show", ALICE, "--reveal")[0]["value"]) == 200_000


def test_bundles_backups_and_restores(store: list[str], tmp_path: Path) -> None:
    """A store is identical after a restore from a bundle or a backup."""
    fill(store)
    facts = ask(*store, "show", ALICE, "--reveal")
    key = store[2:]

    call(*store, "export", str(tmp_path / "b.jsonl"), "--reveal")
    other = ["--store", str(tmp_path / "other"), *key]
    assert ask(*other, "import", str(tmp_path / "b.jsonl"))["new"] == 3
    assert ask(*other, "import", str(tmp_path / "b.jsonl"))["new"] == 0

    backup = str(tmp_path / "backup")
    assert ask(*store, "backup", backup)["places"] == 1
    call(*store, "backup", backup, code=ExitCode.USAGE)
    call(*store, "restore", backup, code=ExitCode.REFUSED)
    assert ask(*store, "restore", backup, "--yes")["erased"] == 0
    back = ["--store", str(tmp_path / "back"), *key]
    call(*back, "restore", backup)
    assert ask(*back, "show", ALICE, "--reveal") == facts
    call(*back, "verify", "--anchor", f"{backup}.anchor")
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "back").iterdir()} == {0o600}


def test_an_erased_place_stays_erased(store: list[str], tmp_path: Path) -> None:
    """The store knows it; receipts in a file replace a store that is lost."""
    fill(store)
    backup, bundle, receipts = (str(tmp_path / name) for name in ("backup", "b.jsonl", "receipts"))
    call(*store, "backup", backup)
    call(*store, "export", bundle, "--reveal")
    Path(receipts).write_text(call(*store, "erase", ALICE, "--yes") * 2)
    back = ["--store", str(tmp_path / "back"), *store[2:]]

    assert "Skipped 3" in call(*store, "import", bundle)
    assert "without 1 that were erased" in call(*store, "restore", backup, "--yes")
    assert "No place has facts" in call(*store, "places", code=ExitCode.NOTHING)
    assert ask(*back, "restore", backup, "--erased", receipts)["erased"] == 1
    assert call(*back, "places", "--json", code=ExitCode.NOTHING) == "[]\n"
    assert ask(*back, "import", bundle, "--erased", receipts)["skipped"] == 3
    Path(receipts).write_text('{"place": 5}')
    call(*back, "import", bundle, "--erased", receipts, code=ExitCode.USAGE)


def test_a_backup_that_was_changed_is_not_restored(store: list[str], tmp_path: Path) -> None:
    """The anchor detects the change, and nothing is created at the target."""
    fill(store)
    backup = tmp_path / "backup"
    call(*store, "backup", str(backup))
    damage(backup, "DELETE FROM entries WHERE number = 3")

    call(
        "--store", str(tmp_path / "back"), *store[2:], "restore", str(backup), code=ExitCode.DAMAGED
    )

    assert not (tmp_path / "back").exists()


def test_doctor_reports_damage_and_salvage_saves_the_rest(store: list[str], tmp_path: Path) -> None:
    """The damaged store is not changed; what can be read of it is in a new store."""
    fill(store)
    assert ask(*store, "doctor") == {"places": 1, "findings": []}
    damage(tmp_path / "memory", "UPDATE entries SET line = x'7b7d' WHERE number = 2")

    told = call(*store, "doctor", code=ExitCode.DAMAGED)
    assert "Entry 2 of a place" in told
    assert "salvage NEW_FOLDER" in told
    call(*store, "show", ALICE, "--reveal", code=ExitCode.DAMAGED)
    call(*store, "verify", code=ExitCode.DAMAGED)

    saved = tmp_path / "saved"
    done = ask(*store, "salvage", str(saved))
    # A sealed line is bound to the one before it.
    missing = 2 if "--key-file" in store else 1
    assert done == {"folder": str(saved), "places": 1, "lost": 0, "missing": missing}
    assert "exists" in call(*store, "salvage", str(saved), code=ExitCode.USAGE)
    call(*store, "doctor", code=ExitCode.DAMAGED)
    copy = ["--store", str(saved), *store[2:]]
    assert ask(*copy, "doctor") == {"places": 1, "findings": []}
    keywords = ["ide-theme", "pets"][: 3 - missing]
    assert [each["keyword"] for each in ask(*copy, "show", ALICE, "--reveal")] == keywords


def test_keys_open_and_protect_a_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys come from files, variables and passphrases; a wrong or missing key is exit code 5."""
    files = [str(tmp_path / name) for name in ("a.key", "b.key")]
    for file in files:
        call("keys", "generate", file)
    assert "exists" in call("keys", "generate", files[0], code=ExitCode.FAILED)
    store = ["--store", str(tmp_path / "memory")]
    first = [*store, "--key-file", files[0]]
    fill(first)
    assert "--key-file" in call(*store, "places", code=ExitCode.KEY)
    call(*store, "--key-file", files[1], "places", code=ExitCode.KEY)
    call(*first, "--key-env", "X", "places", code=ExitCode.USAGE)
    missing = call(*store, "--key-env", "FACTMEM_TEST_NO_KEY", "places", code=ExitCode.KEY)
    assert "'FACTMEM_TEST_NO_KEY' is not set" in missing
    missing = call(*store, "--key-file", str(tmp_path / "none.key"), "places", code=ExitCode.KEY)
    assert "There is no key file" in missing
    (within := tmp_path / "memory" / "a.key").write_bytes(Path(files[0]).read_bytes())
    printed = call(*store, "--key-file", str(within), "places", code=ExitCode.USAGE)
    assert "in the folder of the store" in printed

    assert len(ask(*first, "keys", "add", "--key-file", files[1])["keys"]) == 2
    monkeypatch.setenv("FACTMEM_TEST_KEY", Path(files[1]).read_text().strip())
    second = [*store, "--key-env", "FACTMEM_TEST_KEY"]
    call(*second, "keys", "remove", "--key-file", files[0], code=ExitCode.REFUSED)
    assert len(ask(*second, "keys", "remove", "--key-file", files[0], "--yes")["keys"]) == 1
    call(*first, "places", code=ExitCode.KEY)
    call(*second, "keys", "rotate", "--key-file", files[0], "--yes")
    assert len(ask(*first, "keys", "list")["keys"]) == 1
    call(*second, "places", code=ExitCode.KEY)

    monkeypatch.setattr(opening, "ask_passphrase", lambda _prompt, *, twice: "correct horse")
    call(*first, "keys", "add", "--passphrase")
    assert ask(*store, "--passphrase", "places")[0]["count"] == 4
    call("--store", str(tmp_path / "plain"), "set", ALICE, "a", "b", "--type", "text")
    call("--store", str(tmp_path / "plain"), "keys", "list", code=ExitCode.USAGE)


def test_names_of_any_kind_are_one_word() -> None:
    """A place is parsed back from its word."""
    odd = MemorySubject("a/b c", "", 1, per_entity=True).of("100% 한국\u00a0é")
    place = Place(MemoryScope.Feature("x/y"), odd)

    word = place_name(place)

    assert " " not in word
    assert parse_place(word).identity == place.identity
    for wrong in ("", "product", "product/a", "planet/a/b", "product/a/b/c//d", "product//b"):
        with pytest.raises(CommandError):
            parse_place(wrong)


def test_values_cannot_control_the_terminal(store: list[str]) -> None:
    """Markup is shown literally; escapes, directions and control characters as escapes."""
    evil = "\x1b[31m[bold red]x[/] \x9b2J \u202eabc\u2066 \x07 👨\u200d👩 한국 مرحبا"
    call(*store, "set", ALICE, "note", evil, "--type", "text")

    for arguments in (["show", ALICE], ["history", ALICE, "note"], ["why", ALICE, "note"]):
        for json_option in ([], ["--json"]):
            printed = call(*store, *arguments, "--reveal", *json_option)
            assert not set(printed) & set("\x1b\x9b\u202e\u2066\x07")
            assert "[bold red]x[/]" in printed
            assert "👨\u200d👩 한국 مرحبا" in printed
    assert ask(*store, "show", ALICE, "--reveal")[0]["value"] == evil
    assert shown("a\nb") == "a\\nb"


def test_reading_creates_nothing(tmp_path: Path) -> None:
    """A store that does not exist is exit code 3, and still does not exist afterwards."""
    store = ["--store", str(tmp_path / "none")]
    for command in (
        ["places"],
        ["show", ALICE],
        ["stats"],
        ["doctor"],
        ["backup", "b"],
        ["anchor"],
    ):
        assert "There is no store" in call(*store, *command, code=ExitCode.NOTHING)
    assert not (tmp_path / "none").exists()
    assert "FACTMEM_STORE" in call("places", code=ExitCode.USAGE)


def test_a_password_in_a_url_is_refused() -> None:
    """The list of processes would show it."""
    for url in (
        "postgresql://app:secret@db/app",
        "postgresql://db/app?password=secret",
        "postgresql://db/app?sslpassword=secret",
        "postgresql://app:my#secret@db/app",
        "postgres:/app:secret@db/app",
    ):
        printed = call("--store", url, "places", code=ExitCode.USAGE)
        assert "PGPASSWORD" in printed
        assert "secret" not in printed


def test_errors_of_keys_name_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They advised classes and functions of Python."""
    change = ("--key-env", "MY_KEY", "set", ALICE, "age", "36", "--type", "integer")
    for number, key in enumerate(["", "a passphrase", "c2hvcnQ="]):
        monkeypatch.setenv("MY_KEY", key)
        code = ExitCode.USAGE if key else ExitCode.KEY
        printed = call("--store", str(tmp_path / f"{number}"), *change, code=code)
        assert "`factmem keys generate`" in printed
        assert "Key." not in printed
    monkeypatch.setenv("MY_KEY", Key.generate().to_base64())
    call("--store", str(tmp_path / "plain"), *change[2:])
    printed = call("--store", str(tmp_path / "plain"), *change, code=ExitCode.DAMAGED)
    assert "export its facts" in printed


def test_stats_count_by_place_and_concept(store: list[str]) -> None:
    """The chart is on the page of the command line."""
    fill(store)

    found = ask(*store, "stats")

    assert (found["places"], found["values"], found["saves"]) == (1, 4, 3)
    assert found["concepts"] == {"pets": 2, "ide-theme": 1, "age": 1}


def test_compact_keeps_what_is_current(store: list[str]) -> None:
    """It removes the history."""
    for number in range(5):
        call(*store, "set", ALICE, "n", str(number), "--type", "integer")

    assert ask(*store, "compact", "--yes")["freed_bytes"] > 0
    assert len(ask(*store, "history", ALICE, "n", "--reveal")) == 1
    call(*store, "compact", "--keep-history", "soon", "--yes", code=ExitCode.USAGE)


def test_ctrl_c_prints_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The exit code is 130."""

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(commands, "run", interrupted)

    assert call("--store", str(tmp_path), "places", code=ExitCode.INTERRUPTED) == ""
    monkeypatch.setattr("gc.disable", interrupted)  # before the imports
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == ExitCode.INTERRUPTED


MEM0 = Path(__file__).parent.parent / "data" / "mem0.jsonl"


def test_memories_of_mem0_are_imported_once(store: list[str]) -> None:
    """Each goes to its user and agent; the file format is detected."""
    command = [*store, "import", str(MEM0), "--place", "product/my-app/user"]

    assert ask(*command) == {
        "format": "mem0",
        "entries": 3,
        "new": 3,
        "skipped": 0,
        "failed": 0,
        "problems": [],
    }
    assert ask(*command)["new"] == 0
    refused = call(*command, "--user-field", "agent_id", code=ExitCode.USAGE)
    assert "--user-field is for CrewAI and Graphiti" in refused
    assert [each["place"] for each in ask(*store, "places")] == [
        "agent/desk/user/alice",
        ALICE,
        "product/my-app/user/bob",
    ]
    [fact] = ask(*store, "show", ALICE, "--reveal")
    assert (fact["keyword"], fact["values"]) == ("preferences", ["Prefers Kotlin to Java"])


@pytest.mark.parametrize("is_list", [True, False])
def test_edges_of_graphiti_are_imported_once(
    store: list[str], tmp_path: Path, is_list: bool
) -> None:
    """From a JSON list or JSON Lines. A broken line is a problem, and the rest is imported."""
    file = tmp_path / "edges.json"
    edge = {"uuid": "e1", "fact": "Lives in Busan", "name": "LIVES_IN", "group_id": "alice"}
    edge |= {"created_at": "2024-03-01T09:00:00Z", "valid_at": "2023-01-01T00:00:00Z"}
    items = [edge, {**edge, "uuid": "e2", "fact": "Works at Kakao", "name": "WORKS_AT"}]
    lines = "".join(f"{json.dumps(each)}\n" for each in items)
    file.write_text(json.dumps([*items, 3]) if is_list else f"{lines}{{broken\n")
    command = [*store, "import", str(file), "--place", "product/my-app/user"]

    report = ask(*command, code=ExitCode.FAILED)

    assert (report["format"], report["entries"], report["new"]) == ("graphiti", 2, 2)
    reason = "'number 3': is not a JSON object" if is_list else "'line 3': is not JSON"
    assert [f"{each['item']!r}: {each['reason']}" for each in report["problems"]] == [reason]
    assert ask(*command, code=ExitCode.FAILED)["new"] == 0
    shown = ask(*store, "show", ALICE, "--valid-at", "2023-06", "--reveal")
    assert [each["values"] for each in shown] == [["Lives in Busan"], ["Works at Kakao"]]


def test_memories_of_crewai_are_imported_once(store: list[str], tmp_path: Path) -> None:
    """The newest value of each of the application's concepts wins; the user is in a field."""
    file = tmp_path / "records.jsonl"
    records = [
        {"id": "r2", "content": "Seoul", "created_at": "2026-05-17T18:00:00", "scope": "/alice"},
        {"id": "r1", "content": "Busan", "created_at": "2026-03-01T09:30:00", "scope": "/alice"},
        {"id": "r0", "content": "Nowhere", "scope": "/alice"},
    ]
    file.write_text(
        "".join(f"{json.dumps({**each, 'categories': ['city']})}\n" for each in records)
    )
    concepts = ["--concepts", "tests.cli.test_commands:CONCEPTS"]
    command = [*store, *concepts, "import", str(file), "--place", "product/my-app/user"]

    report = ask(*command, "--user-field", "scope", code=ExitCode.FAILED)

    assert (report["format"], report["entries"], report["new"]) == ("crewai", 2, 2)
    [problem] = report["problems"]
    assert problem == {"item": "r0", "reason": "has no time in 'created_at'"}
    assert ask(*command, "--user-field", "scope", code=ExitCode.FAILED)["new"] == 0
    [fact] = ask(*store, "show", ALICE, "city", "--reveal")
    assert fact["value"] == "Seoul"


CONCEPTS = [Concept("city", "Where the user lives")]


def test_memories_need_a_place(store: list[str]) -> None:
    """The command does not invent a place."""
    said = call(*store, "import", str(MEM0), code=ExitCode.USAGE)
    assert "mem0 needs one --place: product/my-app/user to keep" in said


def test_the_end_of_a_name_is_enough(store: list[str], tmp_path: Path) -> None:
    """If two places end so, or none does, the error names places."""
    fill(store)
    call(*store, "set", "user/alice", "age", "37")
    call(*store, "set", "product/other/user/bob", "age", "5")
    for word in ("alice", "user/alice", "my-app/user/alice", ALICE):
        assert ask(*store, "show", word, "age", "--reveal")[0]["place"] == ALICE
    call(*store, "set", "product/other/user/alice", "age", "9")

    said = call(*store, "show", "alice", "--reveal", code=ExitCode.USAGE)
    assert f"2 places end with 'alice': write more of one: {ALICE}, product/other/" in said
    said = call(*store, "erase", "bop", "--yes", code=ExitCode.NOTHING)
    assert "did you mean product/other/user/bob?" in said
    said = call(*store, "set", "bop", "age", "9", code=ExitCode.USAGE)
    assert "No place has a name that ends with 'bop'" in said
    rows = tmp_path / "rows.csv"
    rows.write_text("keyword,value,type\ncity,Rome,text\n")
    call(*store, "import", str(rows), "--place", "bob")
    assert ask(*store, "show", "bob", "city", "--reveal")[0]["value"] == "Rome"
    said = call(*store, "show", "product/my-app/user/alic", code=6 if len(store) > 2 else 3)
    assert len(store) > 2 or "did you mean" in said
    call(*store, "set", "carol", "age", "1", code=ExitCode.USAGE)  # a new place needs its name
    assert len(ask(*store, "places")) == 3


def test_a_key_file_is_written_once(tmp_path: Path) -> None:
    """An empty file, which a killed command has left, is filled; any other file is kept."""
    file, link = tmp_path / "store.key", tmp_path / "link"
    file.touch(0o644)
    call("keys", "generate", str(file))
    key = file.read_text()
    assert (len(key), file.stat().st_mode & 0o777) == (45, 0o600)
    link.symlink_to(tmp_path / "elsewhere")

    assert "exists" in call("keys", "generate", str(file), code=ExitCode.FAILED)
    call("keys", "generate", str(link))
    call("keys", "generate", str(link), code=ExitCode.FAILED)

    made = tmp_path / "elsewhere"
    assert (file.read_text(), link.is_symlink()) == (key, True)
    assert (len(made.read_text()), made.stat().st_mode & 0o777) == (45, 0o600)


def test_a_killed_erase_and_a_killed_backup_are_repeated(tmp_path: Path) -> None:
    """The receipt and the anchor are evidence, and the first command did not print them."""
    store, copy = ["--store", str(tmp_path / "memory")], tmp_path / "copy"
    for name in ("alice", "bob"):
        call(*store, "set", f"product/my-app/user/{name}", "age", "36", "--type", "integer")
    call(*store, "backup", str(copy))
    anchor = Path(f"{copy}.anchor")
    first = anchor.read_text()
    anchor.unlink()
    assert ask(*store, "backup", str(copy))["places"] == 2
    assert anchor.read_text() == first
    call(*store, "backup", str(copy), code=ExitCode.USAGE)  # it has an anchor

    receipt = json.loads(call(*store, "erase", "alice", "--yes"))
    again = json.loads(call(*store, "erase", ALICE))
    assert (again["place"], again["erased_at"]) == (receipt["place"], receipt["erased_at"])
    for word in ("carol", ALICE.replace("alice", "carol")):
        call(*store, "erase", word, "--yes", code=ExitCode.NOTHING)


def test_a_day_includes_its_hours(tmp_path: Path) -> None:
    """A day was its first moment: nothing of it was shown. Days are in UTC."""
    store, file = ["--store", str(tmp_path / "m")], tmp_path / "rows.csv"
    file.write_text(
        "place,keyword,value,type,timestamp\n"
        f"{ALICE},city,Busan,text,2026-03-30T23:59:59Z\n"
        f"{ALICE},city,Seoul,text,2026-03-31T23:59:59Z\n"
    )
    call(*store, "import", str(file))
    assert ask(*store, "show", ALICE, "--as-of", "2026-03-31")[0]["value"] == "Seoul"
    assert ask(*store, "show", ALICE, "--as-of", "2026-03-31T00:00")[0]["value"] == "Busan"
    assert "a day, a time" in call(*store, "show", ALICE, "--as-of", "2026-W13", code=2)
    log = ask(*store, "log", "--since", "2026-03-31", "--until", "2026-03-31")
    assert [each["values"] for each in log] == [["Seoul"]]
    changes = ask(*store, "diff", ALICE, "2026-03-30", "2026-03-31")
    assert [each["value"] for each in changes] == ["Busan", "Seoul"]


def test_a_url_is_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A misspelt URL made a folder on the local disk; ~ is the home."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for url in ("http://db/app", "mysql://db/app", "host=db dbname=app", "sqlite:///m.db"):
        said = call("--store", url, "set", ALICE, "age", "1", code=ExitCode.USAGE)
        assert "must be a folder or a URL" in said
    with pytest.raises(ValueError, match="names a database"):
        LocalFileMemoryProvider("postgresql://db/app")
    assert not [*tmp_path.iterdir()]
    call("--store", "~/memory", "set", ALICE, "age", "1", "--type", "integer")
    assert [path.name for path in tmp_path.iterdir()] == ["home"]


@pytest.mark.parametrize("limit", ["0", "-1"])
@pytest.mark.parametrize("command", ["log", "watch"])
def test_a_limit_is_at_least_one(store: list[str], command: str, limit: str) -> None:
    """Nothing is left out, and no watch goes on for ever, by a limit that means nothing."""
    fill(store)
    assert "--limit" in call(*store, command, "alice", "--limit", limit, code=ExitCode.USAGE)


def test_a_backup_without_its_anchor_says_how(store: list[str], tmp_path: Path) -> None:
    """An anchor may be kept elsewhere, or be lost."""
    fill(store)
    call(*store, "backup", str(tmp_path / "copy"))
    (tmp_path / "copy.anchor").unlink()
    said = call(*store, "restore", str(tmp_path / "copy"), "--yes", code=ExitCode.NOTHING)
    assert "pass the one of this backup by --anchor" in said


def test_a_whole_name_lists_no_other_places(
    store: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store may have a million of them."""
    fill(store)
    listing = LocalFileMemoryProvider.list_places

    async def narrow(self: Any, **options: Any) -> Any:
        assert options.get("limit") == 1 or options["within"].places
        return await listing(self, **options)

    monkeypatch.setattr(LocalFileMemoryProvider, "list_places", narrow)
    for command in (["show"], ["log"], ["why"], ["history"], ["set"]):
        more = [] if command in (["show"], ["log"]) else ["age"]
        values, reveal = (["7"], []) if command == ["set"] else ([], ["--reveal"])
        call(*store, *command, ALICE, *more, *values, *reveal)


def test_the_log_and_the_difference_of_two_times(store: list[str]) -> None:
    """A forgetting shows the value that it ended; the newest change is first."""
    fill(store)
    call(*store, "set", "alice", "age", "37")
    call(*store, "forget", "alice", "pets", "--value", "Rex", "--yes")

    changes = ask(*store, "log", "--reveal")
    assert [(each["keyword"], each["action"], each["values"]) for each in changes] == [
        ("pets", "forgotten", ["Rex"]),
        ("age", "saved", [37]),
        ("pets", "saved", ["Miso", "Rex"]),
        ("age", "saved", [36]),
        ("ide-theme", "saved", ["dark"]),
    ]
    assert len(ask(*store, "log", "alice", "--since", "1h", "-n", "2", "--reveal")) == 2
    call(*store, "log", "--until", "1d", "--reveal", code=ExitCode.NOTHING)
    call(*store, "log", "--since", "yesterday", "--reveal", code=ExitCode.USAGE)

    found = ask(*store, "diff", "alice", "1d", "--reveal")
    assert [(each["change"], each["keyword"], each["value"]) for each in found] == [
        ("added", "age", 37),
        ("added", "ide-theme", "dark"),
        ("added", "pets", "Miso"),
    ]
    then = changes[1]["recorded_at"]
    [gone] = ask(*store, "diff", "alice", then, "--reveal")
    assert (gone["change"], gone["value"]) == ("removed", "Rex")
    assert ask(*store, "show", "alice", "pets", "--as-of", then, "--reveal")[0]["values"] == [
        "Miso",
        "Rex",
    ]
    call(*store, "diff", "alice", then, then, "--reveal", code=ExitCode.NOTHING)


def test_a_person_decides_what_waits(store: list[str]) -> None:
    """Approve, reject and correct name who and why; undo takes an id or its end."""
    call(*store, "set", ALICE, "plan", "Silver", "--type", "text", "--name", "jane")
    learn(store, "plan", "Gold")
    call(*store, "inbox", "--reveal", code=0)
    [waits] = ask(*store, "inbox", "alice", "--reveal")
    assert (waits["kind"], waits["value"], waits["current"]) == (
        "contradiction",
        "Gold",
        ["Silver"],
    )
    assert waits["actor"] == "bot"

    call(*store, "reject", "alice", "plan", "--name", "joe", "--reason", "a joke")
    call(*store, "inbox", "--reveal", code=ExitCode.NOTHING)
    call(*store, "reject", "alice", "plan", code=ExitCode.NOTHING)
    learn(store, "plan", "Gold")
    said = call(*store, "accept", "alice", "plan")
    assert ask(*store, "show", "alice", "plan", "--reveal")[0]["value"] == "Gold"
    call(*store, "undo", re.findall(r"undo ([0-9a-f]{16})", said)[0][-6:], "--name", "jane")
    assert ask(*store, "show", "alice", "plan", "--reveal")[0]["value"] == "Silver"
    corrected = ask(*store, "correct", "alice", "plan", "Bronze", "--reason", "she called")
    assert len(corrected["change"]) == 16
    [shown_fact] = ask(*store, "show", "alice", "plan", "--reveal")
    assert (shown_fact["value"], shown_fact["confirmed"]) == ("Bronze", True)
    assert (shown_fact["actor"], shown_fact["reason"]) == ("factmem correct", "she called")

    changes = ask(*store, "log", "--reveal")
    told = dict.fromkeys((each["id"], each["actor"]) for each in changes)
    assert [actor for _, actor in told] == [
        *("factmem correct", "jane", "factmem accept", "bot", "joe", "bot", "jane")
    ]
    call(*store, "undo", "zzz", code=ExitCode.NOTHING)
    assert "rests on" in call(*store, "undo", [*told][2][0], code=ExitCode.USAGE)
    seen = call(*store, "watch", "alice", "--since", "1h", "--limit", "7", "--json", "--reveal")
    ids = dict.fromkeys(json.loads(line)["id"] for line in seen.splitlines())
    assert [*ids] == [change for change, _ in told][::-1]


def test_one_of_several_values_must_be_named(store: list[str]) -> None:
    """The error says how, and like every error shows no value; the others stay."""
    fill(store)

    refused = call(*store, "correct", "alice", "pets", "Rax", code=ExitCode.USAGE)
    assert "name one by --value" in refused
    assert not any(value in refused for value in ("Miso", "Rex", "Rax"))
    call(*store, "correct", "alice", "pets", "Rax", "--value", "Rex")

    found = ask(*store, "show", "alice", "pets", "--reveal")
    assert sorted(value for fact in found for value in fact["values"]) == ["Miso", "Rax"]


def learn(store: list[str], keyword: str, value: str) -> None:
    """State a value as a program that learns."""
    given = opening.open_store(options.Options(store[1], key_file=store[3] if store[3:] else None))
    assert isinstance(given, LocalFileMemoryProvider)
    source = FactSource(SourceKind.USER, "chat", quote=f"I have {value}")
    fact = SingleFact(Concept(keyword, keyword), value, source=source)
    place = parse_place(ALICE)

    async def work() -> None:
        async with given:
            await given.learn([fact], place.subject, place.scope)

    with acting("bot"):
        anyio.run(work)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_terminal_gives_the_value_half_of_the_width(
    store: list[str], monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    """States have signs, and colours unless NO_COLOR is set; the end of an id can be typed."""
    fill(store)
    learn(store, "age", "37")
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr(output, "is_terminal", lambda: True)

    for command in (["show", "alice"], ["log"], ["inbox"]):
        head, *lines = call(*store, *command, "--reveal").splitlines()
        assert head.index(head.split()[1]) >= width // 2
        assert max(map(len, lines)) <= width
    assert "✓" in call(*store, "show", "alice", "--reveal")
    [newest, *_] = ask(*store, "log", "--reveal")
    assert newest["id"][-6:] in call(*store, "log", "--reveal")


def test_a_pipe_gets_one_short_line_for_each_row(store: list[str]) -> None:
    """The value is first; no line has more than 200 characters."""
    fill(store)
    call(*store, "set", "alice", "story", "once\tupon\na time " * 40, "--type", "text")
    call(*store, "set", "alice", "k" * 200, "x" * 500, "--type", "text")
    commands = [
        ["show", "alice"],
        ["history", "alice", "story"],
        ["why", "alice", "story"],
        ["log"],
        ["diff", "alice", "1d"],
        ["watch", "alice", "--since", "1d", "--limit", "5"],
        ["recall", "once upon"],
    ]
    for command in commands:
        lines = call(*store, *command, "--reveal").splitlines()
        assert max(map(len, lines)) <= 200, command
    lines = call(*store, "show", "alice", "--reveal").splitlines()
    assert len(lines) == 5
    assert lines[0].split("\t")[:2] == ["dark", "ide-theme"]
    assert lines[3].startswith("once\\tupon\\na time")
    assert lines[3].split("\t")[1] == "story"


def test_every_command_has_a_group_and_two_examples_that_it_accepts() -> None:
    """The examples name only options that the command has."""
    listed = {name for names in GROUPS.values() for name in names.split()}
    found = typer.main.get_command(app)
    assert isinstance(found, typer.core.TyperGroup)
    assert listed == set(found.commands)
    for name, examples in EXAMPLES.items():
        printed = call(*name.split(), "--help")
        for example in examples:
            assert f"  factmem {example}\n" in printed
            for option in re.findall(r" (--[a-z-]+)", example.partition(name)[2]):
                assert option in printed.partition("Examples:")[0], (name, option)


def test_a_place_with_both_keywords_is_named(store: list[str]) -> None:
    """All others are renamed, and the code says that something was refused."""
    bob = ALICE.replace("alice", "bob")
    for place, keyword, city in [
        (ALICE, "home", "Seoul"),
        (ALICE, "city", "Busan"),
        (bob, "home", "Jeju"),
    ]:
        call(*store, "set", place, keyword, city, "--type", "text")

    text = call(*store, "rename", "home", "city", "--yes", code=ExitCode.REFUSED)
    assert text.splitlines() == [
        "Changed 1 value in 1 place",
        f"{ALICE}: It has values of several of the keywords: pass if_both",
    ]
    found = json.loads(call(*store, "rename", "home", "city", "--dry-run", "--json", code=6))
    assert found["is_dry_run"]
    assert [(each["place"], each["has_both"]) for each in found["changes"]] == [(ALICE, True)]

    call(*store, "rename", "home", "city", "--if-both", "later", "--yes")

    shown = ask(*store, "show", ALICE, "--reveal")
    assert [(each["keyword"], each["value"]) for each in shown] == [("city", "Busan")]
    call(*store, "rename", "home", "town", "--dry-run", code=ExitCode.NOTHING)
    call(*store, "convert", "city", "builtins:str", "--operation", "x", code=ExitCode.USAGE)


def test_the_command_alone_shows_the_store(tmp_path: Path) -> None:
    """It printed sixty lines of help. What waits is said, and what to do next."""
    store = ["--store", str(tmp_path / "memory")]
    assert "`factmem --store PATH`" in call()
    assert "There is no store" in call(*store)
    call(*store, "set", ALICE, "plan", "Gold")
    place, plan = parse_place(ALICE), Concept("plan", "The plan")

    async def propose() -> None:
        async with LocalFileMemoryProvider(tmp_path / "memory") as opened:
            await opened.learn([SingleFact(plan, "Silver")], place.subject, place.scope)

    anyio.run(propose)
    shown = call(*store)
    assert "1 place, 1 value" in shown
    assert "To review: 1 value: `factmem inbox`" in shown
    assert "Next: `factmem show alice`" in shown


def test_a_new_keyword_is_text(tmp_path: Path) -> None:
    """It asked for --type. What could be something else is said."""
    store = ["--store", str(tmp_path / "memory")]
    assert "as text" not in call(*store, "set", ALICE, "city", "Busan")
    assert "as text: pass --type" in call(*store, "set", ALICE, "age", "36")
    assert [each["value"] for each in ask(*store, "show", ALICE)] == ["Busan", "36"]


def test_wrong_usage_is_one_line(tmp_path: Path) -> None:
    """Other errors are one line with the name of the program, too."""
    for given in (["show"], ["sho"], ["set", "alice"], ["show", "--limt"], ["log", "-n", "x"]):
        said = call("--store", str(tmp_path), *given, code=ExitCode.USAGE)
        assert re.fullmatch(r"factmem: .+: see `factmem.* --help`\n", said), said


def test_no_description_is_cut() -> None:
    """The end of a sentence is what one looks for."""
    printed = call("--help")
    assert not [line for line in printed.splitlines() if line.endswith("...")][1:]
