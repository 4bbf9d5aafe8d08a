"""Embedders for packages that are not installed here; stand-ins replace them."""

import sys
import threading
import traceback
from types import ModuleType, SimpleNamespace
from typing import Any

import anyio
import numpy as np
import pytest

from factmem.embedding.base import QueryEmbedder
from factmem.embedding.litellm import LiteLLMEmbedder
from factmem.embedding.sentence_transformer import SentenceTransformerEmbedder
from factmem.errors import EmbeddingError, MissingExtraError

SECRET = "the safe opens with 4711"


def vectors(texts: list[str]) -> list[list[float]]:
    return [[float(len(text)), 1.0] for text in texts]


class LiteLLM(ModuleType):
    """A stand-in for the package `litellm`."""

    def __init__(self, answer: Any = None) -> None:
        super().__init__("litellm")
        self.calls: list[dict[str, Any]] = []
        self.threads: set[int] = set()
        self.answer = answer

    def embedding(self, **request: Any) -> Any:
        self.calls.append(request)
        self.threads.add(threading.get_ident())
        if isinstance(self.answer, Exception):
            raise self.answer
        if self.answer is not None:
            return self.answer
        return SimpleNamespace(data=[{"embedding": each} for each in vectors(request["input"])])


@pytest.fixture
def litellm(monkeypatch: pytest.MonkeyPatch) -> LiteLLM:
    module = LiteLLM()
    monkeypatch.setitem(sys.modules, "litellm", module)
    return module


async def test_litellm_gets_batches(litellm: LiteLLM) -> None:
    """It gets the options for documents, and runs in a thread of its own."""
    embedder = LiteLLMEmbedder(
        "cohere/embed", options={"api_key": "k"}, document_options={"input_type": "search_document"}
    )

    found = await embedder.embed(["a"] * 96 + ["ccc"])

    assert [list(each) for each in found] == [[1, 1]] * 96 + [[3, 1]]
    shared = {"model": "cohere/embed", "api_key": "k", "input_type": "search_document"}
    assert litellm.calls == [{"input": ["a"] * 96, **shared}, {"input": ["ccc"], **shared}]
    assert threading.get_ident() not in litellm.threads
    assert embedder.dimensions == 2
    assert embedder.model == "cohere/embed"


async def test_litellm_distinguishes_questions_and_documents(litellm: LiteLLM) -> None:
    """Some services need it; dimensions are sent with both."""
    embedder = LiteLLMEmbedder("m", dimensions=2, query_options={"input_type": "search_query"})

    await embedder.embed_queries(["a"])
    await embedder.embed(["b"])

    assert isinstance(embedder, QueryEmbedder)
    assert litellm.calls == [
        {"model": "m", "input": ["a"], "dimensions": 2, "input_type": "search_query"},
        {"model": "m", "input": ["b"], "dimensions": 2},
    ]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (SimpleNamespace(data=None), "without embeddings"),
        (SimpleNamespace(data=[{}]), "without embeddings"),
        (SimpleNamespace(), "without embeddings"),
        (SimpleNamespace(data=[]), "0 vectors for 1 strings"),
        (SimpleNamespace(data=[SimpleNamespace(embedding=None)]), "instead of a list"),
    ],
)
async def test_a_wrong_answer_of_litellm_raises(
    litellm: LiteLLM, answer: Any, message: str
) -> None:
    """No vector is returned."""
    litellm.answer = answer

    with pytest.raises(EmbeddingError, match=message):
        await LiteLLMEmbedder("m").embed(["a"])


async def test_a_failure_of_litellm_shows_no_input(litellm: LiteLLM) -> None:
    """Its errors quote the service, which may quote the input."""
    litellm.answer = type("RateLimitError", (Exception,), {"status_code": 429})(SECRET)

    with pytest.raises(EmbeddingError, match=r"through LiteLLM \(RateLimitError\)") as caught:
        await LiteLLMEmbedder("m").embed([SECRET])

    assert caught.value.status == 429
    assert "4711" not in "".join(traceback.format_exception(caught.value))


class Model:
    """A stand-in for a `SentenceTransformer` before version 5."""

    def __init__(self, *names: str, **options: Any) -> None:
        self.names, self.options = names, options
        self.calls: list[tuple[str, list[str], dict[str, Any]]] = []
        self.threads: set[int] = set()
        self.active = 0

    def encode(self, sentences: list[str], **options: Any) -> Any:
        return self._encoded("encode", sentences, options)

    def _encoded(self, method: str, sentences: list[str], options: dict[str, Any]) -> Any:
        self.active += 1
        assert self.active == 1
        self.calls.append((method, sentences, options))
        self.threads.add(threading.get_ident())
        self.active -= 1
        return np.array(vectors(sentences), np.float32)


class NewModel(Model):
    """A stand-in for version 5 or later."""

    def encode_query(self, sentences: list[str], **options: Any) -> Any:
        return self._encoded("encode_query", sentences, options)

    def encode_document(self, sentences: list[str], **options: Any) -> Any:
        return self._encoded("encode_document", sentences, options)


async def test_a_model_is_loaded_once_and_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first call loads it; one call computes at a time."""
    loaded: list[NewModel] = []

    def load(*names: str, **options: Any) -> NewModel:
        loaded.append(NewModel(*names, **options))
        return loaded[-1]

    package: Any = ModuleType("sentence_transformers")
    package.SentenceTransformer = load
    monkeypatch.setitem(sys.modules, "sentence_transformers", package)
    embedder = SentenceTransformerEmbedder("mini", options={"device": "cpu"})
    assert loaded == []

    async with anyio.create_task_group() as tasks:
        for text in "abcd":
            tasks.start_soon(embedder.embed, [text])

    (model,) = loaded
    assert (model.names, model.options) == (("mini",), {"device": "cpu"})
    assert sorted(sentences for _, sentences, _ in model.calls) == [["a"], ["b"], ["c"], ["d"]]
    assert model.calls[0][2] == {"show_progress_bar": False}
    assert threading.get_ident() not in model.threads
    assert embedder.dimensions == 2


@pytest.mark.parametrize(
    ("make", "documents", "queries"),
    [(Model, "encode", "encode"), (NewModel, "encode_document", "encode_query")],
    ids=["before 5", "from 5 on"],
)
async def test_questions_and_documents_are_distinguished(
    make: type[Model], documents: str, queries: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The package does it if its version can."""
    model = make()
    package: Any = ModuleType("sentence_transformers")
    package.SentenceTransformer = lambda _: model
    monkeypatch.setitem(sys.modules, "sentence_transformers", package)
    embedder = SentenceTransformerEmbedder("mini")

    await embedder.embed(["a"])
    found = await embedder.embed_queries(["bb"])

    assert [method for method, _, _ in model.calls] == [documents, queries]
    assert [list(each) for each in found] == [[2, 1]]
    assert await embedder.embed([]) == []


async def test_a_failing_model_raises_with_its_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cause is shown, because it is about files and devices."""
    package: Any = ModuleType("sentence_transformers")
    package.SentenceTransformer = lambda *_, **__: 1 / 0
    monkeypatch.setitem(sys.modules, "sentence_transformers", package)

    with pytest.raises(EmbeddingError, match=r"could not be loaded or run \(ZeroDivisionError\)"):
        await SentenceTransformerEmbedder("mini").embed(["a"])


@pytest.mark.parametrize(
    ("package", "embedder"),
    [
        ("litellm", LiteLLMEmbedder("m")),
        ("sentence_transformers", SentenceTransformerEmbedder("m")),
    ],
)
async def test_a_missing_package_names_its_extra(
    monkeypatch: pytest.MonkeyPatch, package: str, embedder: Any
) -> None:
    """The error says how to install it."""
    monkeypatch.setitem(sys.modules, package, None)

    with pytest.raises(MissingExtraError, match=r"pip install 'factmem\["):
        await embedder.embed(["a"])


@pytest.mark.parametrize("make", [LiteLLMEmbedder, SentenceTransformerEmbedder])
def test_a_model_needs_a_name(make: Any) -> None:
    """An error is raised before anything is loaded or sent."""
    with pytest.raises(ValueError, match="model must be a non-empty string"):
        make("")
    assert repr(make("m")) == f"{make.__name__}('m')"


def test_litellm_refuses_a_wrong_number() -> None:
    """The error names the argument."""
    with pytest.raises(ValueError, match="dimensions"):
        LiteLLMEmbedder("m", dimensions=-1)
