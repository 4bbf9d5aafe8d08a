"""A memory block for LlamaIndex's `Memory`: the user's facts in each chat.

    block = FactmemBlock(memory, user="alice", auto_detect=True)
    chat = Memory.from_defaults(session_id="c1", memory_blocks=[block])

It needs the extra `llama-index`.
"""

from collections.abc import Iterable
from typing import Any

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.memory import BaseMemoryBlock
from pydantic import PrivateAttr
from typing_extensions import Unpack

from factmem.memory.agent_memory import AgentMemory
from factmem.memory.runs import MemoryRuns, RunOptions
from factmem.models.facts import new_id

__all__ = ["FactmemBlock"]


class FactmemBlock(BaseMemoryBlock[str]):
    """The facts of one user, for `Memory.from_defaults(memory_blocks=[...])`.

    LlamaIndex loads them for each call of the chat's model, and stores them nowhere. It hands over
    messages when they leave its window of recent ones: with `auto_detect` facts are detected then.
    Call `aput` with the rest when a chat ends. The messages of one `aput` without a `session_id`,
    such as LlamaIndex's `Memory` passes, belong to the chat of this block.

    Args:
        name: The block's name in LlamaIndex.
        priority: 0 keeps the facts in every prompt. The size is that of the memory's
            `message_form`.
        **options: See `MemoryRuns`. LlamaIndex has no context of a run and no tools of a block, so
            `user` is a name.
    """

    _runs: MemoryRuns[None] = PrivateAttr()
    _chat: str = PrivateAttr()

    def __init__(
        self,
        memory: AgentMemory,
        *,
        name: str = "factmem",
        priority: int = 0,
        **options: Unpack[RunOptions[None]],
    ) -> None:
        super().__init__(name=name, priority=priority)
        options["tools"] = False
        self._runs = MemoryRuns[None](memory, **options)
        self._chat = f"llama-index-{new_id()}"

    async def _aget(self, messages: list[ChatMessage] | None = None, **block_kwargs: Any) -> str:
        return await self._runs.prompt(None, chat_of(messages or []))

    async def _aput(self, messages: list[ChatMessage]) -> None:
        session = messages[0].additional_kwargs.get("session_id") if messages else None
        await self._runs.learn(None, chat_of(messages), conversation=session or self._chat)


def chat_of(messages: Iterable[ChatMessage]) -> list[dict[str, object]]:
    return [{"role": each.role.value, "content": each.content} for each in messages if each.content]
