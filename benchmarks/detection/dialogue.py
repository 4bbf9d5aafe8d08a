"""The dialogues of the detection benchmark, and the detection of each."""

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from factmem import (
    AgentMemory,
    Concept,
    Detection,
    InMemoryProvider,
    MemoryScopesProfile,
    MemorySubject,
)
from factmem.detection import DetectionReport
from factmem.llm import ChatModel
from factmem.models.facts import FactType, MultipleFacts, SingleFact
from factmem.models.places import MemoryScope

HERE = Path(__file__).parent

USER = MemorySubject("user", "The person who talks to the agent", 1, per_entity=True)
SCOPE = MemoryScope.Agent("benchmark")

DECLARED: dict[str, Concept[Any, Any]] = {
    "age": Concept("age", "The user's age in years", value_type=int),
    "plan": Concept("plan", "What the user pays for", value_type=Literal["free", "pro"]),
    "diet": Concept("diet", "How the user eats"),
}


@dataclass
class Dialogue:
    """A chat, and the facts known before it."""

    name: str
    said_at: datetime
    messages: list[dict[str, Any]]
    language: str = "en"
    known: list[list[str]] = field(default_factory=list[list[str]])
    """Keyword, description, type, value and day of each known fact."""
    declared: list[str] = field(default_factory=list[str])
    entity: str = "somebody"
    since: int = 0


def dialogues() -> list[Dialogue]:
    """Return the dialogues by name."""
    found: list[Dialogue] = []
    for file in sorted((HERE / "dialogues").glob("*.json")):
        given = json.loads(file.read_text(encoding="utf-8"))
        said_at = datetime.fromisoformat(given.pop("said_at"))
        found.append(Dialogue(file.stem, said_at, **given))
    return found


async def detect(
    dialogue: Dialogue, chat_model: ChatModel, detection: Detection | None = None
) -> tuple[DetectionReport, InMemoryProvider]:
    """Run a detection over a dialogue, in a new store."""
    store = InMemoryProvider(clock=lambda: dialogue.said_at)
    subject = USER.of(dialogue.entity)
    for keyword, description, fact_type, value, day in dialogue.known:
        said = datetime.fromisoformat(day).replace(tzinfo=UTC)
        concept = Concept(keyword, description, FactType(fact_type))
        fact = (
            SingleFact(concept, value, timestamp=said)
            if concept.fact_type is FactType.SINGLE
            else MultipleFacts(concept, [value], timestamp=said)
        )
        await store.save(fact, subject, SCOPE)
    memory = AgentMemory(
        store,
        chat_model=chat_model,
        scopes=MemoryScopesProfile(agent="benchmark"),
        subjects=[subject],
        concepts=[DECLARED[keyword] for keyword in dialogue.declared],
        clock=lambda: dialogue.said_at,
    )
    report = await memory.auto_detect_facts(
        dialogue.messages,
        since=dialogue.since,
        said_at=dialogue.said_at,
        conversation=dialogue.name,
        detection=detection,
    )
    return report, store
