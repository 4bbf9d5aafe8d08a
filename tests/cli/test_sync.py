"""`factmem sync`: two stores, one folder, a phrase."""

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from typer.testing import CliRunner

from factmem._cli.application import app
from factmem._cli.output import ExitCode
from factmem.models.places import MemoryScope, Place
from factmem.providers.conversations import new_turn
from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.transfer import new_phrase
from tests.transfer.devices import USER

PLACE = "product/my-app/user/alice"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    shared = tmp_path / "shared"
    shared.mkdir()
    run("set", PLACE, "city", "Busan", "--type", "text")
    return shared


def run(*arguments: str, store: str = "one", given: str = "", code: int = 0) -> str:
    done = CliRunner().invoke(app, ["--store", store, *arguments], input=given)
    assert done.exit_code == code, done.output
    return done.output


def joined() -> str:
    """Make a shared memory and let the second store join it; return the phrase."""
    phrase = re.search(r"^  ([a-z ]{53})$", run("sync", "shared", "--new"), re.MULTILINE)
    assert phrase
    run("sync", "shared", "--join", store="two", given=phrase[1] + "\n")
    return phrase[1]


def test_a_second_device_joins_with_the_phrase(folder: Path) -> None:
    """Its store is created, and the phrase is stored nowhere."""
    phrase = joined()

    assert "Busan" in run("show", PLACE, store="two")
    files = [path for path in folder.parent.rglob("*") if path.is_file()]
    assert not any(phrase.split()[0].encode() in path.read_bytes() for path in files)
    assert (folder.parent / "one.sync" / "key").stat().st_mode & 0o077 == 0


def test_both_have_what_both_wrote(folder: Path) -> None:
    joined()
    run("set", PLACE, "pets", "Rex", "--type", "text", store="two")
    run("sync", "shared", store="two")

    report = json.loads(run("sync", "shared", "--json"))

    assert (report["received"], report["devices"], report["problems"]) == (1, 2, [])
    assert run("show", PLACE) == run("show", PLACE, store="two")


def test_a_removed_value_is_gone_on_both(folder: Path) -> None:
    """The first device says that the other one may still have it."""
    joined()
    run("forget", PLACE, "city", "--purge", "--yes")

    assert "may still have what was removed" in run("sync", "shared")
    run("sync", "shared", store="two")
    assert "may still have" not in run("sync", "shared")
    assert "Busan" not in run("history", PLACE, "city", store="two", code=ExitCode.NOTHING)


@pytest.mark.parametrize(
    ("arguments", "given", "code", "message"),
    [
        ([], "", ExitCode.KEY, "--new on the first device"),
        (["--new", "--join"], "", ExitCode.USAGE, "--join asks"),
        (["--join"], "no phrase\n", ExitCode.USAGE, "9 words"),
    ],
)
def test_what_is_missing_is_named(
    folder: Path, arguments: list[str], given: str, code: int, message: str
) -> None:
    assert message in run("sync", "shared", *arguments, given=given, code=code)
    assert list(folder.iterdir()) == []


def test_the_phrase_of_another_memory_joins_nothing(folder: Path) -> None:
    """No key is kept, and no file is written that the other devices could not open."""
    joined()
    files, other = sorted(folder.iterdir()), new_phrase()

    said = run("sync", "shared", "--join", store="three", given=f"{other}\n", code=ExitCode.KEY)

    assert "opens no file" in said
    assert sorted(folder.iterdir()) == files
    assert not (folder.parent / "three.sync").exists()


def test_a_missing_folder_is_an_error(folder: Path) -> None:
    """A drive that is not mounted is no empty memory."""
    shown = run("sync", "elsewhere", "--new", code=ExitCode.FAILED)
    assert "create it, or mount it" in shown
    assert "phrase" not in shown
    assert "This device has no key" in run("sync", str(folder), code=ExitCode.KEY)


def test_a_damaged_file_gives_an_exit_code(folder: Path) -> None:
    joined()
    for path in folder.iterdir():
        path.write_bytes(path.read_bytes()[:-9])

    assert "missing or changed" in run("sync", "shared", code=ExitCode.DAMAGED)
    assert "Busan" in run("show", PLACE)


def test_a_new_phrase_does_not_call_the_own_files_damaged(folder: Path) -> None:
    """A device that takes another one away has no error of its own."""
    run("sync", "shared", "--new")

    assert "cannot be opened" not in run("sync", "shared", "--new")


def test_a_dry_run_tells_what_would_be_sent(folder: Path) -> None:
    joined()
    run("set", PLACE, "pets", "Rex", "--type", "text")
    before = sorted(folder.iterdir())

    assert "Would send 1 entry" in run("sync", "shared", "--dry-run")
    assert sorted(folder.iterdir()) == before
    assert "Sent 1 entry" in run("sync", "shared")


def test_conversations_go_along_if_they_are_wanted(folder: Path) -> None:
    """On both devices, once `--conversations` was passed on both."""
    joined()
    place = Place(MemoryScope.Product("my-app"), USER.of("alice"))
    turn = new_turn({"role": "user", "content": "I moved to Busan"})

    async def append() -> None:
        async with LocalFileMemoryProvider("one") as store:
            await store.conversations.append([turn], "chat-7", place)

    async def texts() -> list[str]:
        async with LocalFileMemoryProvider("two") as store:
            return [each.text for each in await store.conversations.turns("chat-7", place)]

    anyio.run(append)
    assert "Sent 1 entry" in run("sync", "shared", "--conversations")
    run("sync", "shared", store="two")
    assert anyio.run(texts) == []
    assert "received 1" in run("sync", "shared", "--conversations", store="two")
    assert anyio.run(texts) == ["I moved to Busan"]


@pytest.mark.storm
def test_a_watch_syncs_until_it_is_interrupted(folder: Path) -> None:
    """It prints what came, and nothing while nothing changes."""
    joined()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in a job of the background
    command = [sys.executable, "-m", "factmem", "--store", "one", "sync", "shared", "--watch", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watch:
        assert watch.stdout is not None
        run("set", PLACE, "pets", "Rex", "--type", "text", store="two")
        run("sync", "shared", store="two")
        line = watch.stdout.readline()
        watch.send_signal(signal.SIGINT)
        rest = watch.stdout.read()

    assert ("received 1" in line, rest) == (True, "")
    assert watch.returncode == ExitCode.INTERRUPTED
    assert "Rex" in run("show", PLACE)
