"""An agent with memory: facts before the model call, detection after it, per user."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from factmem.agent.agent import Agent
from factmem.agent.context import AgentContext
from factmem.agent.nodes import Strategy
from factmem.detection.report import DetectionReport
from factmem.errors import ChatModelError, ExtractionError, UnboundSubjectError
from factmem.events import MemoryEvent, MemoryOperation
from factmem.memory.agent_memory import AgentMemory
from factmem.models.facts import Concept, FactSource, SingleFact, SourceKind
from factmem.models.places import MemoryScopesProfile, MemorySubject
from factmem.prompt.memory_message import LoadReport
from factmem.providers.in_memory import InMemoryProvider
from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.testing.chat import ScriptedChatModel
from tests.tables import table
from tests.world import (
    ALICE,
    BOB,
    COMPANY,
    PRODUCT,
    THEME,
    USER,
    calls,
    found_facts,
    installed,
    is_detection,
    memory_texts,
    theme_item,
)


def theme(value: str) -> SingleFact[str]:
    return SingleFact(THEME, value)


async def test_known_facts_are_in_the_prompt() -> None:
    """They follow the application's instructions; the result and the report have them too."""
    store = InMemoryProvider()
    await store.save(theme("dark"), ALICE, PRODUCT)
    model = ScriptedChatModel("The dark one.")
    agent = Agent(model, system_prompt="Be kind.")
    installed(agent, store, subjects=[USER])

    result = await agent.run("Which theme do I like?", subjects=[ALICE])

    [text] = memory_texts(model.calls[0])
    assert '"dark"' in text
    assert [message["content"] for message in model.calls[0]] == [
        *("Be kind.", text, "Which theme do I like?")
    ]
    [report] = result.reports_of(LoadReport)
    assert [fact.values for fact in report.facts] == [("dark",)]
    assert result.usage.calls == len(model.calls) == 1


async def test_a_second_agent_finds_the_facts_of_the_first(tmp_path: Path) -> None:
    """They share only a folder; the second also finds the source of a fact."""
    monday = ScriptedChatModel("Noted.", found_facts(theme_item("dark", "I prefer the dark theme")))
    async with LocalFileMemoryProvider(tmp_path) as store:
        agent = Agent(monday)
        installed(agent, store, subjects=[USER], auto_detect=True)
        told = await agent.run(
            "I prefer the dark theme.", subjects=[ALICE], conversation="monday-1"
        )
    [detected] = told.reports_of(DetectionReport)
    assert [placed.fact.values for placed in detected.saved] == [("dark",)]
    assert told.usage.calls == len(monday.calls) == 2

    friday = ScriptedChatModel("You prefer the dark theme.")
    async with LocalFileMemoryProvider(tmp_path) as store:
        agent = Agent(friday)
        memory = installed(agent, store, subjects=[USER])
        await agent.run("Set up my editor.", subjects=[ALICE])

        assert '"dark"' in memory_texts(friday.calls[0])[0]
        [known] = await memory.view(subjects=[ALICE]).current(THEME)
        origin = await memory.view(subjects=[ALICE]).why(known)
        assert origin is not None
        assert origin.source == FactSource(
            SourceKind.USER, "monday-1", 0, "I prefer the dark theme", None
        )


@table("subjects", [None, [USER], [ALICE, USER], [COMPANY, USER]])
async def test_an_unbound_subject_raises_before_any_model_call(
    subjects: list[MemorySubject] | None,
) -> None:
    """Omitting the user never means "all users"."""
    model = ScriptedChatModel()
    store = InMemoryProvider()
    agent = Agent(model)
    installed(agent, store, subjects=[USER, COMPANY], auto_detect=True)

    with pytest.raises(UnboundSubjectError, match="'user' is per entity"):
        await agent.run("Hi", subjects=subjects)

    assert model.calls == []
    assert await store.places() == []


async def test_two_people_at_once_are_refused_before_a_model_is_asked() -> None:
    """A model could not see whose fact it has found; loading for both is fine."""
    model = ScriptedChatModel("Hello, both.")
    detecting, loading = Agent(model), Agent(model)
    for agent in (detecting, loading):
        installed(agent, auto_detect=agent is detecting)

    with pytest.raises(ValueError, match="The run has two subjects 'user'"):
        await detecting.run("Hi", subjects=[ALICE, BOB])

    assert model.calls == []
    await loading.run("Hi", subjects=[ALICE, BOB])


async def test_subjects_of_a_run_replace_those_of_the_installation() -> None:
    """This holds for loading, detection and the memory tools of the run."""
    store = InMemoryProvider()
    await store.save(theme("dark"), ALICE, PRODUCT)
    await store.save(theme("light"), BOB, PRODUCT)
    await store.save(SingleFact(Concept("licence", "Its licence"), "team"), COMPANY, PRODUCT)
    seen: list[Any] = []

    async def look(context: AgentContext) -> str:
        seen.extend(fact.value for fact in await context.memory.current(THEME))
        return "looked"

    detected = found_facts(
        theme_item("blue", "make it blue"),
        theme_item("blue", "make it blue", subject="company", keyword="x"),
    )
    model = ScriptedChatModel(calls(("look", {})), "Done.", detected)
    agent = Agent(model, tools=[look])
    installed(agent, store, subjects=[COMPANY], auto_detect=True)

    result = await agent.run("Please make it blue", subjects=[ALICE])

    [text] = memory_texts(model.calls[0])
    assert ('"dark"' in text, '"light"' in text, "licence" in text) == (True, False, False)
    assert seen == ["dark"]
    [report] = result.reports_of(DetectionReport)
    found = [*report.saved, *report.proposed]
    assert [placed.place.subject for placed in found] == [ALICE, ALICE]
    [now] = await store.load(THEME, ALICE, PRODUCT)
    assert now.value == "blue"


async def test_facts_are_detected_in_this_run_only() -> None:
    """Earlier messages were read before: an old statement must not override a newer one."""
    store = InMemoryProvider()
    old = theme_item("light", "I like light themes", message=0)
    new = theme_item("dark", "dark is better", message=2)
    model = ScriptedChatModel("Fine.", found_facts(), "Fine.", found_facts(old, new))
    agent = Agent(model)
    installed(agent, store, subjects=[ALICE], auto_detect=True)
    await store.save(SingleFact(Concept("job", "What she does"), "painter"), ALICE, PRODUCT)

    first = await agent.run("I like light themes.")
    second = await agent.run("On reflection, dark is better.", messages=first.messages)

    [report] = second.reports_of(DetectionReport)
    assert [placed.fact.values for placed in report.saved] == [("dark",)]
    assert [rejected.reason.value for rejected in report.rejected] == ["untrusted message"]
    prompt = str(model.calls[3][1]["content"])
    assert '"role": "user", "text": "I like light themes."' in prompt
    assert '{"message": 2, "role": "user", "text": "On reflection, dark is better."}' in prompt


async def test_another_model_can_detect_facts() -> None:
    """It may be cheaper; the model that answers is not called for detection."""
    answering = ScriptedChatModel("Noted.")
    finding = ScriptedChatModel(found_facts(theme_item("dark", "I prefer the dark theme")))
    agent = Agent(answering)
    installed(agent, subjects=[ALICE], auto_detect=True, chat_model=finding)

    result = await agent.run("I prefer the dark theme.")

    assert (len(answering.calls), len(finding.calls)) == (1, 1)
    assert is_detection(finding.calls[0])
    assert result.usage.calls == 2


@pytest.mark.parametrize(
    ("failure", "cause"),
    [(ChatModelError("down"), ChatModelError), ("no JSON at all", ExtractionError)],
)
async def test_an_answer_survives_a_failing_detection(
    failure: object, cause: type[Exception]
) -> None:
    """The user gets it, nothing is saved, and the application gets the error."""
    failures: list[Exception] = []
    store = InMemoryProvider()
    model = ScriptedChatModel("Noted.", failure, failure)
    agent = Agent(model)
    installed(agent, store, subjects=[ALICE], auto_detect=True, on_failure=failures.append)

    result = await agent.run("I prefer the dark theme.")

    assert [type(each) for each in failures] == [cause]
    assert result.text == "Noted."
    assert await store.places() == []
    retried = ScriptedChatModel(found_facts(theme_item("dark", "I prefer the dark theme")))
    memory = AgentMemory(
        store, chat_model=retried, subjects=[ALICE], scopes=MemoryScopesProfile(product="my-app")
    )
    report = await memory.auto_detect_facts(result.messages)
    assert len(report.saved) == 1


async def test_a_users_own_memory_class_can_be_installed() -> None:
    """It is a subclass with the same parameters; `install` returns its type."""

    class Loud(AgentMemory):
        def shout(self) -> str:
            return "HELLO"

    agent = Agent(ScriptedChatModel("Hi.", "Hi."))
    memory = agent.install(
        Loud, provider=InMemoryProvider(), scopes=MemoryScopesProfile(agent="a"), subjects=[USER]
    )
    seen: list[type] = []

    async def look(context: AgentContext, text: str) -> str:
        seen.append(type(context.memory))
        return text

    strategic = Agent(ScriptedChatModel(), strategy=Strategy("look", [look]))
    strategic.install(
        Loud, provider=InMemoryProvider(), scopes=MemoryScopesProfile(agent="a"), subjects=[USER]
    )
    await strategic.run("Hi", subjects=[ALICE])

    assert memory.shout() == "HELLO"
    assert seen == [Loud]


async def test_a_model_can_use_the_tools_of_the_memory() -> None:
    """They read, save and forget only facts of the run's subjects."""
    store = InMemoryProvider()
    await store.save(theme("dark"), ALICE, PRODUCT)
    await store.save(theme("light"), BOB, PRODUCT)
    model = ScriptedChatModel(
        calls(("memory_recall", {"query": "theme"})),
        "Yours is dark.",
        calls(("memory_forget", {"concept": "ide-theme"})),
        "Forgotten.",
    )
    agent = Agent(model)
    installed(agent, store, subjects=[USER], tools=True)

    await agent.run("Which theme?", subjects=[ALICE])
    await agent.run("Forget it", subjects=[BOB])

    found = str(model.calls[1][-1]["content"])
    assert ("dark" in found, "light" in found) == (True, False)
    assert await store.load(THEME, BOB, PRODUCT) == []
    [kept] = await store.load(THEME, ALICE, PRODUCT)
    assert kept.value == "dark"


async def test_listeners_get_the_events_of_the_memory() -> None:
    """The installed memory has the listeners, and so does the view of every run."""
    heard: list[MemoryEvent] = []
    agent = Agent(ScriptedChatModel("Hello.", found_facts()))
    installed(agent, auto_detect=True, listeners=[heard.append])

    await agent.run("Hi", subjects=[ALICE])

    operations = {event.operation for event in heard}
    assert MemoryOperation.DETECT in operations


async def test_listeners_get_reports_of_detections() -> None:
    reports: list[DetectionReport] = []
    agent = Agent(
        ScriptedChatModel("Noted.", found_facts(theme_item("dark", "I prefer the dark theme")))
    )
    installed(agent, subjects=[ALICE], auto_detect=True, on_report=reports.append)

    result = await agent.run("I prefer the dark theme.")
    assert reports == result.reports_of(DetectionReport) == [result.detection]
    assert [result.loading] == result.reports_of(LoadReport)
    assert len(reports[0].saved) == 1


@table("options", [{"auto_detect": True}, {"conversations": True}, {"tools": True}])
def test_an_option_without_a_store_raises(options: Any) -> None:
    with pytest.raises(ValueError, match=r"has no effect without a store: agent\.install"):
        Agent(ScriptedChatModel()).install(AgentMemory, **options)


async def test_a_run_can_store_its_messages() -> None:
    """They are queued with the answer; no model detects anything in the run."""
    store = InMemoryProvider()
    answers = ScriptedChatModel("Noted.", "Sure.")
    agent = Agent(answers)
    installed(agent, store, subjects=[USER], conversations=True)
    with pytest.raises(ValueError, match="conversations=True stores messages under the name"):
        await agent.run("I like dark", subjects=[ALICE])
    first = await agent.run("I prefer the dark theme.", subjects=[ALICE], conversation="chat")
    await agent.run("Thanks", subjects=[ALICE], conversation="chat", messages=first.messages)

    memory = AgentMemory(store, scopes=MemoryScopesProfile(product="my-app"), subjects=[ALICE])
    texts = [turn.text for turn in await memory.conversation("chat").turns()]
    assert texts == ["I prefer the dark theme.", "Noted.", "Thanks", "Sure."]
    assert (await memory.conversations.pending()).pending == 1
    assert len(answers.calls) == 2


async def test_a_named_conversation_is_continued() -> None:
    """Unless the run has messages; what is shown again is not stored again."""
    store, model = InMemoryProvider(), ScriptedChatModel("Which size?", "Ordered.", "Hello.", "Hi.")
    agent = Agent(model, system_prompt="You sell shoes.")
    memory = installed(agent, store, subjects=[USER], conversations=True)
    run = partial(agent.run, subjects=[ALICE])

    await run("I want the red shoes.", conversation="chat")
    await run("42, please.", conversation="chat")
    await run("A new chat", conversation="other")
    await run("Without the past", conversation="chat", messages=[])

    sent = [[message["content"] for message in call] for call in model.calls]
    assert sent[1] == ["You sell shoes.", "I want the red shoes.", "Which size?", "42, please."]
    assert sent[2] == ["You sell shoes.", "A new chat"]
    assert sent[3] == ["You sell shoes.", "Without the past"]
    assert len(await memory.view(subjects=[ALICE]).conversation("chat").turns()) == 6


async def test_the_budget_of_a_continued_conversation_is_an_option() -> None:
    for tokens, shown in ((0, 1), (30, 1), (1000, 3)):
        store, model = InMemoryProvider(), ScriptedChatModel("Which size?", "Ordered.")
        agent = Agent(model)
        installed(agent, store, subjects=[ALICE], conversations=True, history_tokens=tokens)
        await agent.run("I want the red shoes. " * 20, conversation="chat")
        await agent.run("42, please.", conversation="chat")
        assert len(model.calls[-1]) == shown
