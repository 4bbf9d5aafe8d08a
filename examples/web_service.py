"""A web service with a memory for each user: FastAPI, any number of worker processes.

uvicorn --factory examples.web_service:service --workers 4
python examples/web_service.py

The second command runs the service and its client in one process, with a function as the model.
All workers open the same folder. A request sees only the memory of its user.
"""

from importlib.util import find_spec

if find_spec("fastapi") is None:
    raise SystemExit("This example needs more: pip install 'fastapi' 'httpx' 'uvicorn'")


import logging
import os
import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from itertools import repeat
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

from fastapi import BackgroundTasks, Depends, FastAPI, Header, HTTPException, Request
from fastapi.responses import JSONResponse
from fastapi.testclient import TestClient
from pydantic import BaseModel

from factmem import (
    Agent,
    AgentMemory,
    ChatModel,
    Concept,
    FactType,
    LocalFileMemoryProvider,
    MemoryScope,
    MemoryScopesProfile,
    MemorySubject,
    MultipleFacts,
    OpenAIChatModel,
)
from factmem.errors import StorageError
from factmem.llm.base import Message
from factmem.providers import PostgresMemoryProvider
from factmem.testing.chat import ScriptedChatModel

logger = logging.getLogger(__name__)

USER = MemorySubject("user", "The person who talks to the assistant", 1, per_entity=True)
PRODUCT = MemoryScope.Product("notes")
NOTES = Concept("notes", "What the user wants to have noted", FactType.MULTIPLE)


class Text(BaseModel):
    """The body of a request."""

    text: str


def user_of(x_user: Annotated[str, Header()]) -> MemorySubject:
    """Return the subject of a request. Take the name from your authentication instead."""
    try:
        return USER.of(x_user)
    except ValueError as error:
        raise HTTPException(400, "Invalid user name") from error


Caller = Annotated[MemorySubject, Depends(user_of)]


def create_app(
    store: LocalFileMemoryProvider | PostgresMemoryProvider, model: ChatModel
) -> FastAPI:
    """Return the service for a store. Store and agent live as long as the worker."""
    agent = Agent(model, system_prompt="You keep notes for the user.")
    memory = agent.install(
        AgentMemory,
        provider=store,
        scopes=MemoryScopesProfile(product=PRODUCT.name),
        subjects=[USER],
        concepts=[NOTES],
    )

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
        async with store:
            yield

    app = FastAPI(lifespan=lifespan)

    @app.exception_handler(StorageError)
    async def unavailable(_: Request, error: StorageError) -> JSONResponse:
        # The message has the cause and the remedy. The user only sees that it failed.
        logger.error("The memory is not available: %s", error)
        return JSONResponse({"detail": "The memory is not available"}, 503)

    @app.get("/health")
    async def health() -> dict[str, Any]:
        status = await store.ping()
        return {"store": status.id, "version": status.version}

    @app.post("/chat")
    async def chat(body: Text, user: Caller, later: BackgroundTasks) -> dict[str, str]:
        result = await agent.run(body.text, subjects=[user])
        # After the answer. To lose nothing if the worker is killed: conversations=True.
        later.add_task(memory.view(subjects=[user]).auto_detect_facts, result.messages)
        return {"answer": result.text}

    @app.post("/notes", status_code=201)
    async def note(body: Text, user: Caller) -> None:
        await store.save(MultipleFacts(NOTES, [body.text]), user, PRODUCT)

    @app.get("/notes")
    async def notes(user: Caller) -> list[str]:
        facts = await memory.view(subjects=[user]).current(NOTES)
        return [value for fact in facts for value in fact.values]

    @app.get("/notes/search")
    async def search(question: str, user: Caller) -> list[str]:
        matches = await memory.recall(question, subjects=[user])
        return [str(value) for match in matches for value in match.fact.values]

    @app.get("/me")
    async def export(user: Caller) -> dict[str, Any]:
        """Return everything that is stored about the user."""
        return await memory.view(subjects=[user]).contents.export()

    @app.delete("/me")
    async def erase(user: Caller) -> dict[str, Any]:
        """Erase the user with all history, and return a summary of the receipts."""
        report = await memory.view(subjects=[user]).contents.reset(confirm=True)
        return {"values": report.count, "erased": [str(each.place) for each in report.places]}

    return app


def service() -> FastAPI:
    """Return the service that the environment variables configure."""
    folder = Path(os.environ.get("NOTES_FOLDER", "memory"))
    model = OpenAIChatModel(os.environ.get("NOTES_MODEL", "gpt-4o-mini"))
    return create_app(LocalFileMemoryProvider(folder), model)


def fake_answer(messages: Sequence[Message]) -> object:
    """Answer instead of a model; detect a note in the words after `note`."""
    prompt = "\n".join(str(message["content"]) for message in messages)
    if "You extract facts" not in prompt:
        known = re.findall(r'^- "([^"]*)"', prompt, re.MULTILINE)
        return f"You have {len(known)} notes."
    found = re.search(r'"message": (\d+),[^\n]*"(?:Please )?(note ([\w. -]+))"', prompt)
    if found is None:
        return {"facts": []}
    return {"facts": [{"message": int(found[1]), "quote": found[2], "subject": "user",
                       "keyword": NOTES.keyword, "value": found[3]}]}  # fmt: skip


def main() -> None:
    """Call the service as two users."""
    with TemporaryDirectory() as folder:
        model = ScriptedChatModel(*repeat(fake_answer, 10))
        store = LocalFileMemoryProvider(Path(folder) / "memory")
        with TestClient(create_app(store, model)) as client:
            alice, bob = {"X-User": "alice"}, {"X-User": "bob"}
            client.post("/notes", json={"text": "buy tea"}, headers=alice)
            print("alice:", client.get("/notes", headers=alice).json())
            print("bob:", client.get("/notes", headers=bob).json())
            print(client.post("/chat", json={"text": "How many?"}, headers=alice).json())
            print("search:", client.get("/notes/search?question=tea", headers=alice).json())
            print("export:", len(client.get("/me", headers=alice).json()["places"]), "place")
            print(client.delete("/me", headers=alice).json())
            print("alice:", client.get("/notes", headers=alice).json())
            print("without a user:", client.get("/notes").status_code)


if __name__ == "__main__":
    main()
