"""Checks a release: `python -m tests.release [--short]`.

Builds the wheel and the source archive twice, which must give the same bytes. Then, for every
Python from 3.11 to 3.14 on this machine and for the newest and the lowest dependencies, installs
the wheel without extras into an environment of its own, and runs a program and tests of the source
archive outside of the checkout, with warnings as errors. `--short` takes one Python.
"""

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
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
        program = shutil.which(f"python{version}")
        if (
            program
            and subprocess.run([program, "--version"], capture_output=True, check=False).returncode
            == 0
        ):
            yield program
        else:
            print(f"python{version}: not on this machine")


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
    _run(*pip, *TOOLS)
    told = _run(
        own, "-m", "pytest", "-q", "-p", "no:cacheprovider", *DESELECTED, *TESTS, cwd=sources
    )
    version = _run(own, "-c", "import platform; print(platform.python_version())").strip()
    print(f"Python {version}, {resolution} dependencies: {told.strip().splitlines()[-1]}")


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
        with tarfile.open(archive) as packed:
            packed.extractall(folder, filter="data")
        sources = folder / archive.name.removesuffix(".tar.gz")
        shutil.rmtree(sources / "factmem")  # the tests must find the installed package
        for number, python in enumerate(_pythons(short)):
            for resolution in ("highest", "lowest-direct"):
                place = folder / f"{number}-{resolution}"
                place.mkdir()
                _check(python, resolution, wheel, sources, place)


if __name__ == "__main__":
    main()
