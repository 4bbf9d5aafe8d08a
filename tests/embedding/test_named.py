"""Embedders and chat models by name: the name chooses the endpoint, and opens nothing."""

import json

import pytest

from factmem import AgentMemory, Concept, InMemoryProvider, SingleFact
from factmem.embedding._named import named_embedder
from factmem.embedding.openai import OpenAIEmbedder
from factmem.embedding.sentence_transformer import SentenceTransformerEmbedder
from factmem.llm.openai import named_chat_model, ollama_url
from factmem.models.places import MemoryScope, MemoryScopesProfile, MemorySubject
from tests.chat_server import ChatServer, sends
from tests.tables import table


async def test_a_memory_compares_meanings_by_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a line of code for the embedder, here at an endpoint like Ollama's."""
    store = InMemoryProvider()
    user, scope = MemorySubject("user", "The user", 1), MemoryScope.Agent("desk")
    await store.save(SingleFact(Concept("home", "Who lives with her"), "a cat"), user, scope)
    profile = MemoryScopesProfile(agent="desk")
    with ChatServer() as server:
        monkeypatch.setenv("OLLAMA_HOST", server.url.removesuffix("/v1"))
        memory = AgentMemory(
            store, embedder="ollama:nomic-embed-text", scopes=profile, subjects=[user]
        )
        vector = {"object": "embedding", "index": 0, "embedding": [1.0, 2.0]}
        server.answer(*[sends(json.dumps({"data": [vector]}).encode())] * 2)
        found = await memory.recall("Any pet?")

    asked = [(request.path, request.body["model"]) for request in server.requests]
    assert asked == [("/v1/embeddings", "nomic-embed-text")] * 2
    assert found.is_semantic, found.failures
    assert [match.fact.values for match in found] == [("a cat",)]


def test_each_provider_has_its_class() -> None:
    """Nothing is loaded or opened before the first call."""
    named = [named_embedder(f"{name}:m") for name in ("openai", "ollama", "sentence-transformers")]

    assert [type(each) for each in named] == [
        OpenAIEmbedder,
        OpenAIEmbedder,
        SentenceTransformerEmbedder,
    ]
    assert [each.model for each in named] == ["m"] * 3
    assert named_chat_model("openai:gpt-4o-mini") is not named_chat_model("ollama:qwen3:8b")


@table(
    ("given", "expected"),
    [
        ("", "http://localhost:11434/v1"),
        ("gpu", "http://gpu:11434/v1"),
        ("gpu:8080", "http://gpu:8080/v1"),
        ("0.0.0.0:11434", "http://localhost:11434/v1"),
        ("https://gpu.example", "https://gpu.example/v1"),
        ("[::1]:11434", "http://[::1]:11434/v1"),
    ],
)
def test_ollama_is_where_its_own_variable_says(given: str, expected: str) -> None:
    """OLLAMA_HOST has the forms that Ollama accepts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OLLAMA_HOST", given)
        assert ollama_url() == expected


@table("name", ["ollama", "ollama:", "cohere:embed", "nomic-embed-text", ""])
def test_a_wrong_name_is_refused_with_right_ones(name: str) -> None:
    """At once, by the memory too."""
    with pytest.raises(ValueError, match="ollama:nomic-embed-text"):
        AgentMemory(InMemoryProvider(), embedder=name)
    with pytest.raises(ValueError, match="ollama:qwen3"):
        named_chat_model(name)
