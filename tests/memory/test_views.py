"""A view shows only its places, in every call."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from factmem.detection import Detection
from factmem.errors import MemoryAccessError, UnboundSubjectError
from factmem.events import MemoryEvents
from factmem.memory.agent_memory import AgentMemory
from factmem.models.places import UNBOUNDED, MemoryScope, MemoryScopeType, MemorySubject, Place
from factmem.models.when import TimeProvider
from factmem.providers._view import StoreView
from factmem.providers.in_memory import InMemoryProvider
from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.providers.store import FactStore
from factmem.testing.chat import ScriptedChatModel
from tests.contracts.stores import FactStoreContract
from tests.doubles import BareProvider
from tests.world import AGENT, ALICE, BOB, PROFILE, THEME, USER, memory_of, theme, user

OURS, THEIRS = Place(AGENT, ALICE), Place(AGENT, BOB)


class TestStoreView(FactStoreContract):
    """Inside its boundary a view passes the contract of stores."""

    def make_provider(self, clock: TimeProvider) -> StoreView:
        return StoreView(InMemoryProvider(clock=clock), UNBOUNDED, MemoryEvents())

    @pytest.fixture
    def second(self, provider: FactStore) -> StoreView:
        return StoreView(provider, UNBOUNDED, MemoryEvents())


@pytest.fixture(params=["memory", "files"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[FactStore]:
    made: FactStore
    made = InMemoryProvider() if request.param == "memory" else LocalFileMemoryProvider(tmp_path)
    async with made:
        await made.save(theme("ours"), ALICE, AGENT)
        await made.save(theme("theirs"), BOB, AGENT)
        yield made


def store_of(memory: AgentMemory) -> FactStore:
    assert isinstance(memory.provider, FactStore)
    return memory.provider


@pytest.mark.parametrize("place", [THEIRS, OURS], ids=["outside", "read-only"])
async def test_writing_outside_raises(store: FactStore, place: Place) -> None:
    """Every write raises, and stored facts do not change."""
    view = memory_of(store).view(subjects=[ALICE], read_only=place is OURS)
    seen, at = store_of(view), (place.subject, place.scope)
    before = await store.entries(*at)

    with pytest.raises(MemoryAccessError, match="view"):
        await seen.save(theme("new"), *at)
    with pytest.raises(MemoryAccessError, match="view"):
        await seen.save_many([theme("new")], *at)
    with pytest.raises(MemoryAccessError, match="view"):
        await seen.forget(*at, concept=THEME)
    with pytest.raises(MemoryAccessError, match="view"):
        await seen.erase(*at)
    with pytest.raises(MemoryAccessError, match="view"):
        await seen.replay(before, *at)

    assert await store.entries(*at) == before


@pytest.mark.parametrize("subject", [BOB, ALICE], ids=["outside", "read-only"])
async def test_no_model_is_called_for_what_cannot_be_written(subject: MemorySubject) -> None:
    """Detection raises before it costs anything, and before a model reads the chat."""
    model = ScriptedChatModel()
    view = memory_of(model=model).view(subjects=[ALICE], read_only=subject is ALICE)
    chat = [user("I prefer the dark theme.")]

    with pytest.raises(MemoryAccessError):
        await view.view(subjects=[subject]).remember("I prefer the dark theme.")
    with pytest.raises(MemoryAccessError):
        await view.view(subjects=[subject]).auto_detect_facts(chat)
    with pytest.raises(MemoryAccessError):
        await view.view(subjects=[subject], scopes=[AGENT]).auto_detect_facts(chat)
    with pytest.raises(MemoryAccessError):
        await view.view(subjects=[subject], scopes=[AGENT]).auto_detect_facts(
            chat, detection=Detection(only=[THEME])
        )

    assert model.calls == []


async def test_a_view_of_a_view_only_narrows(store: FactStore) -> None:
    """Subjects and write access that a view removed do not return."""
    narrow = memory_of(store).view(subjects=[ALICE], read_only=True)

    wide = narrow.view(subjects=[ALICE, BOB], read_only=False)

    assert await wide.view(subjects=[BOB]).current(THEME) == []
    assert [fact.value for fact in await wide.current(THEME)] == ["ours"]
    with pytest.raises(MemoryAccessError, match="read-only"):
        await wide.provider.save(theme("new"), ALICE, AGENT)


async def test_an_unbound_subject_raises() -> None:
    """Omitting the entity does not show all users."""
    with pytest.raises(UnboundSubjectError):
        memory_of().view(subjects=[USER])


async def test_a_type_of_scope_means_the_scope_of_the_view() -> None:
    """A view of another product does not save in the product of the memory."""
    other = MemoryScope.Product("other-app")
    memory = AgentMemory(InMemoryProvider(), scopes=PROFILE, subjects=[ALICE])

    view = memory.view(scopes=[other])
    await view.provider.save(theme("dark"), ALICE, other)

    found = await view.view(scopes=[MemoryScopeType.PRODUCT]).current(THEME)
    assert [fact.value for fact in found] == ["dark"]
    assert await memory.view(scopes=[MemoryScopeType.PRODUCT]).current(THEME) == []


async def test_a_small_provider_is_guarded_too() -> None:
    """Views of a backend with four methods have no unguarded method."""
    bare = BareProvider()
    await bare.save(theme("theirs"), BOB, AGENT)

    view = memory_of(bare).view(subjects=[ALICE])

    assert type(view.provider) is StoreView
    assert await view.provider.load_all(BOB, AGENT) == []
    assert await view.provider.load_by_description("theme", BOB, AGENT) == []
    assert await view.view(subjects=[BOB]).current(THEME) == []
    with pytest.raises(MemoryAccessError, match="outside"):
        await view.provider.save(theme("new"), BOB, AGENT)
    await view.provider.save(theme("ours"), ALICE, AGENT)
    assert len(await view.current(THEME)) == 1
    with pytest.raises(TypeError, match="BareProvider is not a FactStore"):
        await view.provider.entries(ALICE, AGENT)


async def test_closing_a_view_leaves_the_store_open(store: FactStore) -> None:
    """The end of one request does not end the others."""
    view = memory_of(store).view(subjects=[ALICE])

    await store_of(view).aclose()

    assert len(await store.load(THEME, ALICE, AGENT)) == 1
    with pytest.raises(ValueError, match="closed"):
        await view.current(THEME)
