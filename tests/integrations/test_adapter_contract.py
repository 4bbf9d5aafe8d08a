"""The shipped suite of adapters, with a loop of its own and with adapters that are wrong."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from anyio.lowlevel import checkpoint

from factmem.agent import Agent
from factmem.memory.agent_memory import AgentMemory
from factmem.memory.runs import MemoryRuns
from factmem.models.places import MemoryScopesProfile
from factmem.testing.adapters import USER, AdapterContract, AdapterHost
from factmem.testing.chat import ScriptedChatModel
from tests.integrations.killed_workers import KilledWorkers


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Loop(AdapterHost):
    """The smallest agent: it sends the facts and the user's text to a model, and says "Ok."."""

    def __init__(self, memory: AgentMemory, **options: Any) -> None:
        self.runs = MemoryRuns[str](memory, user=lambda user: user, **options)
        self.chats: dict[str, list[dict[str, str]]] = {}

    async def say(self, user: str, text: str) -> str:
        chat = self.chats.setdefault(user, [])
        since = len(chat)
        chat.append({"role": "user", "content": text})
        sent = f"{await self.runs.prompt(user, chat)}\n{chat}"
        chat.append({"role": "assistant", "content": "Ok."})
        await self.runs.learn(user, chat, since=since)
        return sent

    async def stored(self) -> str:
        return str(self.chats)


class TestLoop(KilledWorkers, AdapterContract):
    async def new_host(self, memory: AgentMemory, **options: Any) -> AdapterHost:
        return Loop(memory, **options)


class OwnAgent(AdapterHost):
    """The package's own agent, which knows the conversation of each run."""

    def __init__(self, memory: AgentMemory, **options: Any) -> None:
        self.model = ScriptedChatModel(*["Ok."] * 100)
        self.agent = Agent(self.model)
        scopes = MemoryScopesProfile(product="contract")
        given: Any = {"provider": memory.store, "scopes": scopes, "subjects": [USER]}
        self.agent.install(AgentMemory, **given, **options)

    async def say(self, user: str, text: str) -> str:
        await self.agent.run(text, subjects=[USER.of(user)], conversation=f"chat of {user}")
        return str(self.model.calls[-1])


class TestOwnAgent(KilledWorkers):
    async def new_host(self, memory: AgentMemory, **options: Any) -> AdapterHost:
        return OwnAgent(memory, **options)


class OneForAll(Loop):
    """Shows each user what the first one was shown."""

    shown = ""

    async def say(self, user: str, text: str) -> str:
        self.shown = self.shown or await super().say(user, text)
        return self.shown


class SharedState(Loop):
    """Keeps the user of a run where a concurrent run changes it."""

    user = ""

    async def say(self, user: str, text: str) -> str:
        self.user = user
        await checkpoint()
        return await super().say(self.user, text)


class Persisting(Loop):
    """Puts the facts into the chat that it stores."""

    async def say(self, user: str, text: str) -> str:
        sent = await super().say(user, text)
        self.chats[user].append({"role": "system", "content": sent})
        return sent


class Raising(Loop):
    """Lets failures end a run."""

    def __init__(self, memory: AgentMemory, **options: Any) -> None:
        super().__init__(memory, **{**options, "on_failure": "raise"})


class Silent(Loop):
    """Reports no failure."""

    def __init__(self, memory: AgentMemory, **options: Any) -> None:
        super().__init__(memory, **{**options, "on_failure": lambda _: None})


class Deaf(Loop):
    """Detects nothing."""

    def __init__(self, memory: AgentMemory, **options: Any) -> None:
        super().__init__(memory, **{**options, "auto_detect": False})


class Confused(Loop):
    """Detects facts for another user."""

    async def say(self, user: str, text: str) -> str:
        return await super().say("bob" if "shell" in text else user, text)


class Suite(AdapterContract):
    def __init__(self, host: Callable[..., AdapterHost]) -> None:
        self.host = host

    async def new_host(self, memory: AgentMemory, **options: Any) -> AdapterHost:
        return self.host(memory, **options)


WRONG: list[tuple[Callable[..., AdapterHost], str]] = [
    (OneForAll, "test_the_model_reads_the_facts_of_the_user_and_of_no_other"),
    (OneForAll, "test_the_next_run_knows_what_was_saved_and_forgotten"),
    (SharedState, "test_two_users_at_once_read_their_own"),
    (Persisting, "test_the_framework_stores_no_fact"),
    (Raising, "test_a_failing_store_ends_no_run"),
    (Raising, "test_a_failing_model_ends_no_run"),
    (Silent, "test_a_failing_store_ends_no_run"),
    (Deaf, "test_facts_are_detected_for_the_user"),
    (Confused, "test_facts_are_detected_for_the_user"),
]


@pytest.mark.parametrize(("host", "test"), WRONG)
async def test_a_wrong_adapter_fails(host: Callable[..., AdapterHost], test: str) -> None:
    check: Callable[[], Awaitable[None]] = getattr(Suite(host), test)
    with pytest.raises(BaseException) as raised:  # noqa: PT011 - of any kind
        await check()
    assert not isinstance(raised.value, pytest.skip.Exception)
