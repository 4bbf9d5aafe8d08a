"""An assistant in the terminal that remembers, shows what it knows, and forgets on request.

OPENAI_BASE_URL=http://localhost:11434/v1 OPENAI_MODEL=qwen3 python examples/assistant.py

With OPENAI_API_KEY or OPENAI_BASE_URL that endpoint answers; otherwise a script plays both sides.
Its memory is the folder ~/.factmem-assistant, or FACTMEM_STORE. Commands: /know, /why KEYWORD,
/forget KEYWORD, /quit. `factmem --store FOLDER browse` opens the same memory.
"""

import os
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
from anyio.to_thread import run_sync

from factmem import (
    Agent,
    AgentMemory,
    ChatModel,
    LocalFileMemoryProvider,
    MemoryScopesProfile,
    MemorySubject,
    OpenAIChatModel,
    Profile,
    remembered,
)
from factmem.llm.base import Message
from factmem.testing.chat import ScriptedChatModel


class Person(Profile):
    """The person who talks to the assistant."""

    name: str | None = remembered("How the user wants to be called")
    home_city: str | None = remembered("The city where the user lives")
    diet: str | None = remembered("What the user does not eat")
    interests: list[str] = remembered("What the user likes to do or talk about")


USER = MemorySubject("user", "The person who talks to the assistant", 1, per_entity=True)
SCRIPT = [
    "I am Mina, and I moved to Busan.",
    "Where could I go tonight?",
    "/know",
    "/why home-city",
]
SCRIPT += ["/forget home-city", "/know", "/quit"]


def script() -> ScriptedChatModel:
    """Return a model that plays its part of `SCRIPT`."""
    found = [
        {"message": 0, "quote": "I am Mina", "keyword": "name", "value": "Mina"},
        {"message": 0, "quote": "I moved to Busan", "keyword": "home-city", "value": "Busan"},
    ]
    return ScriptedChatModel(
        "Nice to meet you, Mina!", {"facts": found}, "To the harbour of Busan.", {"facts": []}
    )


async def know(memory: AgentMemory) -> None:
    """Show the current facts."""
    facts = await memory.current()
    for fact in facts:
        print("   ", fact.text)
    if not facts:
        print("    Nothing yet.")


async def why(memory: AgentMemory, keyword: str) -> None:
    """Show in which words the user said it."""
    for fact in await memory.current():
        origin = await memory.why(fact) if fact.concept.keyword == keyword else None
        for source in origin.sources if origin is not None else ():
            print(f'    {fact.text}: you said "{source.quote}"')


async def forget(memory: AgentMemory, keyword: str) -> None:
    """Forget all values of a keyword."""
    for fact in await memory.current():
        if fact.concept.keyword == keyword:
            await memory.contents.delete(fact.id)
            print("    Forgotten:", fact.text)


def ask() -> str:
    """Read a line from the terminal; Ctrl-D leaves."""
    try:
        return input("> ")
    except EOFError:
        return "/quit"


async def chat(agent: Agent, memory: AgentMemory, *, scripted: bool) -> None:
    """Talk until the user leaves."""
    lines = iter(SCRIPT)
    messages: list[Message] = []
    me = memory.of("me")
    while True:
        text = next(lines) if scripted else await run_sync(ask, abandon_on_cancel=True)
        if scripted:
            print(">", text)
        command, _, keyword = text.partition(" ")
        match command:
            case "/quit":
                return
            case "/know":
                await know(me)
            case "/why":
                await why(me, keyword)
            case "/forget":
                await forget(me, keyword)
            case _:
                result = await agent.run(text, messages=messages, subjects=[USER.of("me")])
                messages = list(result.messages)
                print("   ", result.text)


async def main() -> None:
    """Open the memory and the model, and talk."""
    is_real = bool(os.environ.get("OPENAI_API_KEY") or os.environ.get("OPENAI_BASE_URL"))
    async with AsyncExitStack() as stack:
        folder = Path(os.environ.get("FACTMEM_STORE") or Path.home() / ".factmem-assistant")
        model: ChatModel = script()
        if is_real:
            name = os.environ.get("OPENAI_MODEL", "gpt-4o-mini")
            key = os.environ.get("OPENAI_API_KEY", "none")
            model = await stack.enter_async_context(OpenAIChatModel(name, api_key=key))
        else:
            folder = Path(stack.enter_context(TemporaryDirectory()))
        store = await stack.enter_async_context(LocalFileMemoryProvider(folder))
        agent = Agent(model, system_prompt="You are a friend.")
        memory = agent.install(
            AgentMemory,
            provider=store,
            scopes=MemoryScopesProfile(product="app"),
            subjects=[USER],
            concepts=[Person],
            auto_detect=True,
        )
        await chat(agent, memory, scripted=not is_real)


if __name__ == "__main__":
    anyio.run(main)
