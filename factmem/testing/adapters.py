"""The conformance suite of adapters to agent frameworks.

Subclass it as `TestMyAdapter` and write `new_host`. The methods are asynchronous tests; see
`factmem.testing.providers`.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import anyio
import pytest
from anyio.lowlevel import checkpoint
from typing_extensions import override

from factmem.errors import StorageError
from factmem.llm.base import Message
from factmem.memory.agent_memory import AgentMemory
from factmem.models.facts import AnyFact, Concept, SingleFact
from factmem.models.places import MemoryScope, MemoryScopesProfile, MemorySubject
from factmem.providers.in_memory import InMemoryProvider
from factmem.testing.chat import ScriptedChatModel

__all__ = ["AdapterContract", "AdapterHost"]

USER = MemorySubject("user", "The person who talks to the agent", 1, per_entity=True)
EDITOR = Concept("editor", "The editor that the user prefers")
QUESTION = "Which editor do I use?"

_SHELL: Mapping[str, object] = {"quote": "my shell is fish", "keyword": "shell", "value": "fish"}
_SAID = re.compile(r'"message": (\d+), "role": "user", "text": "[^"]*my shell is fish')


class AdapterHost(ABC):
    """An agent of a framework, with a memory by the adapter and a model that runs locally."""

    @abstractmethod
    async def say(self, user: str, text: str) -> str:
        """Run the agent on a text of a user, and return all that its model got in this run.

        Runs of one user belong to one chat. The calls of two users may be concurrent.
        """

    async def stored(self) -> str:
        """Return what the framework itself stores of all runs: sessions, threads, checkpoints."""
        return ""

    async def learn(self, user: str) -> None:
        """Let the adapter detect facts in a user's chat, if the end of a run does not."""
        await checkpoint()


class AdapterContract(ABC):
    """The contract of an adapter: what `docs/frameworks.md` promises.

    The memory's only scope is the product `contract`, and its subject is per entity.
    """

    learns: ClassVar[bool] = True
    """Whether the adapter detects facts in chats."""
    keeps: ClassVar[bool] = True
    """Whether the adapter has the option `conversations`."""
    is_stored: ClassVar[bool] = False
    """Whether the framework stores the facts that its model got; the adapter's page must say so."""

    @abstractmethod
    async def new_host(self, memory: AgentMemory, **options: Any) -> AdapterHost:
        """Return an agent with this memory. The options are those of `MemoryRuns`."""

    async def test_the_model_reads_the_facts_of_the_user_and_of_no_other(self) -> None:
        """A user without facts gets none."""
        memory = await _memory()
        host = await self.new_host(memory)

        assert _known(await host.say("alice", QUESTION)) == ["vim-4711"]
        assert _known(await host.say("bob", QUESTION)) == ["nano-0815"]
        assert _known(await host.say("carol", QUESTION)) == []

    async def test_two_users_at_once_read_their_own(self) -> None:
        """One agent serves all users."""
        host = await self.new_host(await _memory())
        found: dict[str, set[str]] = {"alice": set(), "bob": set()}

        async def ask(user: str) -> None:
            for _ in range(3):
                found[user].update(_known(await host.say(user, QUESTION)))

        async with anyio.create_task_group() as tasks:
            for user in found:
                tasks.start_soon(ask, user)

        assert found == {"alice": {"vim-4711"}, "bob": {"nano-0815"}}

    async def test_the_next_run_knows_what_was_saved_and_forgotten(self) -> None:
        """Nothing is cached."""
        memory = await _memory()
        host, alice = await self.new_host(memory), memory.of("alice")
        assert _known(await host.say("alice", QUESTION)) == ["vim-4711"]

        await alice.save(EDITOR, "nano-0815")
        assert _known(await host.say("alice", QUESTION)) == ["nano-0815"]
        await alice.contents.forget(concept=EDITOR)
        assert _known(await host.say("alice", QUESTION)) == []

    async def test_the_framework_stores_no_fact(self) -> None:
        """Otherwise a fact that is forgotten stays in its sessions."""
        host = await self.new_host(await _memory())
        for _ in range(2):
            await host.say("alice", QUESTION)

        assert bool(_known(await host.stored())) == self.is_stored

    async def test_a_failing_store_ends_no_run(self) -> None:
        """The application gets the error, and the next run has the facts again."""
        store, failures = _Breakable(), list[Exception]()
        host = await self.new_host(await _memory(store), on_failure=failures.append)
        store.is_broken = True

        assert _known(await host.say("alice", QUESTION)) == []
        assert {type(each) for each in failures} == {StorageError}
        store.is_broken = False
        assert _known(await host.say("alice", QUESTION)) == ["vim-4711"]

    async def test_facts_are_detected_for_the_user(self) -> None:
        """They are saved for nobody else."""
        if not self.learns:
            pytest.skip("The adapter detects no facts")
        model = ScriptedChatModel(*[_detected] * 8)
        memory = await _memory(chat_model=model)
        host = await self.new_host(memory, auto_detect=True)
        await host.say("alice", "By the way, my shell is fish.")
        await host.learn("alice")

        known = {fact.concept.keyword: fact.values for fact in await memory.of("alice").current()}
        assert known == {"editor": ("vim-4711",), "shell": ("fish",)}
        assert [fact.values for fact in await memory.of("bob").current()] == [("nano-0815",)]

    async def test_conversations_are_stored_with_any_options_of_a_run(self) -> None:
        """Each message of the user once, also if the framework names no conversation."""
        if not (self.learns and self.keeps):
            pytest.skip("The adapter stores no conversations")
        memory = await _memory()
        host = await self.new_host(memory, conversations=True)
        for text in ("Hello, desk.", "Hello again."):
            await host.say("alice", text)
        await host.learn("alice")

        alice, said = memory.of("alice"), list[str]()
        for info in await alice.conversations.infos():
            said += map(str, await alice.conversation(info.id).messages())
        for text in ("Hello, desk.", "Hello again."):
            assert sum(text in each for each in said) == 1

    async def test_a_failing_model_ends_no_run(self) -> None:
        """Nothing is saved, and the application gets the error."""
        if not self.learns:
            pytest.skip("The adapter detects no facts")
        failures: list[Exception] = []
        memory = await _memory(chat_model=ScriptedChatModel(*["no JSON"] * 8))
        host = await self.new_host(memory, auto_detect=True, on_failure=failures.append)
        await host.say("alice", "By the way, my shell is fish.")
        await host.learn("alice")

        assert failures
        assert len(await memory.of("alice").current()) == 1


class _Breakable(InMemoryProvider):
    is_broken = False

    @override
    async def version(self, subject: MemorySubject, scope: MemoryScope) -> str:
        return await super().version(subject, self._checked(scope))

    @override
    async def load_all(
        self, subject: MemorySubject, scope: MemoryScope, **options: Any
    ) -> list[AnyFact]:
        return await super().load_all(subject, self._checked(scope), **options)

    def _checked(self, scope: MemoryScope) -> MemoryScope:
        if self.is_broken:
            raise StorageError("The disk refused")
        return scope


async def _memory(store: InMemoryProvider | None = None, **options: Any) -> AgentMemory:
    scopes = MemoryScopesProfile(product="contract")
    memory = AgentMemory(store or InMemoryProvider(), scopes=scopes, subjects=[USER], **options)
    for user, editor in (("alice", "vim-4711"), ("bob", "nano-0815")):
        await memory.store.save(
            SingleFact(EDITOR, editor), USER.of(user), MemoryScope.Product("contract")
        )
    return memory


def _known(text: str) -> list[str]:
    return [editor for editor in ("vim-4711", "nano-0815") if editor in text]


def _detected(messages: Sequence[Message]) -> Mapping[str, object]:
    """Return the answer of a detecting model that finds the shell where the user names it."""
    said = _SAID.findall(str(messages[-1]["content"]))
    return {"facts": [{**_SHELL, "message": int(number)} for number in said]}
