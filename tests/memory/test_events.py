"""Every operation emits one event, and no listener can break it."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import anyio
import pytest

from factmem import events as events_module
from factmem.errors import ChatModelError, ExtractionError, StorageError
from factmem.events import MemoryEvent, MemoryEvents, MemoryOperation, correlated
from factmem.memory.agent_memory import AgentMemory
from factmem.models.when import TimeProvider
from factmem.providers._view import StoreView
from factmem.providers.in_memory import InMemoryProvider
from factmem.providers.store import FactStore
from factmem.testing.chat import ScriptedChatModel
from tests.contracts.stores import FactStoreContract
from tests.doubles import BareProvider, FailingProvider, MeanwhileModel, TopicEmbedder
from tests.world import AGENT, ALICE, PRODUCT, THEME, item, languages, memory_of, theme
from tests.world import user as said

TEXT = "I prefer the dark theme."
SECRET = "the-secret-value"
OP = MemoryOperation


class TestObservedStore(FactStoreContract):
    """A store with listeners passes the contract of stores."""

    def make_provider(self, clock: TimeProvider) -> StoreView:
        return StoreView(InMemoryProvider(clock=clock), None, MemoryEvents([lambda _: None]))


@pytest.fixture
def events() -> list[MemoryEvent]:
    """Return the events so far."""
    return []


@pytest.fixture
def make(events: list[MemoryEvent]) -> Callable[..., AgentMemory]:
    def make(model: ScriptedChatModel | None = None, **options: Any) -> AgentMemory:
        return memory_of(model=model, listeners=[events.append], **options)

    return make


def _kinds(events: list[MemoryEvent]) -> list[tuple[str, int]]:
    return [(event.operation.value, event.count) for event in events]


def _store(memory: AgentMemory) -> FactStore:
    assert isinstance(memory.provider, FactStore)
    return memory.provider


async def test_operations_on_the_store_are_reported(
    make: Callable[..., AgentMemory], events: list[MemoryEvent]
) -> None:
    """Each event has its place and the number of its values."""
    memory = make()
    store = _store(memory)

    await store.save(theme("dark"), ALICE, AGENT)
    await store.save_many([theme("light"), languages("en", "ko")], ALICE, AGENT)
    await store.load(THEME, ALICE, AGENT)
    await store.load_all(ALICE, AGENT)
    await store.load_by_description("theme", ALICE, AGENT)
    await store.history(THEME, ALICE, AGENT)
    entries = await store.entries(ALICE, AGENT)
    await store.replay(entries, ALICE, PRODUCT)
    await store.forget(ALICE, AGENT, concept=THEME)
    await store.places()
    await store.erase(ALICE, AGENT)

    assert _kinds(events) == [
        ("save", 1),
        ("save", 3),
        ("load", 1),
        ("load", 3),
        ("load", 1),
        ("history", 2),
        ("history", 2),
        ("save", 2),
        ("forget", 1),
        ("list", 2),
        ("erase", 2),
    ]
    assert {str(event.places[0]) for event in events if event.places} == {
        "agent/support-bot user(alice)",
        "product/my-app user(alice)",
    }
    assert all(event.milliseconds >= 0 and not event.is_failed for event in events)
    assert len({event.correlation_id for event in events}) == len(events)


async def test_a_detection_is_reported_with_its_cost(
    make: Callable[..., AgentMemory], events: list[MemoryEvent]
) -> None:
    """Its own operations are reported before it, with its correlation id."""
    memory = make(ScriptedChatModel({"facts": [item()]}))

    report = await memory.auto_detect_facts([said(TEXT)])

    assert _kinds(events) == [("load", 0), ("load", 0), ("chat", 1), ("save", 1), ("detect", 1)]
    assert len({event.correlation_id for event in events}) == 1
    last = events[-1]
    assert (last.llm_calls, last.input_tokens) == (1, report.usage.input_tokens)
    assert len(last.places) == 2


@pytest.mark.parametrize(
    ("answers", "calls"), [(("nonsense", "nonsense"), 2), ((ChatModelError("down"),), 1)]
)
async def test_a_failed_operation_reports_its_cost(
    make: Callable[..., AgentMemory],
    events: list[MemoryEvent],
    answers: Sequence[object],
    calls: int,
) -> None:
    """A sum of model calls over events is complete."""
    with pytest.raises((ChatModelError, ExtractionError)):
        await make(ScriptedChatModel(*answers)).auto_detect_facts([said(TEXT)])

    last = events[-1]
    assert (last.operation, last.is_failed, last.llm_calls) == (OP.DETECT, True, calls)
    assert (last.input_tokens > 0) is (calls == 2)


async def test_remembering_is_one_event(
    make: Callable[..., AgentMemory], events: list[MemoryEvent]
) -> None:
    """It is reported once, at its end, and not as a detection too."""
    await make(ScriptedChatModel({"facts": [item()]})).remember(TEXT)

    remembered = [event for event in events if event.operation is OP.REMEMBER]
    assert [(event.count, event.llm_calls) for event in remembered] == [(1, 1)]
    assert not [event for event in events if event.operation is OP.DETECT]


async def test_a_small_provider_emits_events(events: list[MemoryEvent]) -> None:
    """They cover its four methods, and a failure of one of them."""
    memory = memory_of(BareProvider(), listeners=[events.append])
    assert type(memory.provider) is StoreView
    await memory.provider.save(theme("dark"), ALICE, AGENT)
    await memory.provider.load(THEME, ALICE, AGENT)
    await memory.provider.load_all(ALICE, AGENT)
    await memory.provider.load_by_description("theme", ALICE, AGENT)
    assert _kinds(events) == [("save", 1), ("load", 1), ("load", 1), ("load", 1)]

    failing = memory_of(FailingProvider(AGENT), listeners=[events.append])
    with pytest.raises(StorageError):
        await failing.current()
    ended = {str(event.places[0].scope): event.error_type for event in events[4:]}
    assert ended["agent/support-bot"] == "StorageError"
    assert ended["product/my-app"] is not None


async def test_events_contain_no_values(events: list[MemoryEvent]) -> None:
    memory = memory_of(listeners=[events.append], embedder=TopicEmbedder())
    await memory.provider.save(theme(SECRET), ALICE, AGENT)
    await memory.provider.load_by_description(SECRET, ALICE, AGENT)
    await memory.recall(SECRET)

    assert {event.operation for event in events} == {OP.SAVE, OP.LOAD, OP.RECALL, OP.EMBED}
    assert SECRET not in str([asdict(event) for event in events])


async def test_a_failing_listener_breaks_nothing(
    events: list[MemoryEvent], caplog: pytest.LogCaptureFixture
) -> None:
    """The others get the event, the operation returns, and the log has no value."""

    def broken(event: MemoryEvent) -> None:
        raise RuntimeError(SECRET)

    async def broken_too(event: MemoryEvent) -> None:
        await anyio.lowlevel.checkpoint()
        broken(event)

    memory = memory_of(listeners=[broken, broken_too, events.append])
    with caplog.at_level(logging.WARNING):
        await memory.provider.save(theme(SECRET), ALICE, AGENT)

    assert len(events) == 1
    assert len(await memory.current(THEME)) == 1
    assert caplog.text.count("raised RuntimeError") == 6
    assert "broken_too" in caplog.text
    assert SECRET not in caplog.text


async def test_a_listener_that_hangs_is_cancelled(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An operation does not wait for it forever."""
    monkeypatch.setattr(events_module, "LISTENER_SECONDS", 0.01)

    async def hangs(_: MemoryEvent) -> None:
        await anyio.sleep_forever()

    with anyio.fail_after(60):
        await memory_of(listeners=[hangs]).provider.save(theme("dark"), ALICE, AGENT)

    assert "took too long" in caplog.text


async def test_a_cancelled_operation_is_reported(events: list[MemoryEvent]) -> None:
    """Async listeners get the event too."""

    async def listen(event: MemoryEvent) -> None:
        await anyio.lowlevel.checkpoint()
        events.append(event)

    async def cancel() -> None:
        scope.cancel()
        await anyio.sleep_forever()

    memory = memory_of(model=MeanwhileModel(cancel), listeners=[listen])
    with anyio.CancelScope() as scope:
        await memory.auto_detect_facts([said(TEXT)])

    assert scope.cancelled_caught
    assert [event.operation for event in events] == [OP.LOAD, OP.LOAD, OP.CHAT, OP.DETECT]
    assert [event.is_failed for event in events] == [False, False, True, True]


async def test_a_request_has_one_correlation_id(
    make: Callable[..., AgentMemory], events: list[MemoryEvent]
) -> None:
    """It is the application's, for everything in its block and nothing after it."""
    memory = make()

    with correlated("request-17"):
        await memory.current(THEME)
    await memory.current(THEME)

    assert [event.correlation_id == "request-17" for event in events] == [True, True, False, False]


def test_without_a_listener_there_is_no_wrapper() -> None:
    """The provider is the object that was passed."""
    store = InMemoryProvider()

    assert memory_of(store).provider is store


@pytest.mark.parametrize(("given", "error"), [(5, TypeError), (None, TypeError), ("", ValueError)])
def test_a_correlation_id_is_a_string(given: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="orrelation_id must"), correlated(given):
        raise AssertionError("the block has begun")
