"""Readers of the recall benchmark's corpus. README.md in this folder describes the format."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact of the corpus, with the arguments of one call of `save`."""

    id: str
    entity: str
    language: str
    keyword: str
    description: str
    fact_type: str
    values: tuple[Any, ...]
    timestamp: datetime
    value_type: str = "str"
    quote: str | None = None
    conversation: str | None = None
    message: int | None = None
    before: str | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """A question and the facts that answer it; no facts for an unanswerable question."""

    id: str
    language: str
    text: str
    facts: frozenset[str]
    kinds: frozenset[str]


def read_facts() -> list[Fact]:
    """Return the facts in the order of the file."""
    facts: list[Fact] = []
    for line in _lines("facts.jsonl"):
        values = line.pop("values", None) or [line.pop("value")]
        line["timestamp"] = datetime.fromisoformat(line["timestamp"])
        facts.append(Fact(**line, values=tuple(values)))
    return facts


def read_questions() -> list[Question]:
    """Return the questions that facts of the corpus answer."""
    return [
        Question(
            id=line["id"],
            language=line["language"],
            text=line["question"],
            facts=frozenset(line["facts"]),
            kinds=frozenset(line["kinds"]),
        )
        for line in _lines("questions.jsonl")
    ]


def read_unanswerable() -> list[Question]:
    """Return the questions that no fact of the corpus answers."""
    return [
        Question(line["id"], line["language"], line["question"], frozenset(), frozenset())
        for line in _lines("unanswerable.jsonl")
    ]


def _lines(name: str) -> Iterator[dict[str, Any]]:
    with (FOLDER / name).open(encoding="utf-8") as file:
        yield from map(json.loads, file)
