"""Checks a release: `python -m tests.release [--short]`.

Builds the wheel and the source archive twice, which must give the same bytes. Then, for every
Python from 3.11 to 3.14 on this machine and for the newest and the lowest dependencies, installs
the wheel without extras into an environment of its own, and runs a program, the programs of the
README and tests of the source archive outside of the checkout, with warnings as errors. Then it
adds the extras of the command line, and runs the README's commands. `--short` takes one Python.
"""

import argparse
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
EPOCH = "1767225600"
"""2026-01-01, the time of every file in the archives."""

PROGRAM = """
import sys
import anyio
import factmem
from factmem import (Aes256GCMEncryptor, Concept, EncryptedStorage, Key, LocalFileMemoryProvider,
                     MemoryScope, MemorySubject, SingleFact)
assert "site-packages" in factmem.__file__, factmem.__file__
AGE = Concept("age", "The user's age", value_type=int)
USER = MemorySubject("user", "The user", priority_level=1, per_entity=True)

async def main():
    for folder, storage in (("plain", None), ("sealed", EncryptedStorage(
            Aes256GCMEncryptor(Key.generate())))):
        async with LocalFileMemoryProvider(folder, storage=storage) as store:
            await store.save(SingleFact(AGE, 36), USER.of("alice"), MemoryScope.Product("app"))
            [age] = await store.load(AGE, USER.of("alice"), MemoryScope.Product("app"))
            assert age.value == 36
            assert (await store.erase(USER.of("alice"), MemoryScope.Product("app"))).count == 1

anyio.run(main)
try:
    import factmem._cli.application
except ImportError:
    pass  # typer belongs to an extra
else:
    raise AssertionError("the core brought an extra")
"""

START = """
import sys
import tempfile
import time
begun = time.process_time()
from factmem import AgentMemory, Concept, InMemoryProvider, SingleFact
imported = time.process_time() - begun
own = [name for name in sys.modules if name.partition(".")[0] == "factmem"]
assert len(own) <= 90, f"the first four names import {len(own)} modules"
import anyio
import anyio._backends._asyncio
AGE = Concept("age", "The user's age", value_type=int)

async def main():
    begun = time.process_time()
    async with AgentMemory.open(tempfile.mkdtemp(dir="."), user="alice", concepts=[AGE]) as memory:
        await memory.save(AGE, 36)
        print(imported, time.process_time() - begun)

anyio.run(main)
"""
FIRST_SAVE = 0.3
"""The most processor time of a first save, as a part of that of the import, each the best of five.

It is 0.2, as 63 ms after 310 ms on a busy machine; the goal of 40 ms is that of a quiet one.
"""

WITHOUT_EXTRA = """
import subprocess, sys
done = subprocess.run([sys.argv[1], "stats"], capture_output=True, text=True)
assert done.returncode and "pip install" in done.stderr + done.stdout, done
"""

PROGRAMS = re.compile(r"^```python[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMANDS = re.compile(r"^\$ (factmem .*)$", re.MULTILINE)

TESTS = ("tests/models", "tests/ledger", "tests/providers/test_sealing.py")
TOOLS = ("pytest>=9", "hypothesis>=6.100", "trio>=0.31")
DESELECTED = ("--ignore=tests/models/test_display.py",)
"""A file that needs pandas."""


def _run(*command: str, cwd: Path = ROOT, **environment: str) -> str:
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        sys.exit(f"failed: {' '.join(command)}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def _build(folder: Path) -> dict[str, str]:
    """Build both archives; return their names and digests."""
    _run(sys.executable, "-m", "hatchling", "build", "-d", str(folder), SOURCE_DATE_EPOCH=EPOCH)
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in folder.iterdir()}


def _pythons(short: bool) -> Iterator[str]:
    """Give the Pythons of this machine that factmem supports."""
    if short:
        yield sys.executable
        return
    for version in PYTHONS:
        pyenv = Path.home().glob(f".pyenv/versions/{version}.*/bin")  # its shims run one version
        path = os.pathsep.join([*map(str, pyenv), os.environ["PATH"]])
        program = shutil.which(f"python{version}", path=path)
        if program and not subprocess.run([program, "-c", ""], check=False).returncode:
            yield program
        else:
            print(f"Python {version}: not on this machine")


def _check_readme(own: str, folder: Path) -> None:
    """Run the README's programs, as one, and compare what they print with what they show."""
    program = "\n".join(PROGRAMS.findall((ROOT / "README.md").read_text()))
    shown = re.findall(r"^ *#> (.*)$", program, re.MULTILINE)
    if (printed := _run(own, "-I", "-W", "error", "-c", program, cwd=folder).splitlines()) != shown:
        sys.exit(f"the README shows {shown}, and its programs print {printed}")


def _check_commands(own: Path, folder: Path) -> None:
    """Run the README's commands but those that need a terminal."""
    text = re.sub(
        r"^```\w+ \{skip=.*?^```$",
        "",
        (ROOT / "README.md").read_text(),
        flags=re.MULTILINE | re.DOTALL,
    )
    for command in COMMANDS.findall(text):
        consent = ("--yes",) if " erase " in command else ()  # nobody answers here
        _run(str(own / "factmem"), *shlex.split(command)[1:], *consent, cwd=folder)
    _run(
        str(own / "python"),
        "-c",
        "import factmem._cli.review.pages, factmem._cli.browse",
        cwd=folder,
    )


def _check(python: str, resolution: str, wheel: Path, sources: Path, folder: Path) -> None:
    """Install the wheel, and run the program and the tests."""
    uv = (sys.executable, "-m", "uv")
    environment = folder / "venv"
    _run(*uv, "venv", "--quiet", "--python", python, str(environment))
    own = str(environment / "bin" / "python")
    pip = (*uv, "pip", "install", "--quiet", "--python", own)
    _run(*pip, "--resolution", resolution, str(wheel))
    _run(*uv, "pip", "check", "--python", own)
    empty = folder / "empty"
    empty.mkdir()
    _run(own, "-I", "-W", "error", "-c", PROGRAM, cwd=empty)
    starts = [_run(own, "-I", "-c", START, cwd=empty).split() for _ in range(5)]
    imported, saved = (min(map(float, times)) for times in zip(*starts, strict=True))
    if saved > FIRST_SAVE * imported:
        sys.exit(f"the first save takes {saved / imported:.2f} of the time of the import")
    _run(own, "-c", WITHOUT_EXTRA, str(environment / "bin" / "factmem"), cwd=empty)
    _check_readme(own, empty)
    _run(*pip, *TOOLS)
    told = _run(
        own, "-m", "pytest", "-q", "-p", "no:cacheprovider", *DESELECTED, *TESTS, cwd=sources
    )
    _run(*pip, "--resolution", resolution, f"{wheel}[tui,review]")
    _check_commands(environment / "bin", empty)
    version = _run(own, "-c", "import platform; print(platform.python_version())").strip()
    print(
        f"Python {version}, {resolution} dependencies: first save after {1e3 * saved:.0f} ms, "
        f"{told.strip().splitlines()[-1]}",
        flush=True,
    )


def main() -> None:
    """Build and check both archives."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--short", action="store_true", help="one Python")
    short = parser.parse_args().short
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        first, second = (_build(folder / name) for name in ("first", "second"))
        if first != second:
            sys.exit(f"two builds differ: {first} and {second}")
        print(f"built twice, with the same bytes: {', '.join(sorted(first))}")
        [wheel] = (folder / "first").glob("*.whl")
        [archive] = (folder / "first").glob("*.tar.gz")
        shutil.unpack_archive(archive, folder)  # its own, and Python 3.11.3 knows no filter
        _run(sys.executable, "-m", "twine", "check", "--strict", str(wheel), str(archive))
        sources = folder / archive.name.removesuffix(".tar.gz")
        shutil.rmtree(sources / "factmem")  # the tests must find the installed package
        for number, python in enumerate(_pythons(short)):
            for resolution in ("highest", "lowest-direct"):
                place = folder / f"{number}-{resolution}"
                place.mkdir()
                _check(python, resolution, wheel, sources, place)


if __name__ == "__main__":
    main()
