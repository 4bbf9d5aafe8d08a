"""Texts whose extraction failed: kept on request, retried, listed, and erased with the user."""

from datetime import timedelta
from typing import Any

import pytest

from factmem.errors import ChatModelError, ExtractionError, MemoryAccessError
from factmem.memory.agent_memory import AgentMemory
from factmem.memory.failed_texts import FAILED_TEXTS
from factmem.models.sources import FactSource, SourceKind
from factmem.providers.base import FactStore
from factmem.providers.in_memory import InMemoryProvider
from factmem.testing.chat import ScriptedChatModel
from factmem.testing.clock import SettableClock
from tests.doubles import BareProvider
from tests.world import ALICE, DEVICE, PRODUCT, THEME, USER, item, memory_of, theme

TEXT = "I prefer the dark theme."
FOUND = {"facts": [item()]}
SETUP = theme("light")


def down() -> ChatModelError:
    return ChatModelError("The endpoint is down")


def failing(store: FactStore, *answers: Any, **options: Any) -> AgentMemory:
    return memory_of(store, ScriptedChatModel(*answers), **options)


async def themes(memory: AgentMemory) -> list[str]:
    return [fact.value for fact in await memory.current(THEME)]


async def test_failed_texts_are_kept_only_on_request(store: FactStore) -> None:
    memory = failing(store, down())
    with pytest.raises(ChatModelError):
        await memory.remember(TEXT)

    assert await store.places() == []


async def test_a_failed_text_is_kept_and_read_later(store: FactStore, clock: SettableClock) -> None:
    """With its date and source; its error is raised, too, and says where the text is."""
    memory = failing(store, down(), FOUND, clock=clock)
    source = FactSource(SourceKind.DOCUMENT, "letter-7")
    with pytest.raises(ChatModelError) as raised:
        await memory.remember(TEXT, source=source, keep_failed=True)
    [kept] = await memory.failed_texts.infos()

    assert raised.value.__notes__ == [f"The text is kept as {kept.id!r}: see memory.failed_texts"]
    assert (kept.texts, kept.subject.entity, kept.source) == ((TEXT,), "alice", source)
    assert (kept.error, kept.attempts, kept.said_at) == ("ChatModelError", 1, clock())
    assert TEXT not in repr(kept)

    said = clock()
    clock.advance(timedelta(days=3))
    report = await memory.failed_texts.retry()
    [fact] = await memory.current(THEME)
    assert (len(report.reports), report.failures, report.left) == (1, [], 0)
    assert (fact.value, fact.timestamp) == ("dark", said)
    assert fact.source is not None
    assert (fact.source.kind, fact.source.conversation) == (SourceKind.DOCUMENT, "letter-7")
    assert await memory.failed_texts.infos() == []


async def test_no_prompt_and_no_recall_shows_a_kept_text(store: FactStore) -> None:
    memory = failing(store, down())
    with pytest.raises(ChatModelError):
        await memory.remember(TEXT, keep_failed=True)

    assert await memory.text() == ""
    assert await memory.recall("dark theme") == []
    [place] = await memory.contents.places()  # nothing is kept without being listed
    assert place.scope == FAILED_TEXTS


async def test_a_text_that_fails_again_stays(store: FactStore) -> None:
    """An endpoint that is down ends the round; an unusable answer does not."""
    memory = failing(store, down(), down(), down(), "no", "no", FOUND)
    for number in range(2):
        with pytest.raises(ChatModelError):
            await memory.remember(f"{number} {TEXT}", keep_failed=True)

    report = await memory.failed_texts.retry()
    assert (report.reports, len(report.failures), report.left) == ([], 1, 2)
    report = await memory.failed_texts.retry()
    assert isinstance(report.failures[0], ExtractionError)
    assert (len(report.reports), report.left) == (1, 1)
    [kept] = await memory.failed_texts.infos()
    assert (kept.attempts, kept.error) == (3, "ExtractionError")


async def test_texts_are_chosen_and_discarded_by_id(store: FactStore) -> None:
    memory = failing(store, down(), down(), FOUND)
    for _ in range(2):
        with pytest.raises(ChatModelError):
            await memory.remember(TEXT, keep_failed=True)
    first, second = await memory.failed_texts.infos()

    assert (await memory.failed_texts.retry(second.id)).left == 1
    assert await memory.failed_texts.discard(second.id) == 0
    assert await memory.failed_texts.discard(first.id, purge=True) == 1
    assert await memory.failed_texts.infos() == []


async def test_erasing_a_user_erases_the_failed_texts(store: FactStore) -> None:
    """A view of another user neither lists nor erases them."""
    memory = failing(store, down(), down(), subjects=[USER])
    for name in ("alice", "bob"):
        with pytest.raises(ChatModelError):
            await memory.of(name).remember(TEXT, keep_failed=True)
    assert len(await memory.of("alice").failed_texts.infos()) == 1
    await memory.of("alice").contents.reset(confirm=True)

    assert await memory.of("alice").failed_texts.infos() == []
    assert len(await memory.of("bob").failed_texts.infos()) == 1
    with pytest.raises(ValueError, match="per entity"):
        await memory.failed_texts.infos()


async def test_a_text_of_an_erased_user_does_not_return(store: FactStore) -> None:
    """The user was erased during the model call."""

    class Erasing(ScriptedChatModel):
        async def extract(self, *args: Any, **options: Any) -> Any:
            await memory.contents.reset(confirm=True, everything=True)
            return await super().extract(*args, **options)

    await store.save(SETUP, ALICE, PRODUCT)
    memory = memory_of(store, Erasing(down()))
    with pytest.raises(ChatModelError) as raised:
        await memory.remember(TEXT, keep_failed=True)

    assert raised.value.__notes__ == [
        "The text was not kept, because data was erased from the store since the call"
    ]
    assert await store.places() == []


async def test_a_retry_restores_nothing_of_an_erased_user(store: FactStore) -> None:
    """The user was erased after the listing, and during a model call."""

    class Erasing(ScriptedChatModel):
        async def extract(self, *args: Any, **options: Any) -> Any:
            if self.remaining == 1:
                await memory.contents.reset(confirm=True, everything=True)
            return await super().extract(*args, **options)

    memory = memory_of(store, Erasing(down(), down(), FOUND))
    for _ in range(2):
        with pytest.raises(ChatModelError):
            await memory.remember(TEXT, keep_failed=True)
    report = await memory.failed_texts.retry()

    assert report.left == 0
    assert await themes(memory) == []
    assert not any(info.count for info in await store.places())


async def test_texts_of_the_background_are_kept_too(store: FactStore) -> None:
    memory = failing(store, down(), FOUND)
    async with memory:
        await memory.remember_later([TEXT, "And tea."], keep_failed=True)
        with pytest.raises(ExceptionGroup) as raised:
            await memory.flush()
        notes = " ".join(raised.value.exceptions[0].__notes__)
        [kept] = await memory.failed_texts.infos()
        assert kept.id in notes
        assert kept.texts == (TEXT, "And tea.")
        assert (await memory.failed_texts.retry()).left == 0
    assert await themes(memory) == ["dark"]


async def test_a_view_of_one_scope_keeps_texts_and_saves_no_further(store: FactStore) -> None:
    memory = failing(store, down(), {"facts": [item(scope="product")]})
    view = memory.view(scopes=[PRODUCT], subjects=[ALICE, DEVICE])
    with pytest.raises(ChatModelError):
        await view.remember(TEXT, keep_failed=True)
    elsewhere = memory.view(subjects=[ALICE], scopes=[FAILED_TEXTS])

    assert len(await view.failed_texts.infos()) == 1
    with pytest.raises(MemoryAccessError, match="places"):
        await elsewhere.failed_texts.retry()
    with pytest.raises(MemoryAccessError, match="read-only"):
        await view.view(read_only=True).failed_texts.retry()
    assert (await view.failed_texts.retry()).left == 0
    filled = [str(each.scope) for each in await memory.contents.places() if each.count]
    assert filled == ["product/my-app"]


async def test_a_provider_that_cannot_forget_raises_before_the_model_call() -> None:
    model = ScriptedChatModel()
    memory = memory_of(BareProvider(), model)
    with pytest.raises(TypeError, match="FactStore"):
        await memory.remember(TEXT, keep_failed=True)
    with pytest.raises(TypeError, match="keep_failed must be a bool"):
        await memory_of(InMemoryProvider(), model).remember(TEXT, keep_failed=1)  # type: ignore[arg-type]

    assert model.calls == []
