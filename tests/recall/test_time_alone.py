"""Questions that name a time only: what is of that time is found, and comes first."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from factmem import (
    AgentMemory,
    Concept,
    FactType,
    InMemoryProvider,
    MemoryScope,
    MemoryScopesProfile,
    MemorySubject,
    MultipleFacts,
)
from factmem.providers.local_file import LocalFileMemoryProvider

USER = MemorySubject("user", "The user", 1)
APP = MemoryScope.Agent("app")
NOTED = Concept("diary", "Diary of the user", FactType.MULTIPLE)
NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)  # a Friday
NOTES = {
    "2024-10-08": "Lisbon with Ida",
    "2025-02-03": "a broken ankle",
    "2025-05-14": "Porto, by train",
    "2025-08-19": "the kitchen was painted blue",
    "2025-10-21": "an old piano",
    "2025-12-24": "goose at the parents' house",
    "2026-02-11": "the exam in statistics",
    "2026-04-16": "Ghent and Bruges",
    "2026-05-27": "a tent for four",
    "2026-07-09": "the marathon",
    "2026-09-30": "a puppy called Momo",
    "2026-10-15": "the new flat",
    "2026-11-04": "a violin",
    "2026-11-11": "the dentist",
    "2026-11-17": "a jar of honey",
    "2026-11-19": "the car is at the garage",
}
_RECENT = "2026-11-04 2026-11-11 2026-11-17 2026-11-19"
QUESTIONS = (
    ("What did I tell you yesterday?", "2026-11-19"),
    ("Anything new since yesterday?", "2026-11-19"),
    ("Where did we go last spring?", "2026-04-16"),
    ("What happened in July?", "2026-07-09"),
    ("What did I do last week?", "2026-11-11"),
    ("What was going on the week before last?", "2026-11-04"),
    ("What did I say the week before this one?", "2026-11-11"),
    ("Do you remember last month?", "2026-10-15"),
    ("What did I mention the month before last?", "2026-09-30"),
    ("What happened in February 2025?", "2025-02-03"),
    ("And on 2026-11-17?", "2026-11-17"),
    ("What was on Tuesday?", "2026-11-17"),
    ("What did we talk about three days ago?", "2026-11-17"),
    ("Where were we in the spring of 2025?", "2025-05-14"),
    ("What did I buy in autumn 2025?", "2025-10-21"),
    ("What happened in 2024?", "2024-10-08"),
    ("What did we eat last Christmas, in December 2025?", "2025-12-24"),
    ("What did I do in the first quarter of 2026?", "2026-02-11"),
    ("What happened in Q3 2025?", "2025-08-19"),
    ("What did I do in H1 2025?", "2025-02-03 2025-05-14"),
    ("What did I do in the second half of 2025?", "2025-08-19 2025-10-21 2025-12-24"),
    ("What happened between April and June 2026?", "2026-04-16 2026-05-27"),
    ("Was habe ich gestern erzählt?", "2026-11-19"),
    ("Was war letzte Woche los?", "2026-11-11"),
    ("Was war vorletzten Herbst?", "2024-10-08"),
    ("Wo waren wir letzten Frühling?", "2026-04-16"),
    ("Was habe ich vorletzte Woche gesagt?", "2026-11-04"),
    ("Was war in der zweiten Hälfte 2025?", "2025-08-19 2025-10-21 2025-12-24"),
    ("어제 내가 뭐라고 했어?", "2026-11-19"),
    ("지난주에 무슨 일이 있었지?", "2026-11-11"),
    ("작년 가을에 뭐 했어?", "2025-10-21"),
    ("2026년 상반기에 뭐 했어?", "2026-02-11 2026-04-16 2026-05-27"),
    ("What is the most recent thing?", _RECENT),
    ("What have I told you lately?", _RECENT),
    ("Was habe ich zuletzt gemacht?", _RECENT),
    ("최근에 뭐 했어?", _RECENT),
    ("最近怎么样?", _RECENT),
    ("昨天我说了什么?", "2026-11-19"),
    ("昨日は何を話した?", "2026-11-19"),
)


@pytest.fixture(params=["memory", "database"])
async def memory(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[AgentMemory]:
    """Return a memory of the notes, each said on its day; the database gives the candidates."""
    store: InMemoryProvider | LocalFileMemoryProvider = InMemoryProvider()
    if request.param == "database":
        store = LocalFileMemoryProvider(tmp_path)
        assert store._search is not None
        store._search._from = 0
    days = {day: datetime.fromisoformat(f"{day}T10:00:00+00:00") for day in NOTES}
    facts = [MultipleFacts(NOTED, [NOTES[d]], id=d, timestamp=at) for d, at in days.items()]
    await store.save_many(facts, USER, APP)
    profile = MemoryScopesProfile(agent="app")
    async with AgentMemory(store, scopes=profile, subjects=[USER], clock=lambda: NOW) as made:
        yield made


@pytest.mark.parametrize(("question", "right"), QUESTIONS)
async def test_what_is_of_the_time_comes_first(
    memory: AgentMemory, question: str, right: str
) -> None:
    """In four languages, with no word of the notes in the question."""
    found = [match.fact.id for match in await memory.recall(question, limit=3)]

    assert found[:1]
    assert found[0] in right.split()


async def test_words_come_before_the_time(memory: AgentMemory) -> None:
    """A question that names a thing is about the thing, whenever it was."""
    found = await memory.recall("Where is the blue piano from last week?", limit=1)

    assert found[0].fact.id in ("2025-10-21", "2025-08-19")
