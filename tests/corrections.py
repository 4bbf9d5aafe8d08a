"""Detections against corrections: none is replaced or doubled, contradictions wait once."""

import random
from typing import Any

from factmem import Concept, FactStore, FactType, acting
from factmem.models.facts import FactState
from factmem.testing.chat import ScriptedChatModel
from tests.world import memory_of, user


def _item(number: int, value: str, **fields: Any) -> dict[str, Any]:
    return {
        "message": 0,
        "quote": f"topic {number} is {value}",
        "action": "assert",
        "subject": "user",
        "scope": "agent",
        "keyword": f"topic-{number}",
        "description": f"The topic {number}",
        "fact_type": "SINGLE",
        "value": value,
        "importance": 0.5,
        **fields,
    }


async def check_corrections(store: FactStore, *, corrections: int, detections: int) -> None:
    """Learn values, correct each, and let a model state and retract others at random.

    Half of the concepts are declared; the keywords of the others are made up, also as MULTIPLE.
    """
    rng = random.Random(1)
    topics = range(corrections)
    declared = [Concept(f"topic-{each}", f"The topic {each}") for each in topics if each % 2]
    first = [_item(each, "wrong") for each in topics]
    later: list[dict[str, Any]] = []
    for _ in range(detections):
        value = rng.choice(["wrong", "other", "else", "right"])
        action = rng.choice(["assert", "assert", "assert", "replace", "retract"])
        kind = rng.choice(["SINGLE", "MULTIPLE"])
        later.append(_item(rng.choice(topics), value, action=action, fact_type=kind))
    model = ScriptedChatModel(*({"facts": [each]} for each in first + later))
    memory = memory_of(store, model, concepts=declared)
    for each in first:
        await memory.auto_detect_facts([user(each["quote"])])
    with acting("jane", reason="checked"):
        for item in await memory.review.inbox():
            await memory.review.correct(item, "right")

    for each in later:
        await memory.auto_detect_facts([user(each["quote"])])

    facts = await memory.current()
    assert sorted(fact.concept.keyword for fact in facts) == sorted(f"topic-{n}" for n in topics)
    for fact in facts:
        assert fact.values == ("right",)
        assert fact.concept.fact_type is FactType.SINGLE
        assert (fact.state, fact.actor) == (FactState.CONFIRMED, "jane")
    expected = {
        (each["keyword"], each["value"], each["action"] == "retract")
        for each in later
        if (each["value"] == "right") == (each["action"] == "retract")
    }
    found = [
        (item.fact.concept.keyword, item.fact.values[0], item.is_ending)
        for item in await memory.review.inbox()
        if item.kind == "contradiction"
    ]
    assert len(found) == len(set(found))
    assert set(found) <= expected
    said_later = {
        (each["keyword"], each["value"], each["action"] == "retract")
        for number, each in enumerate(later)
        if not _is_taken_back(each, later[number + 1 :])
    }
    assert set(found) >= expected & said_later


def _is_taken_back(item: dict[str, Any], later: list[dict[str, Any]]) -> bool:
    """Return whether the model itself takes a proposal back: it retracts or repeats the value."""
    is_retraction = item["action"] == "retract"
    return any(
        each["keyword"] == item["keyword"]
        and each["value"] == item["value"]
        and (each["action"] == "retract") != is_retraction
        for each in later
    )
