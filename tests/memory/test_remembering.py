"""Facts from free text, at once or in the background of an open memory."""

import traceback
from collections.abc import Sequence
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from typing_extensions import TypeForm, TypeVar

from factmem._concurrency.background import MAX_FAILURES
from factmem.errors import ChatModelError, MemoryAccessError
from factmem.events import (
    MemoryEvent,
    MemoryOperation,
    correlated,
)
from factmem.llm.base import (
    ChatResponse,
    Extraction,
    Message,
    ToolDefinition,
)
from factmem.models.sources import FactSource, SourceKind
from factmem.providers.in_memory import InMemoryProvider
from factmem.testing.chat import ScriptedChatModel
from tests.world import AGENT, ALICE, PRODUCT, THEME, USER, item, memory_of

T = TypeVar("T")

BOB = USER.of("bob")
TEXT = "I prefer the dark theme."
LIGHT = {"facts": [item(value="light", quote="light theme")]}
DARK = {"facts": [item()]}


class SlowModel:
    """Answers when it is released; `asked` is set by the first call."""

    def __init__(self, *answers: Any) -> None:
        self._inner = ScriptedChatModel(*answers)
        self.asked = anyio.Event()
        self.go = anyio.Event()

    @property
    def calls(self) -> int:
        return len(self._inner.calls)

    async def respond(
        self, messages: Sequence[Message], *, tools: Sequence[ToolDefinition] = ()
    ) -> ChatResponse:
        raise NotImplementedError

    async def extract(self, messages: Sequence[Message], output_type: TypeForm[T]) -> Extraction[T]:
        self.asked.set()
        await self.go.wait()
        return await self._inner.extract(messages, output_type)


async def _themes(store: InMemoryProvider, subject: Any = ALICE) -> list[str]:
    return [fact.value for fact in await store.load(THEME, subject, AGENT)]


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


async def test_subject_and_scope_can_be_passed() -> None:
    """The text is about them only."""
    store = InMemoryProvider()
    memory = memory_of(store, ScriptedChatModel({"facts": [item(scope="product")]}))

    await memory.view(subjects=[BOB], scopes=[PRODUCT]).remember(TEXT)

    assert [str(info.place) for info in await store.places()] == ["product/my-app user(bob)"]


async def test_an_empty_text_calls_no_model() -> None:
    """It states nothing."""
    model = ScriptedChatModel()

    report = await memory_of(model=model).remember("  ")

    assert (report.saved, report.usage.calls, model.calls) == ([], 0, [])


@pytest.mark.parametrize("wait", [True, False])
async def test_wrong_arguments_raise_at_once(wait: bool) -> None:
    """In the background the error would come too late."""
    async with memory_of() as memory:
        with pytest.raises(ValueError, match="chat_model"):
            await (memory.remember(TEXT) if wait else memory.remember_later(TEXT))
    model = ScriptedChatModel()
    async with memory_of(model=model) as memory:
        view = memory.view(subjects=[ALICE], read_only=True)
        with pytest.raises(MemoryAccessError):
            await (view.remember(TEXT) if wait else view.remember_later(TEXT))
        wrong: Any = 7
        with pytest.raises(TypeError, match="not int"):
            await (memory.remember(wrong) if wait else memory.remember_later(wrong))
    assert model.calls == []


async def test_a_closed_memory_queues_nothing() -> None:
    """It would be lost at the end of the program."""
    memory = memory_of(model=ScriptedChatModel())

    with pytest.raises(RuntimeError, match="needs an open memory"):
        await memory.remember_later(TEXT)
    async with memory:
        pass
    with pytest.raises(RuntimeError, match="needs an open memory"):
        await memory.remember_later(TEXT)


async def test_flush_waits_for_queued_texts() -> None:
    """`remember_later` returns before the model has answered, `flush` after the facts are saved."""
    store, model = InMemoryProvider(), SlowModel(DARK)

    async with memory_of(store, model) as memory:  # type: ignore[arg-type]
        await memory.remember_later(TEXT)
        await model.asked.wait()
        assert await _themes(store) == []
        model.go.set()
        await memory.flush()
        assert await _themes(store) == ["dark"]


async def test_texts_about_one_subject_keep_their_order() -> None:
    """The newest text wins, however long the first one takes."""
    store, model = InMemoryProvider(), SlowModel(DARK, LIGHT)

    async with memory_of(store, model) as memory:  # type: ignore[arg-type]
        await memory.remember_later(TEXT)
        await memory.remember_later("Make that the light theme.")
        await model.asked.wait()
        model.go.set()

    assert await _themes(store) == ["light"]
    assert model.calls == 2


async def test_flush_raises_a_failure_once() -> None:
    """The texts after it are still processed."""
    store = InMemoryProvider()
    model = ScriptedChatModel(ChatModelError("down"), DARK)

    async with memory_of(store, model) as memory:
        await memory.remember_later(TEXT)
        await memory.remember_later(TEXT)
        with pytest.raises(ExceptionGroup) as caught:
            await memory.flush()
        await memory.aclose()

    assert [type(each) for each in caught.value.exceptions] == [ChatModelError]
    assert await _themes(store) == ["dark"]


async def test_the_end_of_the_block_raises_a_failure() -> None:
    """Beside another error it becomes a note."""
    with pytest.raises(ExceptionGroup, match="1 text failed in the background"):
        async with memory_of(model=ScriptedChatModel(ChatModelError("down"))) as memory:
            await memory.remember_later(TEXT)

    async def break_off() -> None:
        async with memory_of(model=ScriptedChatModel(ChatModelError("down"))) as memory:
            await memory.remember_later(TEXT, source="ticket-7")
            raise KeyError

    with pytest.raises(KeyError) as caught:
        await break_off()
    (note,) = caught.value.__notes__
    assert note == (
        "1 text failed in the background as well: ChatModelError of text 1, from 'ticket-7', for "
        "agent/support-bot user(alice), product/my-app user(alice)"
    )


async def test_a_failure_names_its_text() -> None:
    """It has number, source and places, for a retry, and not the words."""
    failures = [ChatModelError("down"), ChatModelError("down"), DARK, ChatModelError("down")]
    async with memory_of(model=ScriptedChatModel(*failures)) as memory:
        await memory.remember_later(TEXT, source="ticket-7")
        await memory.view(scopes=[AGENT]).remember_later([TEXT, TEXT])
        await memory.remember_later(TEXT)
        await memory.view(scopes=[AGENT]).remember_later(TEXT)
        with pytest.raises(ExceptionGroup, match="4 texts failed in the background") as caught:
            await memory.flush()

    both = "agent/support-bot user(alice), product/my-app user(alice)"
    assert [failure.__notes__ for failure in caught.value.exceptions] == [
        [f"In the background: text 1, from 'ticket-7', for {both}"],
        ["In the background: texts 2 to 3, for agent/support-bot user(alice)"],
        ["In the background: text 5, for agent/support-bot user(alice)"],
    ]
    assert TEXT not in "".join(traceback.format_exception(caught.value))


async def test_a_note_stays_short() -> None:
    """Many texts may fail in many places."""
    people = [USER.of(str(number)) for number in range(4)]
    model = ScriptedChatModel(*[ChatModelError("down")] * 7)

    async def break_off() -> None:
        async with memory_of(model=model, subjects=[ALICE]) as memory:
            for number in range(7):
                await memory.view(subjects=[people[number % 4]]).remember_later(TEXT)
            raise KeyError

    with pytest.raises(KeyError) as caught:
        await break_off()
    (note,) = caught.value.__notes__
    assert note.startswith("7 texts failed in the background as well: ")
    assert note.count("ChatModelError of text") == 5
    assert note.endswith("; and 2 more")


async def test_uncollected_failures_are_limited() -> None:
    """The first hundred and the first of each user are kept; the rest are counted."""
    model = ScriptedChatModel(*(ChatModelError("down") for _ in range(MAX_FAILURES + 5)))
    async with memory_of(model=model) as memory:
        bob = memory.view(subjects=[BOB])
        for _ in range(MAX_FAILURES + 3):
            await memory.remember_later(TEXT)
        await memory.recall("anything")  # which waits for them, and raises no failure
        for _ in range(2):
            await bob.remember_later(TEXT)

        with pytest.raises(ExceptionGroup, match=r"2 texts .*; the first 1 are here") as bobs:
            await bob.flush()
        with pytest.raises(ExceptionGroup, match=r"103 texts .*; the first 100 are here") as caught:
            await memory.flush()
        await memory.flush()

    assert len(bobs.value.exceptions) == 1
    assert len(caught.value.exceptions) == MAX_FAILURES


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_cancelled_text_is_one_failed_event(is_async: bool) -> None:
    """A text that was still queued counts too, so that a count of events is complete."""
    events: list[MemoryEvent] = []

    async def tell(event: MemoryEvent) -> None:
        await checkpoint()
        events.append(event)

    listener = tell if is_async else events.append
    model = SlowModel(DARK)
    with anyio.CancelScope() as scope:
        async with memory_of(model=model, listeners=[listener]) as memory:  # type: ignore[arg-type]
            for number in range(3):
                with correlated(f"request-{number}"):
                    await memory.remember_later(TEXT)
            await memory.view(subjects=[BOB]).remember_later(TEXT)
            await model.asked.wait()
            scope.cancel()
            with correlated("too-late"):
                await memory.remember_later(TEXT)

    ends = [event for event in events if event.operation is MemoryOperation.REMEMBER]
    assert scope.cancelled_caught
    assert [event.is_failed for event in ends] == [True] * 5
    assert {event.error_type for event in ends} == {anyio.get_cancelled_exc_class().__name__}
    assert all(event.places for event in ends)
    ids = {event.correlation_id for event in ends}
    assert len(ids) == 5
    assert ids >= {"request-0", "request-1", "request-2", "too-late"}


async def test_each_text_is_one_event_however_the_block_ends() -> None:
    """It covers texts before and after the failure, if the application raised."""
    events: list[MemoryEvent] = []
    model = ScriptedChatModel(DARK, ChatModelError("down"), LIGHT)

    async def break_off() -> None:
        async with memory_of(model=model, listeners=[events.append]) as memory:
            for text in (TEXT, TEXT, "Make that the light theme."):
                await memory.remember_later(text)
            raise KeyError

    with pytest.raises(KeyError):
        await break_off()
    ends = [event for event in events if event.operation is MemoryOperation.REMEMBER]
    assert [event.error_type for event in ends] == [None, "ChatModelError", None]


async def test_a_cancelled_block_leaves_no_task() -> None:
    """Nothing is saved later, and no caller waits forever."""
    store, model = InMemoryProvider(), SlowModel(DARK)

    with anyio.CancelScope() as scope:
        async with memory_of(store, model) as memory:  # type: ignore[arg-type]
            await memory.remember_later(TEXT)
            await model.asked.wait()
            scope.cancel()
            await checkpoint()
    model.go.set()
    await memory.flush()

    assert scope.cancelled_caught
    assert await _themes(store) == []


async def test_a_view_waits_for_its_own_texts() -> None:
    """Bob's request neither waits for Alice's text nor gets its failure."""
    store, model = InMemoryProvider(), SlowModel(ChatModelError("down"))

    async def serve() -> None:
        async with memory_of(store, model) as memory:  # type: ignore[arg-type]
            alice, bob = memory.view(subjects=[ALICE]), memory.view(subjects=[BOB])
            await alice.remember_later(TEXT)
            await model.asked.wait()
            await bob.flush()
            model.go.set()
            await bob.flush()

    with pytest.raises(ExceptionGroup, match="1 text failed"):
        await serve()


async def test_texts_of_a_view_outlive_the_view() -> None:
    """The view of a request is gone before the model answers, and no text is lost."""
    store, model = InMemoryProvider(), SlowModel(DARK)

    async with memory_of(store, model) as memory:  # type: ignore[arg-type]
        await memory.view(subjects=[ALICE]).remember_later(TEXT)
        await model.asked.wait()
        model.go.set()

    assert await _themes(store) == ["dark"]


async def test_one_block_opens_one_memory() -> None:
    """Neither a view nor an open memory can be opened."""
    async with memory_of() as memory:
        with pytest.raises(RuntimeError, match="already open"):
            await memory.__aenter__()
        with pytest.raises(RuntimeError, match="A view cannot be opened"):
            async with memory.view(subjects=[ALICE]):
                pass
