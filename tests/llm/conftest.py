"""A server for each test that asks for one; the developer's own endpoints are hidden."""

import os
from collections.abc import AsyncIterator, Iterator

import pytest
from openai import AsyncOpenAI, DefaultAsyncHttpxClient

from factmem.llm.openai import OpenAIChatModel
from tests.chat_server import ChatServer

KEY = "sk-never-to-be-seen-in-an-error"


@pytest.fixture(autouse=True)
def _no_surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith("OPENAI_") or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)


@pytest.fixture
def chat_server() -> Iterator[ChatServer]:
    """Yield a running server; the test fails if the server itself failed."""
    with ChatServer() as server:
        yield server
    assert server.troubles == []


@pytest.fixture
async def model(chat_server: ChatServer) -> AsyncIterator[OpenAIChatModel]:
    """Return a model of that server, whose client does not retry."""
    # Loading certificates takes 40 ms, and there are none to check.
    http_client = DefaultAsyncHttpxClient(verify=False)
    async with AsyncOpenAI(
        base_url=chat_server.url, api_key=KEY, max_retries=0, http_client=http_client
    ) as client:
        yield OpenAIChatModel("test", client=client)
