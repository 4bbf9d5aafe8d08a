"""A system without `fcntl`, such as Windows: stores work, with the locks of `msvcrt`."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys
from tests.without_fcntl import LOCKED
import anyio
from factmem import Aes256GCMEncryptor, EncryptedStorage, LocalFileMemoryProvider
from factmem.testing._facts import AGENT, THEME, USER, theme

async def main(root, key):
    storage = EncryptedStorage(Aes256GCMEncryptor(key)) if key else None
    async with LocalFileMemoryProvider(root, storage=storage) as store:
        await store.save(theme("light"), USER, AGENT)
        await store.save(theme("dark"), USER, AGENT)
        assert [fact.value for fact in await store.load(THEME, USER, AGENT)] == ["dark"]
        await store.forget(USER, AGENT, concept=THEME, purge=True)
        await store.save(theme("dim"), USER, AGENT)
    async with LocalFileMemoryProvider(root, storage=storage) as store:
        assert [fact.value for fact in await store.load(THEME, USER, AGENT)] == ["dim"]
        await store.verify(await store.anchor())
        assert not (await store.erase(USER, AGENT)).copies_remain
    assert len(LOCKED) >= 5
    assert "fcntl" not in {name for name, module in sys.modules.items() if module is not None}

anyio.run(main, sys.argv[1], Aes256GCMEncryptor.generate_key() if sys.argv[2] else "")
"""


@pytest.mark.storm
@pytest.mark.parametrize("key", ["", "key"], ids=["plain", "encrypted"])
def test_a_program_without_fcntl(root: Path, key: str) -> None:
    """It imports factmem, saves, loads, purges and erases."""
    command = [sys.executable, "-c", PROGRAM, str(root), key]

    done = subprocess.run(command, check=False, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr


@pytest.mark.storm
def test_the_suites_without_fcntl() -> None:
    """Conformance of the local store: a lock never sees whether a line is encrypted."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.without_fcntl", "-p", "no:xdist"]
    suite = Path(__file__).with_name("test_local_file.py")

    done = subprocess.run(
        [*command, str(suite), "-k", "asyncio and TestPlain"],
        check=False,
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stdout[-3000:]
