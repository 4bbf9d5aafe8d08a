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
print(sorted({"pydantic.types", "annotated_types", "importlib.metadata"} & sys.modules.keys()))
"""


@pytest.mark.storm
def test_a_first_program_does_not_load_pydantics_schema_generators() -> None:
    """They take as long to import as all of factmem."""
    done = subprocess.run(
        [sys.executable, "-c", FIRST_PROGRAM],
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.splitlines() == ["['Busan']", "[]"]
