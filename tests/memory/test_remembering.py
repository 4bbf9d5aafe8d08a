"""Facts from free text."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from factmem.detection.report import DetectionReport
from factmem.models.facts import FactSource, SourceKind
from factmem.providers.in_memory import InMemoryProvider
from factmem.testing.chat import ScriptedChatModel
from tests.doubles import MeanwhileModel
from tests.world import AGENT, ALICE, THEME, item, memory_of

TEXT = "I prefer the dark theme."
DARK = {"facts": [item()]}


async def remembered_while(
    provider: Any, meanwhile: Callable[[], Awaitable[object]], **options: Any
) -> DetectionReport:
    """Remember a text, and do something before the model answers."""
    model = MeanwhileModel(meanwhile, DARK)
    return await memory_of(provider, model, concepts=[THEME], **options).remember(TEXT)


async def test_a_text_becomes_facts_with_one_call() -> None:
    """It has a quote of the text, and the application's name for it."""
    store, model = InMemoryProvider(), ScriptedChatModel(DARK)

    report = await memory_of(store, model).remember(TEXT, source="ticket-7")

    (fact,) = await store.load(THEME, ALICE, AGENT)
    assert [placed.fact.id for placed in report.saved] == [fact.id]
    assert fact.source == FactSource(SourceKind.USER, "ticket-7", 0, "dark theme")
    assert len(model.calls) == 1


async def test_the_source_of_a_document_is_kept() -> None:
    """The source is saved as passed, and facts can be forgotten by it."""
    store = InMemoryProvider()
    source = FactSource(SourceKind.DOCUMENT, "handbook.pdf")

    await memory_of(store, ScriptedChatModel(DARK)).remember(TEXT, source=source)

    (fact,) = await store.load(THEME, ALICE, AGENT)
    assert fact.source is not None
    assert fact.source.kind is SourceKind.DOCUMENT
    assert await store.forget(ALICE, AGENT, source=source) == 1


async def test_many_texts_take_one_call() -> None:
    """The later one wins, and each fact names its text by position."""
    store = InMemoryProvider()
    answer = {"facts": [item(), item(value="light", quote="light theme", message=1)]}
    model = ScriptedChatModel(answer)

    await memory_of(store, model).remember([TEXT, "Now I prefer the light theme."])

    (fact,) = await store.load(THEME, ALICE, AGENT)
    assert fact.value == "light"
    assert fact.source is not None
    assert fact.source.message == 1
    assert len(model.calls) == 1


async def test_an_empty_text_calls_no_model() -> None:
    """It states nothing."""
    model = ScriptedChatModel()

    report = await memory_of(model=model).remember("  ")

    assert (report.saved, report.usage.calls, model.calls) == ([], 0, [])


async def test_a_retraction_of_what_was_said_again_since_is_refused() -> None:
    """Its detection may have taken longer than that of the later statement."""
    green = {"facts": [item(value="green", quote="green theme")]}
    gone = {"facts": [item(value="green", quote="no green theme", action="retract")]}
    early = datetime.now(UTC) - timedelta(minutes=5)
    memory = memory_of(InMemoryProvider(), ScriptedChatModel(green, gone), concepts=[THEME])
    later = early + timedelta(seconds=1)
    await memory.remember("I use the green theme.", said_at=later)

    report = await memory.remember("I use no green theme any more.", source="b", said_at=early)

    assert report.retracted == []
    [refused] = report.refused
    assert (refused.value, refused.said_at) == ("green", early)
    assert [fact.values for fact in await memory.current()] == [("green",)]
