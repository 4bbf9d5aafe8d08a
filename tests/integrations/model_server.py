"""A chat server for the tests of adapters, with an OpenAI client that is closed at the end."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from openai import AsyncOpenAI

from tests.chat_server import ChatServer

__all__ = ["ModelServer", "model_server"]


class ModelServer(ChatServer):
    """A `ChatServer` that returns the system prompts that it received."""

    client: AsyncOpenAI

    def system(self, number: int = -1) -> str:
        """Return the system prompt of a request; of the last one by default."""
        messages = self.requests[number].messages
        return "\n".join(str(each["content"]) for each in messages if each["role"] == "system")

    def check_second_turn(self) -> None:
        """Check that both turns know the editor, and the second the shell that a tool saved."""
        shown = [('"vim"' in self.system(n), '"fish"' in self.system(n)) for n in (0, 1)]
        assert shown == [(True, False), (True, True)]

    def sent(self, text: str) -> str:
        """Return the last request with this text."""
        bodies = [json.dumps(request.body, ensure_ascii=False) for request in self.requests]
        return [body for body in bodies if text in body][-1]


@asynccontextmanager
async def model_server() -> AsyncIterator[ModelServer]:
    """Start the server, and check at the end that it answered every request."""
    with ModelServer() as made:
        async with AsyncOpenAI(base_url=made.url, api_key="x", max_retries=0) as made.client:
            yield made
        assert made.troubles == []
