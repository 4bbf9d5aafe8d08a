"""Modules that `import factmem` and a first program do not load."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

FIRST_PROGRAM = """
import sys, tempfile
import anyio, pydantic

pydantic.BaseModel, pydantic.TypeAdapter
import factmem
from factmem import Concept, LocalFileMemoryProvider, MemoryScope, MemorySubject, SingleFact

async def main():
    with tempfile.TemporaryDirectory() as folder:
        async with LocalFileMemoryProvider(folder) as store:
            concept = Concept("city", "Where the user lives")
            place = MemorySubject.EVERYTHING, MemoryScope.Product("x")
            await store.save(SingleFact(concept, "Busan"), *place)
            print([fact.value for fact in await store.load(concept, *place)])

anyio.run(main)
"""
MODEL = """
import sys, factmem.llm.base, factmem.llm.extraction, factmem.llm.openai
factmem.llm.openai.OpenAIChatModel("test")
"""
EMBEDDERS = """
import sys
from factmem.embedding import litellm, openai, sentence_transformer
"""


@pytest.mark.storm
@pytest.mark.parametrize(
    ("program", "printed", "late"),
    [
        # They take as long to import as all of factmem.
        (FIRST_PROGRAM, ["['Busan']"], "pydantic.types annotated_types importlib.metadata"),
        # It takes longer to import than all the rest; creating a model does not need it.
        (MODEL, [], "openai httpx httpx2 jiter"),
        (EMBEDDERS, [], "openai litellm sentence_transformers numpy httpx httpx2"),
    ],
    ids=["a first program", "a model", "embedders"],
)
def test_packages_wait_for_their_first_use(program: str, printed: list[str], late: str) -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            f"{program}\nprint(sorted(set({late.split()}) & sys.modules.keys()))",
        ],
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.splitlines() == [*printed, "[]"]
