"""The event loop of the frameworks, and a chat server for their agents."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.integrations.model_server import ModelServer


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # no framework runs on another one


@pytest.fixture
async def server() -> "AsyncIterator[ModelServer]":
    from tests.integrations.model_server import model_server  # needs openai, which few hosts bring

    async with model_server() as made:
        yield made
