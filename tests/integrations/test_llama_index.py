"""The memory block in LlamaIndex's Memory."""

from importlib.util import find_spec
from typing import Any

import pytest

if find_spec("llama_index") is None:
    pytest.skip("make frameworks ONLY=llama-index", allow_module_level=True)

from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.memory import Memory
from llama_index.core.storage.chat_store.base_db import MessageStatus

from factmem.errors import UnboundSubjectError
from factmem.integrations.llama_index import FactmemBlock
from factmem.memory.agent_memory import AgentMemory
from factmem.testing.adapters import AdapterContract, AdapterHost
from tests.integrations.killed_workers import KilledWorkers
from tests.world import vim_memory


class Host(AdapterHost):
    def __init__(self, memory: AgentMemory, options: dict[str, Any]) -> None:
        self.memory, self.options = memory, options
        self.chats: dict[str, Memory] = {}

    async def say(self, user: str, text: str) -> str:
        if user not in self.chats:
            block = FactmemBlock(self.memory, user=user, **self.options)
            self.chats[user] = Memory.from_defaults(
                session_id=user, token_limit=200, memory_blocks=[block], tokenizer_fn=str.split
            )
        chat = self.chats[user]
        await chat.aput(ChatMessage(role="user", content=text))
        sent = await chat.aget()
        await chat.aput(ChatMessage(role="assistant", content="Ok."))
        return str([message.content for message in sent])

    async def stored(self) -> str:
        return str([await chat.aget_all() for chat in self.chats.values()])

    async def learn(self, user: str) -> None:
        """Fill the window of recent messages, so that the first ones leave it."""
        for number in range(30):
            role = MessageRole.ASSISTANT if number % 2 else MessageRole.USER
            await self.chats[user].aput(ChatMessage(role=role, content="one two three " * 5))


class TestFactmemBlock(KilledWorkers, AdapterContract):
    async def new_host(self, memory: AgentMemory, **options: Any) -> Host:
        return Host(memory, options)


async def test_a_block_needs_a_user_and_knows_the_question() -> None:
    memory = await vim_memory()
    with pytest.raises(UnboundSubjectError):
        FactmemBlock(memory)
    block = FactmemBlock(memory, user="alice", recall=3)

    assert "vim" in await block.aget([ChatMessage(role="user", content="Which editor?")])
    assert await block.aget([ChatMessage(role="user", content="How is the weather?")]) == ""
    assert await block.aget() == ""


async def test_the_rest_of_a_chat_is_stored_once() -> None:
    """The messages that have left the window are handed over before."""
    memory = await vim_memory()
    block = FactmemBlock(memory, user="alice", tools=False, conversations=True)
    chat = Memory.from_defaults(
        session_id="c1", token_limit=200, memory_blocks=[block], tokenizer_fn=str.split
    )
    said = [f"{number} " + "one two three " * 5 for number in range(30)]
    for number, text in enumerate(said):
        role = MessageRole.ASSISTANT if number % 2 else MessageRole.USER
        await chat.aput(ChatMessage(role=role, content=text))
    conversation = memory.of("alice").conversation("c1")
    assert 0 < len(await conversation.messages()) < 30

    await block.aput(await chat.aget_all(status=MessageStatus.ACTIVE), session_id="c1")

    assert [each["content"] for each in await conversation.messages()] == said
