"""Modules that `import factmem` and a first program do not load, and the types that need them."""

import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import JsonValue, TypeAdapter

from factmem import Concept, Fact, FactType, SingleFact
from factmem.models._values import JsonValue as Annotation

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


@pytest.mark.parametrize(
    ("ours", "pydantics"),
    [
        (TypeAdapter(Annotation), TypeAdapter(JsonValue)),
        (TypeAdapter(dict[str, Annotation]), TypeAdapter(dict[str, JsonValue])),
    ],
)
def test_json_in_annotations_has_the_schema_of_pydantics_own_type(
    ours: TypeAdapter[object], pydantics: TypeAdapter[object]
) -> None:
    """Validation and JSON schema are the same."""
    assert ours.json_schema() == pydantics.json_schema()
    for text in ("[1, null]", '{"a": [1.5, true]}', "[1"):
        assert _read(ours, text) == _read(pydantics, text)


def _read(adapter: TypeAdapter[object], text: str) -> object:
    try:
        return adapter.validate_json(text)
    except ValueError:
        return "refused"


def test_a_concept_without_a_known_type_has_pydantics_own_type() -> None:
    """An application refers to that type."""
    adapter = TypeAdapter(Concept)
    loaded = adapter.validate_json('{"keyword": "k", "description": "d"}')

    assert loaded == Concept("k", "d", FactType.SINGLE, value_type=JsonValue)


def test_facts_with_metadata_validate_in_a_model() -> None:
    """The type of metadata is resolved when a schema needs it."""
    fact = SingleFact(Concept("k", "d"), "v", metadata={"a": [1, None]})

    assert TypeAdapter(Fact[str]).validate_python(fact) == fact
