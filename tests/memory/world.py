"""The people, places and concepts that the tests of the memory share."""

import json
from collections.abc import Iterable
from typing import Any

from factmem.ledger.resolution import PlacedFact
from factmem.memory.agent_memory import AgentMemory
from factmem.models.facts import (
    AnyFact,
    Concept,
    FactType,
    MultipleFacts,
    SingleFact,
)
from factmem.models.places import (
    MemoryScope,
    MemorySubject,
    Place,
)
from factmem.models.scopes import MemoryScopesProfile
from factmem.providers.base import AgentMemoryProvider
from factmem.providers.in_memory import InMemoryProvider
from factmem.testing.chat import ScriptedChatModel
from factmem.testing.facts import SAID

USER = MemorySubject("user", "The person who talks to the agent", 1, per_entity=True)
DEVICE = MemorySubject("device", "The device that is being talked about", 2)
COMPANY = MemorySubject("company", "The company that the user works for", 3)
ALICE = USER.of("alice")

AGENT = MemoryScope.Agent("support-bot")
PRODUCT = MemoryScope.Product("my-app")
PROFILE = MemoryScopesProfile(agent="support-bot", product="my-app")

THEME = Concept("ide-theme", "The IDE theme that the user prefers")
LANGUAGES = Concept("languages", "Languages that the user speaks", FactType.MULTIPLE)
AGE = Concept("age", "The user's age in years", value_type=int)

Chat = list[dict[str, Any]]


def theme(value: str, **fields: Any) -> SingleFact[str]:
    return SingleFact(THEME, value, **{"timestamp": SAID, **fields})


def languages(*values: str, **fields: Any) -> MultipleFacts[str]:
    return MultipleFacts(LANGUAGES, values, **{"timestamp": SAID, **fields})


def note(keyword: str, value: str = "something", **fields: Any) -> SingleFact[str]:
    return SingleFact(Concept(keyword, f"About {keyword}"), value, **{"timestamp": SAID, **fields})


def placed(
    facts: Iterable[AnyFact], subject: MemorySubject = ALICE, scope: MemoryScope = AGENT
) -> list[PlacedFact]:
    place = Place(scope, subject)
    return [PlacedFact(place, fact) for fact in facts]


def memory_of(
    provider: AgentMemoryProvider | None = None,
    model: ScriptedChatModel | None = None,
    **options: Any,
) -> AgentMemory:
    given = {"scopes": PROFILE, "subjects": [ALICE], **options}
    return AgentMemory(provider or InMemoryProvider(), chat_model=model, **given)


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def item(**fields: Any) -> dict[str, Any]:
    """An item of a model's answer about the message "I prefer the dark theme." of number 0."""
    return {
        "message": 0,
        "quote": "dark theme",
        "action": "assert",
        "subject": "user",
        "scope": "agent",
        "keyword": "ide-theme",
        "description": "The IDE theme that the user prefers",
        "fact_type": "SINGLE",
        "value": "dark",
        "importance": 0.5,
        **fields,
    }


def answer(*items: object) -> str:
    return json.dumps({"facts": items}, ensure_ascii=False)


def memory_texts(messages: Chat) -> list[str]:
    return [m["content"] for m in messages if m.get("name") == "factmem_memory"]
