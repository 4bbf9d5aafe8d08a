"""Recall needs no model, no network and no environment unless they are passed in."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import sys

def refuse(event, args):
    if event.startswith("socket.") or event in ("os.system", "subprocess.Popen", "os.exec"):
        raise RuntimeError(f"a recall did {event}")

import anyio
from factmem import *

USER = MemorySubject("user", "The person the agent talks to", 1, per_entity=True)
PET = Concept("pet", "The pet of the user")

async def main():
    storage = EncryptedStorage(Aes256GCMEncryptor(Key.generate())) if ENCRYPTED else None
    async with LocalFileMemoryProvider("store", storage=storage) as store:
        fact = SingleFact(PET, "a cat called Miso")
        await store.save(fact, USER.of("alice"), MemoryScope.Agent("a"))
        memory = AgentMemory(
            store, scopes=MemoryScopesProfile(agent="a"), subjects=[USER.of("alice")]
        )
        for _ in range(2):
            [match] = await memory.recall("What is the cat called?")
            print(match.fact.value)

async def guarded():
    sys.addaudithook(refuse)  # the loop has its own socket by now
    await main()

anyio.run(guarded, backend=BACKEND)
print(sorted({"openai", "numpy", "httpx", "httpx2", "litellm", "requests"} & sys.modules.keys()))
"""


@pytest.mark.storm
@pytest.mark.parametrize("encrypted", ["True", "False"])
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_no_llm_no_network_no_environment(tmp_path: Path, backend: str, encrypted: str) -> None:
    """The process has no environment, and every socket is refused."""
    script = f"BACKEND, ENCRYPTED = {backend!r}, {encrypted}\n{SCRIPT}"

    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        cwd=tmp_path,
        env={},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stderr == ""
    assert done.stdout.splitlines() == ["a cat called Miso"] * 2 + ["[]"]


def test_the_guard_refuses_sockets(tmp_path: Path) -> None:
    """Otherwise the test above would prove nothing."""
    guard = SCRIPT.partition("import anyio")[0]
    script = f"{guard}\nsys.addaudithook(refuse)\nimport socket\nsocket.socket()"

    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert "a recall did socket.__new__" in done.stderr
