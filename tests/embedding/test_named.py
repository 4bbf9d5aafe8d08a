"""Embedders and chat models by name: the name chooses the endpoint, and opens nothing."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from factmem import AgentMemory, Concept, InMemoryProvider, SingleFact
from factmem.embedding._named import named_embedder
from factmem.embedding.openai import OpenAIEmbedder
from factmem.embedding.sentence_transformer import SentenceTransformerEmbedder
from factmem.llm.openai import named_chat_model, ollama_url
from factmem.models.places import MemoryScope, MemoryScopesProfile, MemorySubject
from tests.tables import table


class _Ollama(BaseHTTPRequestHandler):
    """Answers each string with its length."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        texts = body["input"]
        data = [
            {"object": "embedding", "index": n, "embedding": [1.0, len(text)]}
            for n, text in enumerate(texts)
        ]
        usage = {"prompt_tokens": 1, "total_tokens": 1}
        answer = json.dumps(
            {"object": "list", "model": body["model"], "data": data, "usage": usage}
        )
        is_right = (self.path, body["model"]) == ("/v1/embeddings", "nomic-embed-text")
        self.send_response(200 if is_right else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer.encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


@pytest.fixture
def ollama(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Run an endpoint like Ollama's, and name it in OLLAMA_HOST."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Ollama) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        monkeypatch.setenv("OLLAMA_HOST", f"127.0.0.1:{server.server_port}")
        yield
        server.shutdown()
        thread.join()


@pytest.mark.usefixtures("ollama")
async def test_a_memory_compares_meanings_by_a_name() -> None:
    """Without a line of code for the embedder."""
    store = InMemoryProvider()
    user, scope = MemorySubject("user", "The user", 1), MemoryScope.Agent("desk")
    await store.save(SingleFact(Concept("home", "Who lives with her"), "a cat"), user, scope)
    profile = MemoryScopesProfile(agent="desk")
    memory = AgentMemory(store, embedder="ollama:nomic-embed-text", scopes=profile, subjects=[user])

    found = await memory.recall("Any pet?")

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
