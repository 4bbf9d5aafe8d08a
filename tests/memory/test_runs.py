"""MemoryRuns: facts, tools and learning in a run; failures stop no run, misuse raises."""

from dataclasses import dataclass
from typing import Any

import pytest

from factmem import AgentMemory, Detection, InMemoryProvider, MemoryScopesProfile, MemorySubject
from factmem.errors import ChatModelError, MemoryAccessError, UnboundSubjectError
from factmem.memory.runs import UNREACHABLE, MemoryRuns
from factmem.testing.chat import ScriptedChatModel
from tests.doubles import BareProvider, BreakableProvider
from tests.tables import table
from tests.world import ALICE, BOB, USER, found_fact, known_values, vim_memory


@dataclass
class Context:
    """The run context of a framework."""

    user: Any


def runs_of(memory: AgentMemory, **options: Any) -> MemoryRuns[Context]:
    return MemoryRuns(memory, **{"user": lambda context: context.user, **options})


CHAT = [{"role": "user", "content": "I use emacs now."}, {"role": "assistant", "content": "Ok."}]
EMACS = found_fact("I use emacs now", "editor", "emacs")


@pytest.mark.parametrize("who", ["alice", ALICE, [ALICE]], ids=["name", "subject", "subjects"])
async def test_a_run_shows_the_facts_of_its_user_only(who: Any) -> None:
    runs = runs_of(await vim_memory())

    assert '"vim"' in await runs.prompt(Context(who))
    assert await runs.prompt(Context("bob")) == ""


async def test_a_fixed_user_and_a_bound_memory() -> None:
    memory = await vim_memory()
    assert '"vim"' in await MemoryRuns[None](memory, user="alice").prompt(None)
    assert '"vim"' in await MemoryRuns[None](memory.view(subjects=[ALICE])).prompt(None)


async def test_a_function_may_return_subjects_of_a_memory_without_entities() -> None:
    project = MemorySubject("project", "The project", 2)
    profile = MemoryScopesProfile(agent="desk")
    memory = AgentMemory(InMemoryProvider(), scopes=profile, subjects=[project])

    assert runs_of(memory).view(Context([project])).subjects == (project,)


async def test_recall_shows_facts_about_the_question() -> None:
    runs = runs_of(await vim_memory(), recall=3)

    assert '"vim"' in await runs.prompt(Context("alice"), "Which editor?")
    assert await runs.prompt(Context("alice"), "How is the weather?") == ""
    assert await runs.prompt(Context("alice"), " ") == ""


async def test_learning_at_once() -> None:
    reports: list[Any] = []
    memory = await vim_memory(EMACS)
    runs = runs_of(memory, auto_detect=True, on_report=reports.append)

    report = await runs.learn(Context("alice"), CHAT, conversation="c1")
    assert report is not None
    assert reports == [report]
    assert await known_values(memory) == {"editor": "emacs"}
    assert await runs.learn(Context("alice"), CHAT, since=2) is None


@pytest.mark.parametrize(
    ("options", "pending", "due"),
    [({}, 1, 0), ({"learn": False}, 0, 0), ({"auto_detect": True}, 1, 1)],
    ids=["queued", "only stored", "at once"],
)
async def test_stored_messages_are_due_for_learning(options: Any, pending: int, due: int) -> None:
    """Nothing that is stored is forgotten by a worker, unless the application says so."""
    memory = await vim_memory(EMACS)
    runs = runs_of(memory, conversations=True, **options)

    assert await runs.learn(Context("alice"), CHAT, conversation="chat") is None

    assert (await memory.conversations.pending()).pending == pending
    assert (await memory.conversations.learn()).learnt == due
    assert await known_values(memory) == {"editor": "emacs" if due else "vim"}
    await runs.learn(Context("alice"), CHAT, since=2, conversation="chat")
    assert len(await memory.of("alice").conversation("chat").turns()) == 2


async def test_a_named_conversation_goes_on() -> None:
    """Of its own user only, within a budget, and not without a name."""
    runs = runs_of(await vim_memory(), conversations=True, history_tokens=60)
    await runs.learn(Context("alice"), CHAT, conversation="chat")
    await runs.learn(Context("bob"), CHAT[:1], conversation="chat")

    assert await runs.history(Context("alice"), "chat") == CHAT
    assert await runs.history(Context("bob"), "chat") == CHAT[:1]
    assert await runs.history(Context("alice"), "other") == []
    for _ in range(9):
        await runs.learn(Context("alice"), CHAT, conversation="chat")
    assert await runs.history(Context("alice"), "chat") in (CHAT, CHAT * 2)
    with pytest.raises(ValueError, match="under the name of their conversation"):
        await runs.history(Context("alice"), None)
    assert await runs_of(await vim_memory()).history(Context("alice"), "chat") == []


async def test_a_history_that_cannot_be_read_ends_no_run() -> None:
    provider = BreakableProvider()
    failures: list[Exception] = []
    memory = await vim_memory(provider=provider)
    runs = runs_of(memory, conversations=True, on_failure=failures.append)
    provider.is_broken = True
    assert await runs.history(Context("alice"), "chat") == []


async def test_conversations_need_a_store_of_them() -> None:
    profile = MemoryScopesProfile(agent="desk")
    memory = AgentMemory(BareProvider(), scopes=profile, subjects=[USER])
    with pytest.raises(TypeError, match="FactStore"):
        runs_of(memory, conversations=True, tools=False)


async def test_a_failing_store_stops_no_run_and_the_model_reads_the_error() -> None:
    failures: list[Exception] = []
    provider = BreakableProvider()
    memory = await vim_memory(EMACS, provider=provider)
    runs = runs_of(memory, auto_detect=True, save=True, on_failure=failures.append)
    provider.is_broken = True

    assert await runs.prompt(Context("alice")) == UNREACHABLE
    for tool in runs.tools():
        answer = await tool.call(
            {"query": "x", "concept": "x", "value": "x", "text": "x"}, Context("alice")
        )
        assert answer.startswith("Error:")
    assert await runs.learn(Context("alice"), CHAT) is None
    assert {type(each).__name__ for each in failures} == {"StorageError"}


async def test_the_log_has_the_reason_of_an_unusable_answer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Without the answer, and without names of private classes."""
    memory = await vim_memory('{"secret": "x"}', '{"secret": "x"}')

    assert await runs_of(memory, auto_detect=True).learn(Context("alice"), CHAT) is None
    assert "ExtractionError: Asked twice, and the answer has none of the expected" in caplog.text
    assert "secret" not in caplog.text


async def test_the_log_has_the_type_of_the_cause(caplog: pytest.LogCaptureFixture) -> None:
    error = ChatModelError("quota of alice")
    error.__cause__ = TimeoutError("for alice")
    memory = await vim_memory(error)

    assert await runs_of(memory, auto_detect=True).learn(Context("alice"), CHAT) is None
    assert "ChatModelError: TimeoutError" in caplog.text
    assert "alice" not in caplog.text


@pytest.mark.parametrize("user", [None, lambda context: None], ids=["none", "function"])
async def test_an_unbound_user_raises_first(user: Any) -> None:
    memory = await vim_memory()
    with pytest.raises(UnboundSubjectError):
        await MemoryRuns[Any](memory, user=user).prompt(None)


async def test_a_read_only_view_raises() -> None:
    memory = (await vim_memory(EMACS)).view(read_only=True)
    with pytest.raises(MemoryAccessError):
        await runs_of(memory, auto_detect=True).learn(Context("alice"), CHAT)


@table(
    ("options", "error", "words"),
    [
        ({"auto_detect": True}, ValueError, "auto_detect needs a model"),
        ({"recall": 0}, ValueError, "recall must be an int of at least 1:"),
        ({"recall": "5"}, TypeError, "recall must be an int of at least 1, not str"),
        ({"detection": Detection()}, ValueError, "detection has no effect without auto_detect"),
        ({"on_report": print}, ValueError, "on_report has no effect without auto_detect=True"),
        ({"history_tokens": 9}, ValueError, "history_tokens has no effect without conversations"),
        ({"conversations": True, "history_tokens": -1}, ValueError, "of at least 0"),
        ({"learn": False}, ValueError, "learn=False has no effect without conversations=True"),
        ({"save": True, "tools": False}, ValueError, "save=True has no effect without tools=True"),
        ({"prefix": "x_", "tools": False}, ValueError, "prefix has no effect without tools=True"),
        ({"auto_detect": True, "detection": {}}, ValueError, "auto_detect needs a model"),
        ({"prefix": "my memory "}, ValueError, "prefix"),
        ({"user": 7}, TypeError, "user must be a string"),
        ({"on_failure": 7}, TypeError, "on_failure must be a function"),
    ],
    ids=lambda each: str(each)[:40],
)
async def test_wrong_constructor_arguments_raise(options: Any, error: Any, words: str) -> None:
    with pytest.raises(error, match=words):
        runs_of(await vim_memory(), **options)


async def test_wrong_options_of_a_memory_with_a_model_raise() -> None:
    memory = await vim_memory(EMACS)
    with pytest.raises(TypeError, match="on_report must be a function"):
        runs_of(memory, auto_detect=True, on_report=7)
    for option in ({"detection": Detection()}, {"on_report": print}):
        with pytest.raises(ValueError, match="has no effect without auto_detect=True alone"):
            runs_of(memory, auto_detect=True, conversations=True, **option)
    with pytest.raises(ValueError, match="learn=False has no effect without auto_detect=False"):
        runs_of(memory, auto_detect=True, conversations=True, learn=False)


def test_an_unusable_memory_raises_in_the_constructor() -> None:
    profile = MemoryScopesProfile(agent="desk")
    with pytest.raises(TypeError, match="FactStore"):
        runs_of(AgentMemory(BareProvider(), scopes=profile, subjects=[USER]))
    with pytest.raises(TypeError, match="memory must be an AgentMemory"):
        runs_of(InMemoryProvider())  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="scope"):
        runs_of(AgentMemory(InMemoryProvider(), subjects=[USER], chat_model=ScriptedChatModel()))
    with pytest.raises(ValueError, match="no unbound per-entity subject"):
        runs_of(AgentMemory(InMemoryProvider(), scopes=profile), user="alice")


async def test_tools_that_bind_the_user_at_each_call() -> None:
    """The context of a call names the user or the subjects."""
    memory = await vim_memory()
    tools = {tool.name: tool for tool in memory.tools(of=lambda context: context, save=True)}
    recall, save = tools["memory_recall"], tools["memory_save"]
    asked = {"query": "editor"}

    for who in ("alice", ALICE, [ALICE]):
        assert '"vim"' in await recall.call(asked, who)
    assert '"vim"' not in await recall.call(asked, "bob")
    await save.call({"concept": "shell", "value": "fish"}, "bob")
    assert await known_values(memory, BOB) == {"shell": "fish"}
    with pytest.raises(UnboundSubjectError):
        await recall.call(asked, None)
    with pytest.raises(TypeError, match="user must be"):
        await recall.call(asked, 7)


async def test_runs_of_a_read_only_view_change_nothing() -> None:
    memory = await vim_memory()
    view = memory.of("alice").view(read_only=True)

    class Runs(MemoryRuns[None]):
        def view(self, context: None) -> AgentMemory:
            return view

    tools = {tool.name: tool for tool in Runs(memory, user="alice").tools()}
    answer = await tools["memory_forget"].call({"concept": "editor"}, None)
    assert answer == "Error: nothing was done. This memory is read-only."
    assert await known_values(memory) == {"editor": "vim"}
