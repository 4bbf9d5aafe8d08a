"""The JSON of sets is the same in every process, also of sets inside other values."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
from dataclasses import dataclass
from pydantic import BaseModel, RootModel
from factmem.models._values import canonical, codec_of

Key = tuple[frozenset[str], int]

@dataclass(frozen=True)
class Team:
    name: str
    roles: frozenset[str]

class Tags(RootModel[set[str]]):
    pass

class Sheet(BaseModel):
    tags: list[Tags]

WORDS = [f"word {number}" for number in range(40)]
VALUES = {
    "set": (set[str], set(WORDS)),
    "sets in a set": (set[frozenset[str]], {frozenset(WORDS[at:at + 5]) for at in range(30)}),
    "sets in tuples in a set": (
        set[tuple[int, frozenset[str]]], {(at % 3, frozenset(WORDS[at:at + 5])) for at in range(30)}
    ),
    "dataclasses in a set": (set[Team], {Team("a", frozenset(WORDS[at:at + 5])) for at in range(9)}),
    "sets in a list in a dict": (
        dict[str, list[frozenset[str]]], {"all": [frozenset(WORDS), frozenset(WORDS[:9])]}
    ),
    "sets in sets in sets": (
        frozenset[frozenset[frozenset[str]]],
        frozenset({frozenset({frozenset(WORDS[at:at + 4]), frozenset(WORDS[at:])}) for at in range(9)}),
    ),
    "sets by numbers in a dict": (dict[int, set[str]], {at: set(WORDS[at:]) for at in range(9)}),
    "a root model": (Tags, Tags(set(WORDS))),
    "root models in a model": (Sheet, Sheet(tags=[Tags(set(WORDS)), Tags(set(WORDS[:9]))])),
    "a set or a list": (set[str] | list[int], set(WORDS)),
}
for name, (kind, value) in VALUES.items():
    print(name, canonical(codec_of(kind).dump(value, "words")))
"""


@pytest.fixture(scope="module")
def printed() -> list[list[str]]:
    """Return the output of two processes with different hash seeds, one line per value."""
    outputs = [
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("1", "2", "3")
    ]
    return [output.splitlines() for output in outputs]


@pytest.mark.storm
def test_sets_have_the_same_json_in_every_process(printed: list[list[str]]) -> None:
    first, *others = printed

    assert len(first) == 10
    for other in others:
        assert other == first
