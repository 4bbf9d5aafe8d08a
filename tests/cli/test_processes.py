"""The command as a real process: pipes, Ctrl-C, terminals, other writers, a missing extra.

A process takes half a second, so that what comes before and after runs in this one.
"""

import json
import os
import pty
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

import factmem
from factmem._cli.application import app
from tests.cli.test_commands import ask, call

ALICE = "product/my-app/user/alice"
FACTMEM = [sys.executable, "-m", "factmem"]


def _call(
    *arguments: str, given: str | None = None, folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    command = [*FACTMEM, *arguments]
    if folder is not None:  # which is gone when the command begins
        command = ["sh", "-c", 'cd "$0" && rmdir "$0" && exec "$@"', str(folder), *command]
    return subprocess.run(command, capture_output=True, text=True, check=False, input=given)


def _fill(folder: Path, count: int) -> None:
    rows = folder.parent / "rows.jsonl"
    with rows.open("w") as file:
        for number in range(count):
            row = {"place": ALICE, "keyword": f"k{number}", "value": f"value {number}"}
            file.write(f"{json.dumps(row)}\n")
    call("--store", str(folder), "import", str(rows))


@pytest.mark.storm
def test_a_process_saves_and_shows(tmp_path: Path) -> None:
    """`python -m factmem` prints results to stdout and errors to stderr."""
    store = ("--store", str(tmp_path / "memory"))
    saved = _call(*store, "set", ALICE, "age", "36", "--type", "integer", "--json")
    assert (saved.returncode, saved.stderr) == (0, "")
    assert json.loads(saved.stdout)
    assert ask(*store, "show", ALICE)[0]["value"] == 36
    wrong = _call(*store, "set", ALICE, "age", "x")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert wrong.stderr.startswith("factmem: ")
    assert wrong.stderr.count("\n") == 1


@pytest.mark.storm
def test_standard_input_and_output_have_a_name(tmp_path: Path) -> None:
    """`export - | import -` copies a store; what the command says is on stderr."""
    _fill(tmp_path / "memory", 3)
    exported = _call("--store", str(tmp_path / "memory"), "export", "-")
    assert (exported.returncode, exported.stderr) == (0, "Wrote 1 place, 3 entries to -\n")
    read = _call("--store", str(tmp_path / "copy"), "import", "-", given=exported.stdout)
    assert read.stdout == "Read 3 entries, 3 of them new\n"
    assert read.stderr == ""  # no progress bar without a terminal
    assert not Path("-").exists()


@pytest.mark.storm
def test_a_current_folder_that_is_gone_is_named(tmp_path: Path) -> None:
    """A relative path of it cannot be written, and an absolute one can."""
    store = ("--store", str(tmp_path / "memory"))
    _fill(tmp_path / "memory", 1)
    for path, is_possible in (("relative", False), (str(tmp_path / "absolute"), True)):
        (tmp_path / "gone").mkdir()
        done = _call(*store, "export", path, folder=tmp_path / "gone")
        assert (done.returncode == 0, "current folder was removed" in done.stderr) == (
            is_possible,
            not is_possible,
        )


@pytest.mark.storm
def test_a_closed_pipe_prints_no_error(tmp_path: Path) -> None:
    """`factmem show ... | head -1` prints one line."""
    _fill(tmp_path / "memory", 3000)
    command = [*FACTMEM, "--store", str(tmp_path / "memory"), "show", ALICE]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith(b"value 0\t")
        process.stdout.close()
        output = process.stderr.read()
    assert output == b""
    assert process.returncode == 141


def _on_terminal(*arguments: str, answer: bytes = b"") -> tuple[str, int]:
    """Run a command on a terminal of its own; return its screen and exit code."""
    child, terminal = pty.fork()
    if child == 0:
        os.execv(sys.executable, [*FACTMEM, *arguments])
    printed = b""
    if answer:
        while b":" not in printed:
            printed += os.read(terminal, 1 << 16)
        os.write(terminal, answer)
    while True:
        try:
            part = os.read(terminal, 1 << 16)
        except OSError:  # Linux: the other end is closed
            break
        if not part:
            break
        printed += part
    os.close(terminal)
    return printed.decode(), os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.storm
def test_a_terminal_sees_values_of_an_encrypted_store(tmp_path: Path) -> None:
    """It shows them without --reveal, asks questions, and does not echo a passphrase."""
    key = str(tmp_path / "key")
    store = ("--store", str(tmp_path / "memory"))
    call("keys", "generate", key)
    keyed = (*store, "--key-file", key)
    call(*keyed, "set", ALICE, "note", "\x1b[31mred", "--type", "text")
    call(*keyed, "show", ALICE, code=6)

    shown, code = _on_terminal(*keyed, "show", ALICE)
    assert code == 0
    assert "\\x1b[31mred" in shown
    assert "\x1b[31m" not in shown
    asked, code = _on_terminal(*keyed, "erase", ALICE, answer=b"n\n")
    assert code == 6
    assert "Nothing was changed" in asked
    wrong, code = _on_terminal(*store, "--passphrase", "places", answer=b"let me in\n")
    assert code == 5
    assert "let me in" not in wrong


@pytest.mark.storm
def test_a_passphrase_needs_a_terminal(tmp_path: Path) -> None:
    """A passphrase is never read from stdin."""
    command = [*FACTMEM, "--store", str(tmp_path / "m"), "--passphrase", "set", ALICE, "a", "b"]
    done = subprocess.run(
        [*command, "--type", "text"],
        input="secret\n",
        capture_output=True,
        text=True,
        check=False,
        start_new_session=True,
    )
    assert done.returncode == 6
    assert "--key-env" in done.stderr
    assert not (tmp_path / "m").exists()


@pytest.mark.storm
def test_a_missing_extra_names_the_package_to_install(tmp_path: Path) -> None:
    """The exit code is not 0."""
    program = (
        "import importlib.util as u\n"
        "found = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name == 'typer' else found(name, *a)\n"
        "from factmem._cli import main\nmain()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 1
    assert "pip install 'factmem[cli]'" in done.stderr
    assert "Traceback" not in done.stderr


def _completions(typed: str) -> str:
    env = {"_FACTMEM_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": typed}
    return CliRunner().invoke(app, env=env, prog_name="factmem").stdout


@pytest.mark.storm
def test_shell_completion(tmp_path: Path) -> None:
    """The command prints the shell's script, which completes commands and places."""
    store = str(tmp_path / "memory")
    env = {**os.environ, "_FACTMEM_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": "factmem re"}
    done = subprocess.run(FACTMEM, capture_output=True, text=True, check=False, env=env)
    assert done.stderr == ""
    assert done.stdout == _completions("factmem re")
    assert "recall" in done.stdout
    assert "restore" in done.stdout

    call("--store", store, "set", ALICE, "age", "36", "--type", "integer")
    assert ALICE in _completions(f"factmem --store {store} show product/")
    assert ALICE not in _completions(f"factmem --store {store} show agent/")
    assert "product" not in _completions(f"factmem --store {tmp_path}/none show product/")


def _answer(client: httpx.Client, link: str) -> httpx.Response:
    """Return the answer of a server that is starting."""
    deadline = time.monotonic() + 60
    while True:
        try:
            return client.get(link)
        except httpx.ConnectError:
            assert time.monotonic() < deadline
            time.sleep(0.05)


@pytest.mark.storm
def test_a_store_is_served_to_reviewers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`factmem review` serves its page to whoever has a link, also of an encrypted store."""
    key, store = str(tmp_path / "key"), str(tmp_path / "memory")
    call("keys", "generate", key)
    options = ("--store", store, "--key-file", key)
    call(*options, "set", ALICE, "age", "36", "--type", "integer")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = str(listening.getsockname()[1])
    monkeypatch.setenv("REVIEW_SECRET", "s" * 40)
    command = [*options, "review", "--port", port, "--token-env", "REVIEW_SECRET"]
    link = call(*command, "--link", "reader", "--name", "tom").strip()
    with subprocess.Popen([*FACTMEM, *command], stderr=subprocess.PIPE, text=True) as server:
        try:
            with httpx.Client(follow_redirects=True, timeout=60) as client:
                page = _answer(client, link)
                assert page.status_code == 200
                assert "36" in client.get(page.url.join(f"/user/{ALICE}")).text
                assert httpx.get(str(page.url)).status_code == 401
        finally:
            server.terminate()
        _, printed = server.communicate()
    assert f"Serving on http://127.0.0.1:{port}" in printed
    assert "token=" not in printed


@pytest.mark.storm
def test_files_of_the_current_folder_replace_no_module(tmp_path: Path) -> None:
    """They would run with the keys in the environment. --concepts still finds its module."""
    for name in ("typer", "orjson", "anyio", "sqlite3"):
        (tmp_path / f"{name}.py").write_text("print('replaced')\n")
    (tmp_path / "mine.py").write_text("from factmem import Concept\nC = Concept('city', '')\n")
    command = [sys.executable, "-P", "-m", "factmem", "--store", "m", "--concepts", "mine:C"]
    done = subprocess.run(
        [*command, "recall", "city"], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert (done.returncode, done.stdout) == (3, "")
    assert "There is no store" in done.stderr


def test_the_package_starts_no_processes() -> None:
    """A child would need the guards of its parent: for its search path, its keys and its output."""
    starts = re.compile(
        r"\b(subprocess|multiprocessing|open_process|run_process"
        r"|os\.(exec|spawn|posix_spawn|system))\b"
    )
    package = Path(factmem.__file__).parent
    files = [file for file in package.rglob("*.py") if "testing" not in file.parts]
    found = [str(file) for file in files if starts.search(file.read_text())]
    assert found == []
