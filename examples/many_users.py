"""One agent for many concurrent users: each run names its user.

python examples/many_users.py

The model is a function, so the example runs without an API key. It answers only from its prompt, so
a fact of another user in the prompt would be visible in the answer.
"""

import re
from collections.abc import Sequence

import anyio

from factmem import (
    Agent,
    AgentMemory,
    Concept,
    InMemoryProvider,
    MemoryScopesProfile,
    MemorySubject,
    UnboundSubjectError,
)
from factmem.llm.base import Message
from factmem.testing.chat import ScriptedChatModel

USER = MemorySubject("user", "The person who talks to the agent", 1, per_entity=True)
COLOUR = Concept("favourite-colour", "The colour that the user likes best")
LIKES = {"alice": "green", "bob": "red", "chidi": "blue"}


def model(messages: Sequence[Message]) -> object:
    """Answer from the prompt; return facts about colours for the prompt of a detection."""
    prompt = "\n".join(str(message["content"]) for message in messages)
    if "You extract facts" in prompt:
        found = re.search(r'"message": (\d+), .*"(My favourite colour is (\w+))', prompt)
        if found is None:
            return {"facts": []}
        number, quote, colour = found.groups()
        return {"facts": [{"message": int(number), "quote": quote, "subject": "user",
                           "keyword": COLOUR.keyword, "value": colour}]}  # fmt: skip
    known = re.search(r'favourite-colour: .*\n- "(\w+)"', prompt)
    return f"You like {known[1]}." if known else "Good to know."


async def main() -> None:
    """Let all users say something, and then ask about it, concurrently."""
    store = InMemoryProvider()
    agent = Agent(ScriptedChatModel(*[model] * 4 * len(LIKES)))
    memory = agent.install(
        AgentMemory,
        provider=store,
        scopes=MemoryScopesProfile(product="paint-shop"),
        subjects=[USER],
        concepts=[COLOUR],
        auto_detect=True,
    )

    async def talk(name: str, text: str) -> None:
        result = await agent.run(text, subjects=[USER.of(name)], conversation=name)
        print(f"{name}: {text} -> {result.text}")

    for question in ("My favourite colour is {}.", "Which colour do I like?"):
        async with anyio.create_task_group() as tasks:
            for name, colour in LIKES.items():
                tasks.start_soon(talk, name, question.format(colour))

    for name, colour in LIKES.items():
        assert await memory.of(name).value(COLOUR) == colour

    try:
        await agent.run("Who am I?")
    except UnboundSubjectError as error:
        print(f"No user: {error}")


anyio.run(main)
