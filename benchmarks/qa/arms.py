"""The arms of a run: what the reader is given to answer a question."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

from benchmarks.recall.public import AGENT, USER, methods_of
from benchmarks.recall.public_sets import Asked, Chat, Turn
from factmem import AgentMemory, ChatModel, Embedder, InMemoryProvider, MemoryScopesProfile

__all__ = ["Arm", "arms_of"]

MOST = 10
"""The messages, or facts, that an arm shows."""

Context: TypeAlias = Callable[[Asked], Awaitable[str]]
Arm: TypeAlias = Callable[[Chat], Awaitable[Context]]


async def _nothing(_: Chat) -> Context:
    async def of(_: Asked) -> str:
        return ""

    return of


async def _whole(chat: Chat) -> Context:
    text = "\n".join(map(_line, chat.turns))

    async def of(_: Asked) -> str:
        return text

    return of


def _line(turn: Turn) -> str:
    day = "" if turn.said_at is None else f"[{turn.said_at:%Y-%m-%d}] "
    return f"{day}{turn.speaker}: {turn.text}"


def _messages(method: str, embedder: Embedder | None) -> Arm:
    async def arm(chat: Chat) -> Context:
        rank = await methods_of(embedder)[method](chat)

        async def of(asked: Asked) -> str:
            best = sorted((await rank(asked))[:MOST])  # in the order in which they were said
            return "\n".join(_line(chat.turns[at]) for at in best)

        return of

    return arm


def _facts(detector: ChatModel, embedder: Embedder | None) -> Arm:
    async def arm(chat: Chat) -> Context:
        memory = AgentMemory(
            InMemoryProvider(),
            chat_model=detector,
            embedder=embedder,
            scopes=MemoryScopesProfile(agent=AGENT.name),
            subjects=[USER],
        )
        for session in dict.fromkeys(turn.session for turn in chat.turns):
            turns = [turn for turn in chat.turns if turn.session == session]
            times = [turn.said_at for turn in turns if turn.said_at is not None]
            await memory.auto_detect_facts(
                [_message(turn) for turn in turns],
                conversation=session,
                said_at=min(times, default=datetime.now(UTC) - timedelta(days=1)),
            )

        async def of(asked: Asked) -> str:
            return await memory.text(asked.text, MOST)

        return of

    return arm


def _message(turn: Turn) -> dict[str, Any]:
    role = "assistant" if turn.speaker == "assistant" else "user"
    named = turn.speaker if turn.speaker not in ("assistant", "user") else None
    # A line that begins with a name would be the words of another person than the user.
    return {"role": role, "content": turn.text if named is None else f"{turn.text} ({named})"}


def _both(one: Arm, two: Arm) -> Arm:
    async def arm(chat: Chat) -> Context:
        first, second = await one(chat), await two(chat)

        async def of(asked: Asked) -> str:
            return "\n\n".join(filter(None, [await first(asked), await second(asked)]))

        return of

    return arm


def arms_of(detector: ChatModel | None, embedder: Embedder | None) -> dict[str, Arm]:
    """Return the arms of a run, by name; those with facts need a model that detects them."""
    turns = _messages("recall: words" if embedder is None else "recall: both", embedder)
    found = {
        "nothing": _nothing,
        "full context": _whole,
        "bm25": _messages("bm25s words", embedder),
        "turns": turns,
    }
    if detector is not None:
        facts = _facts(detector, embedder)
        found |= {"facts": facts, "facts and turns": _both(facts, turns)}
    return found
