"""Concepts, facts, subjects, scopes and places in a user's own pydantic models."""

from datetime import UTC, date, datetime
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field, JsonValue, TypeAdapter

from factmem.models.facts import (
    AnyFact,
    Concept,
    Fact,
    FactType,
    MultipleFacts,
    SingleFact,
)
from factmem.models.places import (
    MemoryScope,
    MemoryScopeType,
    MemorySubject,
    Place,
)
from factmem.models.sources import FactSource, SourceKind
from tests.tables import table

THEME = Concept("ide-theme", "The user's preferred IDE theme")
AGE = Concept("age", "The user's age", value_type=int)
TAGS = Concept("tags", "Tags", FactType.MULTIPLE)
PERSON = MemorySubject("person", "A person", 2, per_entity=True)
SAID = datetime(2020, 1, 2, 3, 4, 5, 6, tzinfo=UTC)


class Pet(BaseModel):
    name: str


Natural = Annotated[int, Field(ge=0)]


class Record(BaseModel):
    """A user's own model with fields of factmem's types."""

    age: SingleFact[int]
    born: SingleFact[date]
    tags: MultipleFacts[str]
    pets: MultipleFacts[Pet]
    either: Fact[int]
    anything: AnyFact
    concept: Concept[Natural]
    plain: Concept
    scope: MemoryScope
    subject: MemorySubject
    place: Place
    source: FactSource | None = None


def record() -> Record:
    born = Concept("born", "Birthday", value_type=date)
    pets = Concept("pets", "Pets", FactType.MULTIPLE, value_type=Pet)
    anything: Concept[Any, Any] = Concept("any", "Anything", value_type=Any)
    source = FactSource(SourceKind.USER, "chat", 0, "quote")
    return Record(
        age=SingleFact(AGE, 36, source=source, timestamp=SAID),
        born=SingleFact(born, date(1988, 2, 29), expires_at=SAID),
        tags=MultipleFacts(TAGS, ("a", "b")),
        pets=MultipleFacts(pets, (Pet(name="Rex"),)),
        either=SingleFact(AGE, 37),
        anything=SingleFact(anything, {"a": [1]}),
        concept=Concept("age", "Age", value_type=Natural),
        plain=Concept("plain", "Any JSON", value_type=JsonValue),
        scope=MemoryScope.Product("my-app"),
        subject=PERSON.of("alice"),
        place=Place(MemoryScope.Agent("a"), PERSON.of("alice")),
        source=source,
    )


def test_json_is_parsed_to_an_equal_model() -> None:
    """The value types come from the annotations, because JSON does not contain them."""
    before = record()

    assert Record.model_validate_json(before.model_dump_json()) == before


def test_instances_are_kept() -> None:
    """A model that gets objects keeps the same objects."""
    before = record()

    after = Record(**{name: getattr(before, name) for name in Record.model_fields})

    assert after.age is before.age
    assert after.concept is before.concept


def test_python_data_is_parsed_to_an_equal_model() -> None:
    """A dump in Python mode works as well as JSON."""
    before = record()

    assert Record.model_validate(before.model_dump(mode="json")) == before
    assert Record.model_validate(before.model_dump()) == before


def test_a_schema_can_be_generated() -> None:
    """Documentation, forms and models need it."""
    schema = Record.model_json_schema()

    definitions = schema["$defs"]
    assert definitions["MemoryScope"]["required"] == ["type", "name"]
    assert definitions["SingleFact_int_"]["properties"]["value"]["type"] == "integer"
    assert set(definitions["SourceKind"]["enum"]) == set(SourceKind)


@table(
    "change",
    [
        {"age": {"concept": {"keyword": "age", "description": "d"}, "value": "many"}},
        {"age": {"concept": {"keyword": "", "description": "d"}, "value": 1}},
        {"tags": {"concept": {"keyword": "t", "description": "d"}, "values": ["a"]}},
        {"scope": {"type": "planet", "name": "earth"}},
        {"scope": {"type": "agent", "name": ""}},
        {
            "subject": {
                "name": "u",
                "prompt_description": "d",
                "priority_level": 1,
                "entity": "x",
            }
        },
        {"source": {"kind": "user", "message": -1}},
    ],
    ids=str,
)
def test_wrong_data_raises(change: dict[str, Any]) -> None:
    """The error is pydantic's own, as for any field."""
    data = record().model_dump(mode="json") | change

    with pytest.raises(ValueError, match="validation error"):
        Record.model_validate(data)


@pytest.mark.parametrize(
    ("model_type", "value"),
    [
        (MemoryScope, MemoryScope.Product("x")),
        (MemoryScopeType, MemoryScopeType.AGENT),
        (Concept[Literal["a"]], Concept("k", "d", value_type=Literal["a"])),
        (list[SingleFact[str]], [SingleFact(THEME, "dark", timestamp=SAID, id="x")]),
    ],
    ids=str,
)
def test_type_adapters_accept_them(model_type: Any, value: object) -> None:
    """They need no model around them."""
    adapter: TypeAdapter[Any] = TypeAdapter(model_type)

    assert adapter.validate_json(adapter.dump_json(value)) == value
    assert adapter.json_schema()
