"""Recall without its optional packages."""

import sys
from collections.abc import Callable, Iterator

import pytest

from factmem.agent.agent import Agent
from factmem.embedding.base import Embedder
from factmem.embedding.litellm import LiteLLMEmbedder
from factmem.embedding.openai import OpenAIEmbedder
from factmem.embedding.sentence_transformer import SentenceTransformerEmbedder
from factmem.errors import MissingExtraError
from factmem.memory.agent_memory import AgentMemory
from factmem.models.places import MemoryScopesProfile
from factmem.providers.in_memory import InMemoryProvider
from factmem.recall._place_vectors import numpy_or_none
from factmem.testing.chat import ScriptedChatModel
from tests.doubles import TopicEmbedder
from tests.world import AGENT, ALICE, bare_note, found_values, recall_memory

EMBEDDERS: dict[str, tuple[Callable[[], Embedder], str]] = {
    "litellm": (lambda: LiteLLMEmbedder("cohere/embed"), r"pip install 'factmem\[litellm\]'"),
    "sentence_transformers": (
        lambda: SentenceTransformerEmbedder("all-MiniLM-L6-v2"),
        r"pip install 'factmem\[sentence-transformers\]'",
    ),
    "openai": (lambda: OpenAIEmbedder("text-embedding-3-small"), "pip install openai"),
}


@pytest.fixture
async def store() -> InMemoryProvider:
    made = InMemoryProvider()
    await made.save_many(
        [
            bare_note("miso", "kitten"),
            bare_note("mornings", "espresso"),
            bare_note("ride", "bicycle"),
        ],
        ALICE,
        AGENT,
    )
    return made


@pytest.mark.parametrize("package", EMBEDDERS)
async def test_an_embedder_without_its_package_says_what_to_install(
    store: InMemoryProvider, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every kind of recall raises it; there is no fallback, and no prompt changes."""
    make, message = EMBEDDERS[package]
    monkeypatch.setitem(sys.modules, package, None)
    memory = recall_memory(store, embedder=make())
    chat = [{"role": "user", "content": "Any animal?"}]
    model = ScriptedChatModel()
    agent = Agent(model)
    agent.install(
        AgentMemory,
        provider=store,
        scopes=MemoryScopesProfile(agent="support-bot"),
        subjects=[ALICE],
        embedder=make(),
        recall=5,
    )
    (recall, *_) = memory.tools()

    with pytest.raises(MissingExtraError, match=message):
        await memory.recall("Any animal?")
    with pytest.raises(MissingExtraError, match=message):
        await memory.recall_facts_to_agent(chat)
    with pytest.raises(MissingExtraError, match=message):
        await recall.call('{"query": "Any animal?"}')
    with pytest.raises(MissingExtraError, match=message):
        await agent.run("Any animal?")

    assert (len(chat), model.calls) == (1, [])
    assert len(await memory.current()) == 3
    assert found_values(await recall_memory(store).recall("kitten")) == ["kitten"]


@pytest.fixture
def without_numpy(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Hide numpy, and reset the cached check for it."""
    numpy_or_none.cache_clear()
    monkeypatch.setitem(sys.modules, "numpy", None)
    yield
    monkeypatch.undo()
    numpy_or_none.cache_clear()


@pytest.mark.usefixtures("without_numpy")
async def test_vectors_need_numpy(store: InMemoryProvider) -> None:
    """The error says what to install; words are searched without it."""
    embedder = TopicEmbedder()

    with pytest.raises(MissingExtraError, match=r"pip install 'factmem\[recall\]'"):
        await recall_memory(store, embedder=embedder).recall("Any animal?")

    assert embedder.calls == []
    assert found_values(await recall_memory(store).recall("Which kitten?")) == ["kitten"]
