"""Vectors from an endpoint: in order, in batches, checked; no error contains an input string."""

import json
import traceback
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any, TypeAlias

import pytest
from openai import AsyncOpenAI, DefaultAsyncHttpxClient

from factmem.embedding.base import Embedder, QueryEmbedder
from factmem.embedding.openai import OpenAIEmbedder
from factmem.errors import EmbeddingError
from tests.tables import table

KEY = "sk-never-to-be-seen-in-an-error"
SECRET = "the safe opens with 4711 and a knock on the door"

httpx: Any = import_module(DefaultAsyncHttpxClient.__mro__[1].__module__.partition(".")[0])
"""The HTTP package of the installed version of openai: httpx, or httpx2 from 3 on."""

Response: TypeAlias = Any

Answer: TypeAlias = Callable[[dict[str, Any]], Response]


class Endpoint:
    """Answers requests by a function, and records them."""

    def __init__(self, answer: Answer) -> None:
        self.requests: list[dict[str, Any]] = []
        self._answer = answer

    def __call__(self, request: Any) -> Response:
        assert request.url.path == "/v1/embeddings"
        body: dict[str, Any] = json.loads(request.content)
        self.requests.append(body)
        return self._answer(body)

    @asynccontextmanager
    async def embedder(self, **options: Any) -> AsyncIterator[OpenAIEmbedder]:
        transport = httpx.MockTransport(self)
        async with AsyncOpenAI(
            api_key=KEY,
            base_url="http://endpoint/v1",
            max_retries=0,
            http_client=httpx.AsyncClient(transport=transport),
        ) as client:
            yield OpenAIEmbedder("test-model", client=client, **options)


def vector(text: str) -> list[float]:
    return [float(len(text)), 0.5, -1.0]


def given(vectors: list[Any], **item: Any) -> Response:
    data = [
        {"object": "embedding", "index": at, "embedding": each, **item}
        for at, each in enumerate(vectors)
    ]
    usage = {"prompt_tokens": 1, "total_tokens": 1}
    return httpx.Response(
        200, json={"object": "list", "model": "test-model", "data": data, "usage": usage}
    )


def right(body: dict[str, Any]) -> Response:
    return given([vector(text) for text in body["input"]])


async def test_vectors_have_the_order_of_the_strings() -> None:
    """The request asks for plain numbers, which every endpoint supports."""
    endpoint = Endpoint(right)

    async with endpoint.embedder() as embedder:
        vectors = await embedder.embed(["a", "bbb"])

    assert [list(each) for each in vectors] == [[1, 0.5, -1], [3, 0.5, -1]]
    assert endpoint.requests == [
        {"model": "test-model", "input": ["a", "bbb"], "encoding_format": "float"}
    ]
    assert (embedder.model, embedder.dimensions) == ("test-model", 3)
    assert isinstance(embedder, Embedder)
    assert not isinstance(embedder, QueryEmbedder)


@pytest.mark.parametrize("is_indexed", [True, False])
async def test_the_index_of_a_vector_decides_and_not_its_position(is_indexed: bool) -> None:
    """A parallel endpoint may return the last one first; without indexes the order counts."""

    def answer(body: dict[str, Any]) -> Response:
        data = [{"embedding": vector(text)} for text in body["input"]]
        if is_indexed:
            data = json.loads(right(body).content)["data"][::-1]
        return httpx.Response(200, json={"data": data})

    async with Endpoint(answer).embedder() as embedder:
        vectors = await embedder.embed(["a", "bb", "ccc"])

    assert [each[0] for each in vectors] == [1, 2, 3]


async def test_many_strings_make_several_requests() -> None:
    """Each string is sent once; a long one makes a request of its own."""
    endpoint = Endpoint(right)

    async with endpoint.embedder(batch_size=2) as embedder:
        vectors = await embedder.embed([*"abcde", "x" * 150_000, "y" * 150_000])

    sent = [[len(text) for text in body["input"]] for body in endpoint.requests]
    assert sent == [[1, 1], [1, 1], [1, 150_000], [150_000]]
    assert len(vectors) == 7


async def test_an_empty_list_makes_no_request() -> None:
    """The result is empty too."""
    endpoint = Endpoint(right)

    async with endpoint.embedder() as embedder:
        assert await embedder.embed([]) == []

    assert endpoint.requests == []


async def test_dimensions_are_requested_and_checked() -> None:
    """An endpoint that ignores them is noticed."""
    endpoint = Endpoint(right)

    async with endpoint.embedder(dimensions=256) as embedder:
        with pytest.raises(EmbeddingError, match="3 dimensions instead of 256"):
            await embedder.embed(["a"])

    assert endpoint.requests[0]["dimensions"] == 256


@table(
    ("answer", "message"),
    [
        (given([]), "0 vectors for 1 strings|without embeddings"),
        (given([[1.0], [2.0]]), "2 vectors for 1 strings"),
        (given([[1.0]], index=3), "strings that were not sent"),
        (given([None]), "instead of a list"),
        (given([[]]), "not a list of finite numbers"),
        (given([["a"]]), "not a list of finite numbers"),
        (given([[1e300]]), "not a list of finite numbers"),
        (given([[[1.0]]]), "not a list of finite numbers"),
        (given(["AACAPw=="]), "instead of a list"),
        (httpx.Response(200, json={"data": None}), "without embeddings"),
        (httpx.Response(200, json={"data": [None]}), "instead of a list"),
        (httpx.Response(200, json=[]), "without embeddings"),
        (httpx.Response(200, text="<html>"), "without embeddings"),
        (httpx.Response(200, content=b'{"data": [{"embedding": [NaN], "index": 0}]}'), "finite"),
    ],
)
async def test_invalid_vectors_raise(answer: Response, message: str) -> None:
    """No vector that cannot be compared reaches an index."""
    async with Endpoint(lambda _: answer).embedder() as embedder:
        with pytest.raises(EmbeddingError, match=message):
            await embedder.embed(["a"])


@table(
    ("status", "message"),
    [
        (400, "check the model's name and dimensions"),
        (401, "check api_key"),
        (403, "check the permissions of the API key"),
        (404, "check the model's name and base_url"),
        (413, "smaller batch_size"),
        (429, "send fewer requests"),
        (500, "try again later"),
    ],
)
async def test_a_refusal_says_what_to_do(status: int, message: str) -> None:
    """The error has the status, for callers that react to it."""
    refusal = httpx.Response(status, json={"error": {"message": "no"}})
    async with Endpoint(lambda _: refusal).embedder() as embedder:
        with pytest.raises(EmbeddingError, match=message) as caught:
            await embedder.embed(["a"])

    assert caught.value.status == status
    assert "'test-model'" in str(caught.value)


@pytest.mark.parametrize("status", [200, 400, 500])
async def test_no_error_repeats_an_input_or_a_key(status: int) -> None:
    """A traceback in a log shows nothing of what an endpoint sends back."""

    def echo(body: dict[str, Any]) -> Response:
        return httpx.Response(status, text=f"could not embed {body['input']} with {KEY}")

    async with Endpoint(echo).embedder() as embedder:
        with pytest.raises(EmbeddingError) as caught:
            await embedder.embed([SECRET])

    printed = "".join(traceback.format_exception(caught.value))
    assert "4711" not in printed
    assert KEY not in printed


async def test_a_string_that_cannot_be_sent_raises() -> None:
    """A lone surrogate has no UTF-8; the error does not contain it."""
    async with Endpoint(right).embedder() as embedder:
        with pytest.raises(ValueError, match="characters that cannot be sent") as caught:
            await embedder.embed([SECRET + "\ud800"])

    assert caught.value.__context__ is None


async def test_an_unreachable_endpoint() -> None:
    """The embedder closes the client that it opened."""
    async with OpenAIEmbedder(
        "test-model", base_url="http://127.0.0.1:9/v1", api_key=KEY, max_retries=0
    ) as embedder:
        with pytest.raises(EmbeddingError, match="could not be reached"):
            await embedder.embed(["a"])


async def test_an_endpoint_that_never_answers() -> None:
    """A timeout ends the call, including the client's retries."""
    import anyio

    async def wait(request: Any) -> Response:
        await anyio.sleep_forever()
        raise AssertionError

    async with AsyncOpenAI(
        api_key=KEY,
        base_url="http://endpoint/v1",
        http_client=httpx.AsyncClient(transport=httpx.MockTransport(wait)),
    ) as client:
        embedder = OpenAIEmbedder("test-model", client=client, timeout=0.01)
        with pytest.raises(EmbeddingError, match=r"did not answer within 0\.01 seconds"):
            await embedder.embed(["a"])


async def test_missing_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says what to pass."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)

    with pytest.raises(EmbeddingError, match="pass api_key or set OPENAI_API_KEY"):
        await OpenAIEmbedder("test-model").embed(["a"])


@table(
    ("options", "message"),
    [
        ({"model": " "}, "model must be a non-empty string"),
        ({"dimensions": 0}, "dimensions must be"),
        ({"dimensions": True}, "dimensions must be"),
        ({"batch_size": 0}, "batch_size must be"),
        ({"timeout": 0}, "timeout must be"),
        ({"client": AsyncOpenAI(api_key=KEY), "api_key": KEY}, "must be set on the client"),
    ],
)
def test_a_wrong_option_raises(options: dict[str, Any], message: str) -> None:
    """Nothing is sent."""
    with pytest.raises((TypeError, ValueError), match=message):
        OpenAIEmbedder(**{"model": "test-model", **options})


def test_the_representation_shows_no_key() -> None:
    """It names the model."""
    assert repr(OpenAIEmbedder("test-model", api_key=KEY)) == "OpenAIEmbedder('test-model')"
