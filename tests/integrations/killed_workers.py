"""Chats of an agent's framework, learnt by workers that are killed.

    class TestContract(KilledWorkers, AdapterContract): ...

The program that chats and the worker are processes of their own, with one folder. A worker kills
itself while its model is asked ("asked"), or when its facts are saved and its chat is still due
("saved").
"""

import os
import signal
from collections.abc import Callable, Sequence
from datetime import timedelta
from itertools import repeat
from pathlib import Path
from typing import Any

import anyio
import pytest

from factmem import AgentMemory, LocalFileMemoryProvider, MemoryScopesProfile
from factmem.testing import adapters
from factmem.testing.adapters import USER, AdapterHost
from factmem.testing.chat import ScriptedChatModel
from tests.processes import Process, Tell

__all__ = ["KilledWorkers", "check_killed_workers"]

USERS = ("alice", "bob", "carol")
SAID = "By the way, my shell is fish."


def memory_in(folder: Path, **options: Any) -> AgentMemory:
    """Return the memory of the program and of its workers."""
    scopes = MemoryScopesProfile(product="contract")
    store = LocalFileMemoryProvider(folder)
    return AgentMemory(store, scopes=scopes, subjects=[USER], **options)


class KilledWorkers:
    """A part of the contract of adapters that store conversations."""

    async def new_host(self, memory: AgentMemory, **options: Any) -> AdapterHost:
        raise NotImplementedError

    @pytest.mark.storm
    async def test_each_chat_is_learnt_once_though_workers_are_killed(self, tmp_path: Path) -> None:
        """What a worker learns again, after another was killed, changes nothing."""
        if not (getattr(self, "learns", True) and getattr(self, "keeps", True)):
            pytest.skip("The adapter stores no conversations")
        async with memory_in(tmp_path / "memory") as memory:
            host = await self.new_host(memory, auto_detect=True, conversations=True)
            for user in USERS:
                await host.say(user, SAID)
                await host.say(user, "That is all.")
            for user in USERS:
                await host.learn(user)
            await check_killed_workers(memory, tmp_path / "memory")


async def check_killed_workers(memory: AgentMemory, folder: Path) -> None:
    """Learn the chats of a folder, kill two workers at it, and check that each is learnt once."""
    waiting = (await memory.conversations.pending()).pending
    assert waiting >= len(USERS)
    for point, code in (("asked", -signal.SIGKILL), ("saved", -signal.SIGKILL), ("", 0)):
        assert await anyio.to_thread.run_sync(_run, folder, point) == code
    left = await memory.conversations.pending()
    assert (left.pending, left.failed) == (0, 0)
    for user in USERS:
        view = memory.of(user)
        (fact,) = [f for f in await view.current() if f.concept.keyword == "shell"]
        assert fact.values == ("fish",)
        history = await view.contents.history(fact.id)
        assert len(history) == 1, history


def _run(folder: Path, point: str) -> int:
    worker = Process(_worker, folder, point)
    worker.go()
    return worker.end()


def _worker(tell: Tell, wait: Callable[[], None], folder: Path, point: str) -> None:
    wait()
    anyio.run(work, folder, point)


def _die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


async def work(folder: Path, point: str) -> None:
    """Learn what is due, until the point at which this process is killed."""

    def answer(messages: Sequence[Any]) -> object:
        if point == "asked":
            _die()
        return adapters._detected(messages)

    async with memory_in(folder, chat_model=ScriptedChatModel(*repeat(answer, 100))) as memory:
        queue: Any = type(memory.store.conversations)
        take = queue.take

        async def taken(self: Any, _: timedelta, *within: Any) -> Any:
            return await take(
                self, timedelta(microseconds=1), *within
            )  # the next worker need not wait

        if point:
            queue.take = taken
        if point == "saved":
            queue.learnt = _die
        await memory.conversations.learn()
