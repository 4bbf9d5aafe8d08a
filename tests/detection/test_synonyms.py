"""Invented keywords that an embedder maps to a known concept."""

from collections.abc import Sequence

import pytest
from anyio import sleep_forever

from factmem.detection._synonyms import KeywordSynonyms
from factmem.detection.report import DetectionReport, JoinedKeyword
from factmem.errors import EmbeddingError
from factmem.events import MemoryEvent, MemoryEvents
from factmem.models.facts import AnyConcept, AnyFact, Concept, FactType, MultipleFacts, SingleFact
from factmem.providers.in_memory import InMemoryProvider
from factmem.testing.chat import ScriptedChatModel
from tests.world import AGENT, ALICE, answer, item, memory_of, user

TOPICS = ["home residence", "vehicles cars bikes", "food dishes", "hobby pastime"]


class TopicEmbedder:
    """Vectors of one topic have similar directions, and all vectors share a common part."""

    model = "topics"
    dimensions = None

    def __init__(self, common: float = 0.3, failure: Exception | None = None) -> None:
        self.common, self.failure = common, failure
        self.asked: list[list[str]] = []

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        self.asked.append(list(texts))
        if self.failure is not None:
            raise self.failure
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> list[float]:
        words = text.casefold().replace(":", "").split()
        own = [float(any(word in topic.split() for word in words)) for topic in TOPICS]
        rest = [0.0] * 40
        if not any(own):
            rest[sum(map(ord, text)) % 40] = 1.0
        return [self.common, *own, *rest]


def fact(concept: AnyConcept, value: str) -> AnyFact:
    if concept.fact_type is FactType.SINGLE:
        return SingleFact(concept, value)
    return MultipleFacts(concept, [value])


CARS = Concept("cars", "Cars of the user", FactType.MULTIPLE)
HOME = Concept("home-town", "The home of the user")


async def detect(
    value: str,
    keyword: str,
    description: str,
    *,
    embedder: TopicEmbedder | None = None,
    known: AnyConcept = CARS,
    stored: str = "a Fiat",
) -> tuple[DetectionReport, InMemoryProvider]:
    """Detect a value under a made-up keyword beside a known concept with a stored value."""
    store = InMemoryProvider()
    await store.save(fact(known, stored), ALICE, AGENT)
    kind = known.fact_type.value
    said = item(quote=value, keyword=keyword, description=description, fact_type=kind, value=value)
    model = ScriptedChatModel(answer(said))
    memory = memory_of(store, model, embedder=embedder or TopicEmbedder())
    return await memory.auto_detect_facts([user(f"So: {value}, you know.")]), store


def saved(report: DetectionReport) -> list[tuple[str, tuple[object, ...]]]:
    return [(each.fact.concept.keyword, each.fact.values) for each in report.saved]


COMMON = pytest.mark.parametrize("common", [0.0, 0.3, 2.0])
"""The similarity of unrelated strings differs between models."""


@COMMON
async def test_a_synonym_is_joined_and_reported(common: float) -> None:
    report, _ = await detect(
        "an old Volvo", "vehicles", "What the user drives", embedder=TopicEmbedder(common)
    )

    assert saved(report) == [("cars", ("an old Volvo",))]
    [joined] = report.joined
    assert (joined.written, joined.keyword) == ("vehicles", "cars")
    assert joined.similarity is not None
    assert 0.75 <= joined.similarity <= 1


@COMMON
async def test_another_concept_is_not_joined(common: float) -> None:
    report, _ = await detect("ramen", "noodles", "A dish for lunch", embedder=TopicEmbedder(common))

    assert (saved(report), report.joined) == ([("noodles", ("ramen",))], [])


async def test_a_join_never_replaces_another_single_value() -> None:
    """The same value is confirmed under the known keyword."""
    live = "Where the user lives"
    other, store = await detect("Denver", "residence", live, known=HOME, stored="Boston")
    same, _ = await detect("Boston", "residence", live, known=HOME, stored="Boston")

    assert (saved(other), other.joined) == ([("residence", ("Denver",))], [])
    assert [each.values for each in await store.load(HOME, ALICE, AGENT)] == [("Boston",)]
    assert [each.fact.concept.keyword for each in same.confirmed] == ["home-town"]
    assert [each.keyword for each in same.joined] == ["home-town"]


@pytest.mark.parametrize(
    ("keyword", "description"),
    [
        ("food-dislikes", "Food that the user dislikes"),
        ("mother-food", "Food of the user's mother"),
        ("former-food", "Food of earlier years"),
    ],
)
async def test_opposites_are_not_compared(keyword: str, description: str) -> None:
    """Embedders give "likes" and "dislikes" nearly the same vector."""
    likes = Concept("food-likes", "Food that the user likes", FactType.MULTIPLE)

    report, _ = await detect("olives", keyword, description, known=likes, stored="bread")

    assert report.joined == []


async def test_keywords_of_the_same_words_need_no_embedder() -> None:
    embedder = TopicEmbedder()

    report, _ = await detect("a Volvo", "car", "A car", embedder=embedder)

    assert report.joined == [JoinedKeyword("car", "cars")]
    assert embedder.asked == []


async def test_two_synonyms_in_one_answer_become_one_keyword() -> None:
    items = [
        item(
            quote="I like", keyword=each, description="What for", fact_type="MULTIPLE", value=value
        )
        for each, value in (("hobby", "chess"), ("pastime", "darts"))
    ]
    store = InMemoryProvider()
    await store.save(fact(CARS, "a Fiat"), ALICE, AGENT)
    memory = memory_of(store, ScriptedChatModel(answer(*items)), embedder=TopicEmbedder())

    report = await memory.auto_detect_facts([user("I like chess and darts")])

    assert {each.fact.concept.keyword for each in report.saved} == {"hobby"}
    assert [(each.written, each.keyword) for each in report.joined] == [("pastime", "hobby")]


async def test_a_failing_embedder_prevents_only_the_join(caplog: pytest.LogCaptureFixture) -> None:
    embedder = TopicEmbedder(failure=EmbeddingError("a secret word"))

    report, _ = await detect("a Volvo", "vehicles", "Vehicles", embedder=embedder)

    assert saved(report) == [("vehicles", ("a Volvo",))]
    assert "EmbeddingError" in caplog.text
    assert "secret word" not in caplog.text


async def test_a_slow_embedder_prevents_only_the_join(monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(TopicEmbedder):
        async def embed(self, texts: Sequence[str]) -> list[list[float]]:
            await sleep_forever()
            return []

    monkeypatch.setattr("factmem.detection._synonyms._SECONDS", 0.02)

    report, _ = await detect("a Volvo", "vehicles", "Vehicles", embedder=Slow())

    assert saved(report) == [("vehicles", ("a Volvo",))]


async def test_known_concepts_are_embedded_once_and_each_request_is_an_event() -> None:
    embedder, events = TopicEmbedder(), list[MemoryEvent]()
    synonyms = KeywordSynonyms(embedder, MemoryEvents([events.append]))
    first = [Concept("vehicles", "What the user drives")]

    await synonyms.find(first, [CARS], [])
    await synonyms.find([Concept("noodles", "A dish")], [CARS], [])
    found = await synonyms.find(first, [CARS], [])

    assert [each.keyword for each in found] == ["cars"]
    assert [len(each) for each in embedder.asked] == [10, 1]
    assert [(each.operation, each.count) for each in events] == [("embed", 10), ("embed", 1)]
    assert await synonyms.find([], [CARS], []) == []
