"""The arms of a run: what the reader is given to answer a question."""

from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

from benchmarks.recall.public import AGENT, methods_of
from benchmarks.recall.public_sets import Asked, Chat, Turn
from factmem import (
    AgentMemory,
    ChatModel,
    Embedder,
    InMemoryProvider,
    MemoryScopesProfile,
    MemorySubject,
)
from factmem.llm.base import estimate_tokens

__all__ = ["Arm", "arms_of"]

Context: TypeAlias = Callable[[Asked], Awaitable[str]]
Arm: TypeAlias = Callable[[Chat], Awaitable[Context]]

_MOST = 200
"""The most facts that are ranked; fewer fit into a budget."""


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


def _within(lines: Iterable[tuple[int, str]], budget: int) -> str:
    """Return the first lines that fit into a budget of tokens, in the order of their numbers."""
    kept, used = dict[int, str](), 0
    for number, line in lines:
        used += estimate_tokens(line)
        if used > budget:
            break
        kept[number] = line
    return "\n".join(kept[number] for number in sorted(kept))


def _messages(method: str, embedder: Embedder | None, budget: int) -> Arm:
    async def arm(chat: Chat) -> Context:
        rank = await methods_of(embedder)[method](chat)

        async def of(asked: Asked) -> str:  # in the order in which they were said
            return _within([(at, _line(chat.turns[at])) for at in await rank(asked)], budget)

        return of

    return arm


class _Learnt:
    """The memory of the latest chat: its conversations, and their facts if there is a detector."""

    def __init__(self, detector: ChatModel | None, embedder: Embedder | None) -> None:
        self._detector, self._embedder = detector, embedder
        self._of: tuple[str, AgentMemory] | None = None

    async def memory(self, chat: Chat) -> AgentMemory:
        if self._of is None or self._of[0] != chat.name:
            self._of = chat.name, await self._learn(chat)
        return self._of[1]

    async def _learn(self, chat: Chat) -> AgentMemory:
        speakers = [
            each for each in dict.fromkeys(t.speaker for t in chat.turns) if each != "assistant"
        ]
        memory = AgentMemory(
            InMemoryProvider(),
            chat_model=self._detector,
            embedder=self._embedder,
            scopes=MemoryScopesProfile(agent=AGENT.name),
            subjects=[
                MemorySubject(f"speaker-{number}", f"{name}, who talks in the chat", 1)
                for number, name in enumerate(speakers, 1)
            ],
        )
        for session in dict.fromkeys(turn.session for turn in chat.turns):
            turns = [turn for turn in chat.turns if turn.session == session]
            times = [turn.said_at for turn in turns if turn.said_at is not None]
            said_at = min(times, default=datetime.now(UTC) - timedelta(days=1))
            messages = [_message(turn) for turn in turns]
            named = [{**_message(turn, turn.text), "name": turn.speaker} for turn in turns]
            await memory.conversation(session, learn=False).append(*named, said_at=said_at)
            if self._detector is not None:
                await memory.auto_detect_facts(messages, conversation=session, said_at=said_at)
        return memory


def _facts(learnt: _Learnt, budget: int) -> Arm:
    async def arm(chat: Chat) -> Context:
        memory = await learnt.memory(chat)

        async def of(asked: Asked) -> str:
            found = await memory.recall(asked.text, limit=_MOST)
            return _within(enumerate(match.text for match in found), budget)

        return of

    return arm


def _text(learnt: _Learnt, budget: int) -> Arm:
    async def arm(chat: Chat) -> Context:
        memory = await learnt.memory(chat)

        async def of(asked: Asked) -> str:
            return await memory.text(asked.text, max_tokens=budget)

        return of

    return arm


def _message(turn: Turn, text: str | None = None) -> dict[str, Any]:
    role = "assistant" if turn.speaker == "assistant" else "user"
    named = turn.speaker if turn.speaker not in ("assistant", "user") else None
    # A line that begins with a name would be the words of another person than the user.
    said = turn.text if named is None else f"{turn.text} ({named})"
    return {"role": role, "content": said if text is None else text}


def arms_of(detector: ChatModel | None, embedder: Embedder | None, budget: int) -> dict[str, Arm]:
    """Return the arms of a run, by name.

    All but "nothing" and "full context" have the same budget of tokens. "text" is what an agent is
    given: facts, if there is a model that detects them, and quotes of the conversations.
    """
    learnt = _Learnt(detector, embedder)
    found = {
        "nothing": _nothing,
        "full context": _whole,
        "bm25": _messages("bm25s words", embedder, budget),
        "turns": _messages(
            "recall: words" if embedder is None else "recall: both", embedder, budget
        ),
        "text": _text(learnt, budget),
    }
    if detector is not None:
        found["facts"] = _facts(learnt, budget)
    return found
