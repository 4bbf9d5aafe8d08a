"""Conversations of a memory, and learning from them."""

from datetime import timedelta
from typing import Any
from unittest.mock import AsyncMock

import anyio
import pytest

from factmem.errors import ChatModelError, MemoryAccessError, StorageError, UnboundSubjectError
from factmem.events import MemoryEvent
from factmem.memory.agent_memory import AgentMemory
from factmem.memory.runs import MemoryRuns
from factmem.models.facts import FactSource, SourceKind
from factmem.providers.in_memory import InMemoryProvider
from factmem.providers.store import FactStore
from factmem.testing.chat import ScriptedChatModel
from factmem.testing.clock import SettableClock
from tests.doubles import MeanwhileModel
from tests.world import AGENT, ALICE, BOB, COMPANY, PROFILE, THEME, USER, item, theme

DARK = {"facts": [item()]}
REST = timedelta(seconds=30)
SAID = {"role": "user", "content": "I prefer the dark theme."}
ANSWER = {"role": "assistant", "content": "Noted."}


def memory_on(store: FactStore, clock: SettableClock, *answers: object, **more: Any) -> AgentMemory:
    """Return a memory of all users, with a scripted model."""
    options = {"scopes": PROFILE, "subjects": [USER], "concepts": [THEME], **more}
    if answers:
        options["chat_model"] = ScriptedChatModel(*answers)
    return AgentMemory(store, clock=clock, **options)


async def themes(store: FactStore, subject: Any = ALICE) -> list[str]:
    """Return the current themes of a user."""
    return [fact.value for fact in await store.load(THEME, subject, AGENT)]


def calls(memory: AgentMemory) -> int:
    """Return how often the model was called."""
    model = memory.chat_model
    assert isinstance(model, ScriptedChatModel)
    return len(model.calls)


async def test_messages_come_back_as_they_were_appended(
    store: FactStore, clock: SettableClock
) -> None:
    """In order, by pages, with ids and numbers; factmem's own messages are left out."""
    chat = memory_on(store, clock).of("alice").conversation("chat")
    own = {"role": "system", "name": "factmem_memory", "content": "Known facts: ..."}

    await chat.append(SAID, own, ANSWER)
    (more,) = await chat.append({"role": "user", "content": "Thanks"}, ids=["m-3"])

    assert await chat.messages() == [SAID, ANSWER, {"role": "user", "content": "Thanks"}]
    assert (more.number, more.id, more.text) == (2, "m-3", "Thanks")
    (newest,) = await chat.turns(last=1)
    assert newest == more
    assert await chat.messages(before=newest.number, last=1) == [ANSWER]
    assert await chat.append({"role": "user", "content": "Thanks"}, ids=["m-3"]) == []
    (info,) = await memory_on(store, clock).of("alice").conversations.infos()
    assert (info.id, info.count, info.title) == ("chat", 3, "I prefer the dark theme.")


async def test_a_rested_chat_is_learnt(store: FactStore, clock: SettableClock) -> None:
    """By one call for all messages since the last success; the facts cite their messages."""
    memory = memory_on(store, clock, DARK, {"facts": [item(value="light", quote="light")]})
    chat = memory.of("alice").conversation("chat")
    await chat.append(SAID, ANSWER)
    assert (await memory.conversations.learn()).learnt == 0

    clock.advance(REST)
    run = await memory_on(store, clock, DARK).conversations.learn(workers=3)

    assert (run.learnt, len(run.reports)) == (1, 1)
    (fact,) = await store.load(THEME, ALICE, AGENT)
    assert fact.source == FactSource(SourceKind.USER, "chat", 0, "dark theme", None, None)
    assert (await memory.conversations.pending()).pending == 0
    await chat.append({"role": "user", "content": "I like light now"})
    clock.advance(REST)
    memory = memory_on(store, clock, {"facts": [item(value="light", quote="light", message=2)]})
    assert (await memory.conversations.learn()).learnt == 1
    (fact,) = await store.load(THEME, ALICE, AGENT)
    assert fact.source is not None
    assert (fact.value, fact.source.message) == ("light", 2)
    assert calls(memory) == 1


async def test_a_failure_is_repeated_and_given_up_in_sight(
    store: FactStore, clock: SettableClock
) -> None:
    """No statement is lost: it is learnt when the endpoint is back, also after it was given up."""
    await memory_on(store, clock).of("alice").conversation("chat").append(SAID)
    clock.advance(REST)
    failing = memory_on(store, clock, *[ChatModelError("429")] * 8)

    first = await failing.conversations.learn()
    assert (first.learnt, first.postponed) == (0, 1)
    assert (await failing.conversations.learn()).postponed == 0  # not before its pause has passed
    given_up = 0
    for _ in range(7):
        clock.advance(timedelta(hours=1))
        given_up += (await failing.conversations.learn()).given_up

    assert given_up == 1
    state = await failing.conversations.pending()
    assert (state.pending, state.failed) == (0, 1)
    memory = memory_on(store, clock, DARK)
    assert (await memory.conversations.learn()).learnt == 0
    assert await memory.conversations.retry_failed() == 1
    assert (await memory.conversations.learn()).learnt == 1
    assert await themes(store) == ["dark"]


async def test_each_user_learns_their_own(store: FactStore, clock: SettableClock) -> None:
    """One worker serves all users of the memory; a view only its own."""
    memory = memory_on(store, clock)
    for name in ("alice", "bob"):
        await memory.of(name).conversation("chat").append(SAID)
    clock.advance(REST)

    alone = await memory_on(store, clock, DARK).of("bob").conversations.learn()
    assert (alone.learnt, await themes(store), await themes(store, BOB)) == (1, [], ["dark"])
    assert (await memory.conversations.pending()).pending == 1
    assert (await memory.of("bob").conversations.pending()).pending == 0
    assert (await memory_on(store, clock, DARK).conversations.learn()).learnt == 1
    assert await themes(store) == ["dark"]


async def test_an_erased_user_stays_erased(store: FactStore, clock: SettableClock) -> None:
    """Also if the worker had read the chat before; and nothing of the queue is left."""
    memory = memory_on(store, clock)
    await memory.of("alice").conversation("chat").append(SAID)
    clock.advance(REST)
    model = MeanwhileModel(lambda: store.erase(ALICE, AGENT), DARK)
    worker = memory_on(store, clock, chat_model=model)

    run = await worker.conversations.learn()

    assert run.learnt == 0
    assert await themes(store) == []
    assert await memory.of("alice").conversation("chat").messages() == []
    assert (await memory.conversations.pending()).pending == 0


async def test_a_message_that_comes_meanwhile_is_learnt_next(
    store: FactStore, clock: SettableClock
) -> None:
    """The watermark moves to what the model has read, and no further."""
    memory = memory_on(store, clock)
    chat = memory.of("alice").conversation("chat")
    await chat.append(SAID)
    clock.advance(REST)
    late = {"role": "user", "content": "No, the light one"}
    model = MeanwhileModel(lambda: chat.append(late), DARK)
    worker = memory_on(store, clock, chat_model=model)

    assert (await worker.conversations.learn()).learnt == 1

    assert (await memory.conversations.pending()).pending == 1
    clock.advance(REST)
    answer = {"facts": [item(value="light", quote="light", message=1)]}
    assert (await memory_on(store, clock, answer).conversations.learn()).learnt == 1
    assert await themes(store) == ["light"]


async def test_a_cancelled_worker_loses_nothing(store: FactStore, clock: SettableClock) -> None:
    """Its chat is due again when its lease has ended."""
    await memory_on(store, clock).of("alice").conversation("chat").append(SAID)
    clock.advance(REST)
    with anyio.CancelScope() as scope:

        async def cancel() -> None:
            scope.cancel()
            await anyio.lowlevel.checkpoint()

        worker = memory_on(store, clock, chat_model=MeanwhileModel(cancel, DARK))
        await worker.conversations.learn()

    memory = memory_on(store, clock, DARK)
    assert (await memory.conversations.learn()).learnt == 0
    clock.advance(timedelta(minutes=10))
    assert (await memory.conversations.learn()).learnt == 1
    assert await themes(store) == ["dark"]


async def test_a_worker_that_ends_after_saving(
    store: FactStore, clock: SettableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its facts are not saved twice: a message that is read again gives the same fact."""
    await memory_on(store, clock).of("alice").conversation("chat").append(SAID)
    clock.advance(REST)

    async def end(*_: object) -> bool:
        raise RuntimeError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(store.conversations, "learnt", end)
        with pytest.raises(RuntimeError, match="killed"):
            await memory_on(store, clock, DARK).conversations.learn()
    await store.save(theme("light", timestamp=clock.now), ALICE, AGENT)
    clock.advance(timedelta(minutes=10))

    assert (await memory_on(store, clock, DARK).conversations.learn()).learnt == 1
    history = await store.history(THEME, ALICE, AGENT)
    assert [entry.fact.values for entry in history if entry.fact] == [("dark",), ("light",)]
    assert (await memory_on(store, clock).conversations.pending()).pending == 0


async def test_a_worker_goes_on_until_it_is_cancelled(
    store: FactStore, clock: SettableClock
) -> None:
    """With `every` it looks again and again; `per_minute` limits how many it begins."""
    memory = memory_on(store, clock, DARK)
    await memory.of("alice").conversation("chat").append(SAID)
    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(
                lambda: memory.conversations.learn(
                    every=timedelta(milliseconds=1), per_minute=60_000
                )
            )
            await anyio.sleep(0.01)
            assert await themes(store) == []
            clock.advance(REST)
            while not await themes(store):  # noqa: ASYNC110 - the worker's sleep is what is tested
                await anyio.sleep(0.001)
            group.cancel_scope.cancel()
    assert calls(memory) == 1


async def test_removed_messages_name_their_facts(store: FactStore, clock: SettableClock) -> None:
    """Facts stay until they are forgotten; the result says which were learnt from the messages."""
    memory = memory_on(store, clock, DARK)
    chat = memory.of("alice").conversation("chat")
    (said, _) = await chat.append(SAID, ANSWER)
    clock.advance(REST)
    await memory.conversations.learn()
    (fact,) = await store.load(THEME, ALICE, AGENT)

    removed = await chat.remove(said.id)

    assert (removed.count, [each.id for each in removed.facts]) == (1, [fact.id])
    assert await chat.messages() == [ANSWER]
    assert (await chat.clear()).count == 1
    assert await chat.messages() == []
    assert await themes(store) == ["dark"]


async def test_facts_of_other_places_are_named(store: FactStore, clock: SettableClock) -> None:
    """A chat of a user may have taught something about their company."""
    memory = memory_on(store, clock, subjects=[USER, COMPANY]).of("alice")
    chat = memory.conversation("chat")
    (said,) = await chat.append(SAID)
    fact = theme("dark", source=FactSource(SourceKind.USER, "chat", said.number))
    other = theme("light", source=FactSource(SourceKind.USER, "other", said.number))
    await store.save(fact, COMPANY, AGENT)
    await store.save(other, ALICE, AGENT)

    assert [each.id for each in (await chat.clear()).facts] == [fact.id]


async def test_the_present_chat_is_not_quoted_in_a_prompt(
    store: FactStore, clock: SettableClock
) -> None:
    """Adapters pass the chat, of which a part may be stored already."""
    memory = memory_on(store, clock).of("alice")
    await memory.conversation("old").append({"role": "user", "content": "The theme was grey"})
    await memory.conversation("chat").append(SAID)
    runs = MemoryRuns[None](memory, recall=10)

    text = await runs.prompt(None, [SAID, {"role": "user", "content": "Which theme?"}])

    assert "The theme was grey" in text
    assert str(SAID["content"]) not in text


async def test_old_messages_go(store: FactStore, clock: SettableClock) -> None:
    """`keep` hides them at once, and removes them when the chat goes on."""
    memory = memory_on(store, clock).of("alice")
    chat = memory.conversation("chat", keep=timedelta(days=7), learn=False)
    await chat.append(*[{"role": "user", "content": str(n)} for n in range(60)])
    clock.advance(timedelta(days=8))
    assert await chat.messages() == []
    await chat.append(*[{"role": "user", "content": str(n)} for n in range(60, 66)])

    assert [each["content"] for each in await memory.conversation("chat").messages()] == [
        str(n) for n in range(60, 66)
    ]


async def test_a_chat_that_rests_is_trimmed(store: FactStore, clock: SettableClock) -> None:
    """Nobody finds what was removed by its age: neither another handle nor a recall."""
    alice = memory_on(store, clock).of("alice")
    chat = alice.conversation("chat", learn=False)
    await chat.append(SAID)
    clock.advance(timedelta(days=8))
    await chat.append(ANSWER)

    assert (await chat.remove(older_than=timedelta(days=7))).count == 1

    assert await alice.conversation("chat").messages() == [ANSWER]
    with pytest.raises(ValueError, match="not both"):
        await chat.remove("a", older_than=timedelta(days=7))


async def test_views_restrict_chats(store: FactStore, clock: SettableClock) -> None:
    """A view of another user finds nothing; a read-only one does not write."""
    events: list[MemoryEvent] = []
    memory = memory_on(store, clock, listeners=[events.append])
    await memory.of("alice").conversation("chat").append(SAID)
    bob = memory.of("bob")

    assert await bob.conversation("chat").messages() == []
    assert await bob.conversations.infos() == []
    reading = memory.view(subjects=[ALICE], read_only=True).conversation("chat")
    assert await reading.messages() == [SAID]
    with pytest.raises(MemoryAccessError):
        await reading.append(ANSWER)
    with pytest.raises(MemoryAccessError):
        await reading.clear()
    with pytest.raises(UnboundSubjectError):
        memory.conversation("chat")
    assert SAID["content"] not in str(events)


async def test_wrong_arguments(store: FactStore, clock: SettableClock) -> None:
    """They raise before anything is stored, and say what to write."""
    memory = memory_on(store, clock).of("alice")
    chat = memory.conversation("chat")
    with pytest.raises(TypeError, match="A message must be a dict, not str"):
        await chat.append("hello")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="must have a role"):
        await chat.append({"content": "hello"})
    with pytest.raises(ValueError, match="role must be one of assistant, developer"):
        await chat.append(SAID, {"role": "human", "content": "hello"})
    with pytest.raises(TypeError, match="JSON values only"):
        await chat.append({"role": "user", "content": object()})
    with pytest.raises(ValueError, match="would change when it is stored"):
        await chat.append({"role": "user", "content": float("nan")})
    with pytest.raises(ValueError, match="ids must have one id for each message"):
        await chat.append(SAID, ids=["a", "b"])
    with pytest.raises(ValueError, match="A name of a conversation is empty"):
        memory.conversation(" ")
    with pytest.raises(ValueError, match="keep must be positive"):
        memory.conversation("chat", keep=timedelta(0))
    with pytest.raises(ValueError, match="needs a chat model"):
        await memory.conversations.learn()
    assert await chat.messages() == []


async def test_a_store_without_conversations_says_so() -> None:
    """A provider of one's own need not keep them."""

    class Forgetful(FactStore): ...

    store = Forgetful(InMemoryProvider()._backend)
    memory = AgentMemory(store, scopes=PROFILE, subjects=[ALICE])
    with pytest.raises(StorageError, match="Forgetful keeps no conversations"):
        await memory.conversation("chat").append(SAID)


@pytest.mark.parametrize("call", ["take", "learnt"])
async def test_a_worker_whose_store_fails_raises_its_error(
    store: FactStore, clock: SettableClock, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """Not in a group: a StorageError is one except clause."""
    memory = memory_on(store, clock, DARK)
    await memory.of("alice").conversation("chat").append(SAID, ANSWER)
    clock.advance(REST)
    monkeypatch.setattr(store.conversations, call, AsyncMock(side_effect=StorageError("Full")))

    with pytest.raises(StorageError, match="Full"):
        await memory.conversations.learn(workers=3)


async def test_a_chat_without_learning_has_no_rest(store: FactStore, clock: SettableClock) -> None:
    memory = memory_on(store, clock, DARK).of("alice")
    with pytest.raises(ValueError, match="learn_after has no effect with learn=False"):
        memory.conversation("chat", learn=False, learn_after=REST)
    chat = memory.conversation("chat", learn=False)
    await chat.append(SAID)
    assert (await memory.conversations.pending()).pending == 0


async def test_a_worker_names_the_causes_of_failures(
    store: FactStore, clock: SettableClock
) -> None:
    memory = memory_on(store, clock, ChatModelError("no route", status=None))
    await memory.of("alice").conversation("chat").append(SAID)
    clock.advance(REST)
    run = await memory.conversations.learn()
    assert (run.postponed, [str(each) for each in run.failures]) == (1, ["no route"])


CALL = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {"id": each, "type": "function", "function": {"name": "look_up", "arguments": "{}"}}
        for each in ("1", "2")
    ],
}
RESULTS = [{"role": "tool", "tool_call_id": each, "content": "42"} for each in ("1", "2")]


async def test_the_newest_messages_of_a_chat_fit_into_a_budget(
    store: FactStore, clock: SettableClock
) -> None:
    """From a message of the user on, and without the instructions of earlier runs."""
    chat = memory_on(store, clock).of("alice").conversation("chat")
    assert await chat.messages(max_tokens=1000) == []
    said = [{"role": "user", "content": f"Question {n}"} for n in range(200)]
    for each in said:
        await chat.append({"role": "system", "content": "Be brief."}, each, ANSWER)

    everything = await chat.messages(max_tokens=100_000)
    assert everything == [message for each in said for message in (each, ANSWER)]
    some = await chat.messages(max_tokens=200)
    assert some == everything[-len(some) :]
    assert 4 <= len(some) <= 16
    assert some[0]["role"] == "user"
    assert await chat.messages(max_tokens=0) == await chat.messages(max_tokens=3) == []


@pytest.mark.parametrize(
    ("messages", "found"),
    [
        ([SAID, CALL, *RESULTS, ANSWER], [SAID, CALL, *RESULTS, ANSWER]),
        ([SAID, CALL, RESULTS[0], ANSWER], [SAID, ANSWER]),
        ([SAID, CALL], [SAID]),
        ([RESULTS[0], SAID, ANSWER], [SAID, ANSWER]),
        ([ANSWER, SAID], [SAID]),
    ],
    ids=["whole", "a result is missing", "no result", "a result alone", "begins with an answer"],
)
async def test_a_tool_call_is_whole_or_left_out(
    messages: Any, found: Any, store: FactStore, clock: SettableClock
) -> None:
    """Endpoints reject a call without its results, and a result without its call."""
    chat = memory_on(store, clock).of("alice").conversation("chat")
    await chat.append(*messages)
    assert await chat.messages(max_tokens=1000) == found


async def test_a_budget_does_not_cut_a_tool_call(store: FactStore, clock: SettableClock) -> None:
    chat = memory_on(store, clock).of("alice").conversation("chat")
    long = [{**each, "content": "words " * 100} for each in RESULTS]
    await chat.append(SAID, CALL, *long, ANSWER, SAID)
    assert await chat.messages(max_tokens=200) == [SAID]
    assert len(await chat.messages(max_tokens=800)) == 6
