"""Users, places, concepts, chats and answers that many tests share."""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from factmem.agent.agent import Agent
from factmem.encryption.aes256gcm import Aes256GCMEncryptor
from factmem.encryption.key import Key
from factmem.ledger.resolution import PlacedFact
from factmem.llm.base import ChatResponse, Message, ToolCall
from factmem.memory.agent_memory import AgentMemory
from factmem.models.facts import AnyFact, Concept, FactType, MultipleFacts, SingleFact
from factmem.models.places import MemoryScope, MemoryScopesProfile, MemorySubject, Place
from factmem.models.when import TimeProvider, system_clock
from factmem.providers.in_memory import InMemoryProvider
from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.providers.provider import AgentMemoryProvider
from factmem.providers.storages import EncryptedStorage, SimpleStorage, Storage
from factmem.testing._facts import SAID
from factmem.testing.chat import ScriptedChatModel

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
BOB = USER.of("bob")
NOW = datetime(2026, 11, 1, tzinfo=UTC)
LocalStore = InMemoryProvider | LocalFileMemoryProvider

KINDS = ("memory", "plain", "encrypted")
"""The kinds of store that need no server."""


def storage_of(*keys: Key | str, busy_timeout: float = 60.0) -> Storage:
    """Return the storage of a store in files with these keys, or without any."""
    if not keys:
        return SimpleStorage(busy_timeout=busy_timeout)
    return EncryptedStorage(Aes256GCMEncryptor(*keys), busy_timeout=busy_timeout)


def store_of(
    kind: str, folder: Path, clock: TimeProvider = system_clock, **options: Any
) -> LocalStore:
    """Return an empty store of a kind; files are created below `folder`."""
    if kind == "memory":
        return InMemoryProvider(clock=clock, **options)
    storage = storage_of(*([Key.generate()] if kind == "encrypted" else []))
    return LocalFileMemoryProvider(folder / "store", storage=storage, clock=clock, **options)


DESK = MemoryScope.Agent("desk")
EDITOR = Concept("editor", "The editor that the user prefers")


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


def installed(
    agent: Agent, provider: AgentMemoryProvider | None = None, **options: Any
) -> AgentMemory:
    """Install a memory of one product in an agent, over a store or a new one."""
    given = {"scopes": MemoryScopesProfile(product=PRODUCT.name), **options}
    return agent.install(AgentMemory, provider=provider or InMemoryProvider(), **given)


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def item(**fields: Any) -> dict[str, Any]:
    """Return an item of a model's answer about message 0 about the dark theme."""
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


def memory_texts(messages: Sequence[Mapping[str, object]]) -> list[str]:
    return [str(each["content"]) for each in messages if each.get("name") == "factmem_memory"]


def is_detection(messages: Sequence[Message]) -> bool:
    """Return True if these messages request facts."""
    return "You extract facts" in str(messages[0].get("content"))


def calls(*wanted: tuple[str, object]) -> ChatResponse:
    """Return an answer that calls tools, each by its name and arguments."""
    return ChatResponse(
        tool_calls=tuple(
            ToolCall(f"call-{number}", name, given if isinstance(given, str) else json.dumps(given))
            for number, (name, given) in enumerate(wanted)
        )
    )


def theme_item(value: str, quote: str, message: int = 0, **fields: Any) -> dict[str, Any]:
    """Return an item of a model's answer about the theme that the user prefers."""
    return item(
        **{"value": value, "quote": quote, "message": message, "scope": "product", **fields}
    )


def found_facts(*items: object) -> dict[str, object]:
    return {"facts": items}


def tool_results(messages: Sequence[Mapping[str, object]]) -> list[str]:
    """Return the results of tools, in the order of the conversation."""
    return [str(message["content"]) for message in messages if message["role"] == "tool"]


def assert_paired(messages: Sequence[Mapping[str, Any]]) -> None:
    """Check that exactly its own results follow every tool call."""
    position = 0
    while position < len(messages):
        message = messages[position]
        asked = [call["id"] for call in message.get("tool_calls", ())]
        given = [each.get("tool_call_id") for each in messages[position + 1 :][: len(asked)]]
        assert given == asked
        position += 1 + len(asked)
        rest = messages[position : position + 1]
        assert not rest or rest[0]["role"] != "tool"


def bare_note(keyword: str, value: Any, **fields: Any) -> SingleFact[Any]:
    """Return a fact with a neutral description and an old time."""
    concept: Concept[Any] = Concept(keyword, "", value_type=type(value))
    return SingleFact(concept, value, **{"timestamp": NOW - timedelta(days=400), **fields})


def bare_notes(keyword: str, *values: Any, **fields: Any) -> MultipleFacts[Any]:
    concept: Any = Concept(keyword, "", FactType.MULTIPLE, value_type=type(values[0]))
    return MultipleFacts(concept, values, **{"timestamp": NOW - timedelta(days=400), **fields})


def recall_memory(provider: AgentMemoryProvider, **options: Any) -> AgentMemory:
    given = {"scopes": PROFILE, "subjects": [ALICE], "clock": lambda: NOW, **options}
    return AgentMemory(provider, **given)


def found_values(result: Any) -> list[Any]:
    """Return the found values, best first."""
    return [value for match in result for value in match.fact.values]


def found_fact(quote: str, keyword: str, value: str, message: int = 0) -> dict[str, object]:
    """Return the answer of a detecting model with one fact."""
    return {"facts": [{"message": message, "quote": quote, "keyword": keyword, "value": value}]}


async def vim_memory(
    *answers: Any, provider: InMemoryProvider | None = None, **options: Any
) -> AgentMemory:
    """Return a memory in which Alice prefers vim; `answers` are those of the detecting model."""
    store = provider or InMemoryProvider()
    await store.save(SingleFact(EDITOR, "vim"), ALICE, DESK)
    return AgentMemory(
        store,
        chat_model=ScriptedChatModel(*answers) if answers else None,
        scopes=MemoryScopesProfile(agent="desk"),
        subjects=[USER],
        **options,
    )


async def known_values(memory: AgentMemory, who: MemorySubject = ALICE) -> dict[str, object]:
    """Return the current values of a user, by keyword."""
    facts = await memory.view(subjects=[who]).current()
    return {fact.concept.keyword: fact.values[0] for fact in facts}
