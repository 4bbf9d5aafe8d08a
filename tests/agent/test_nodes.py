"""Strategies and their nodes: loading, saving, the user of the run, and cost."""

from collections.abc import Callable
from typing import Any

import pytest

from factmem.agent.agent import Agent
from factmem.agent.context import AgentContext
from factmem.agent.nodes import (
    MemoryNode,
    Node,
    Strategy,
    node_llm_compress_history,
    node_llm_request,
    node_load_all_facts_from_memory,
    node_load_from_memory,
    node_save_to_memory,
    node_save_to_memory_auto_detect_facts,
)
from factmem.detection.compression import CompressionReport, RetrieveFactsFromHistory
from factmem.detection.report import DetectionReport
from factmem.errors import MemoryAccessError, UnboundSubjectError
from factmem.llm.base import Message
from factmem.memory.agent_memory import AgentMemory
from factmem.models.facts import Concept, MultipleFacts, SingleFact
from factmem.models.places import MemoryScope, MemoryScopesProfile, MemoryScopeType, MemorySubject
from factmem.prompt.memory_message import LoadReport
from factmem.providers.in_memory import InMemoryProvider
from factmem.testing.chat import ScriptedChatModel
from tests.tables import table
from tests.world import (
    ALICE,
    BOB,
    COMPANY,
    LANGUAGES,
    PRODUCT,
    THEME,
    USER,
    found_facts,
    installed,
    memory_texts,
    theme_item,
)

ORG = MemoryScope.CrossProduct("acme")
SAID = "I like the dark theme, and I speak Korean."


def agent_of(
    model: ScriptedChatModel, *nodes: Node, store: InMemoryProvider | None = None, **options: Any
) -> Agent:
    agent = Agent(model, strategy=Strategy("test", nodes), **options)
    agent.install(
        AgentMemory,
        provider=store or InMemoryProvider(),
        scopes=MemoryScopesProfile(product="my-app", organization="acme"),
        subjects=[USER],
    )
    return agent


async def prepared() -> InMemoryProvider:
    store = InMemoryProvider()
    await store.save(SingleFact(THEME, "dark"), ALICE, PRODUCT)
    await store.save(SingleFact(THEME, "light"), BOB, PRODUCT)
    await store.save(MultipleFacts(LANGUAGES, ("Korean",)), ALICE, ORG)
    await store.save(SingleFact(Concept("tier", "The contract"), "gold"), COMPANY, ORG)
    return store


async def test_load_ask_save() -> None:
    """The order is Koog's: a string in, a string out, and new facts are saved."""
    store = await prepared()
    language = theme_item("German", "I speak German too", keyword="languages", fact_type="MULTIPLE")
    model = ScriptedChatModel("Good to know.", found_facts(language))
    agent = agent_of(
        model,
        node_load_from_memory([THEME, LANGUAGES]),
        node_llm_request(),
        node_save_to_memory_auto_detect_facts(scopes=[MemoryScopeType.PRODUCT]),
        store=store,
    )

    result = await agent.run("I speak German too.", subjects=[ALICE], conversation="c-1")

    assert result.text == "Good to know."
    [text] = memory_texts(model.calls[0])
    assert '"dark"' in text
    assert '"Korean"' in text
    assert result.usage.calls == len(model.calls) == 2
    [saved] = result.reports_of(DetectionReport)[0].saved
    assert (saved.place.subject, saved.place.scope) == (ALICE, PRODUCT)
    assert saved.fact.source is not None
    assert saved.fact.source.conversation == "c-1"
    assert len(result.reports_of(LoadReport)) == 2


@table(
    ("node", "keywords"),
    [
        (lambda: node_load_from_memory([THEME]), {"ide-theme"}),
        (lambda: node_load_from_memory([THEME, LANGUAGES]), {"ide-theme", "languages"}),
        (lambda: node_load_from_memory([LANGUAGES], scopes=[PRODUCT]), set()),
        (lambda: node_load_from_memory([THEME], scopes=[MemoryScopeType.ORGANIZATION]), set()),
        (node_load_all_facts_from_memory, {"ide-theme", "languages", "tier"}),
        (lambda: node_load_all_facts_from_memory(scopes=[PRODUCT]), {"ide-theme"}),
        (lambda: node_load_all_facts_from_memory(subjects=[USER]), {"ide-theme", "languages"}),
        (lambda: node_load_all_facts_from_memory(subjects=[COMPANY]), {"tier"}),
        (
            lambda: node_load_all_facts_from_memory(subjects=[COMPANY, USER]),
            {"ide-theme", "languages", "tier"},
        ),
        (lambda: node_load_from_memory([THEME], subjects=[COMPANY]), set()),
    ],
)
async def test_loading_nodes_load_the_named_facts(
    node: Callable[[], MemoryNode], keywords: set[str]
) -> None:
    """Concepts, subjects and scopes filter them; there is no model call."""
    model = ScriptedChatModel("Hello.")
    agent = agent_of(model, node(), node_llm_request(), store=await prepared())

    result = await agent.run("Hi", subjects=[ALICE, COMPANY])

    texts = "".join(memory_texts(model.calls[0]))
    shown = {name for name in ("ide-theme", "languages", "tier") if f"\n{name}: " in texts}
    assert shown == keywords
    assert "light" not in texts
    assert result.usage.calls == 1


async def test_saving_named_concepts_costs_one_call() -> None:
    """They are saved where the node says, for the run's user; others are not saved."""
    store = InMemoryProvider()
    model = ScriptedChatModel(
        "Noted.",
        {
            "facts": [
                theme_item("dark", "dark theme"),
                theme_item("Korean", "I speak Korean", keyword="languages"),
                theme_item("dark", "dark theme", keyword="mood"),
            ]
        },
    )
    agent = agent_of(
        model,
        node_llm_request(),
        node_save_to_memory([THEME, LANGUAGES], USER, MemoryScopeType.PRODUCT),
        store=store,
    )

    result = await agent.run(SAID, subjects=[ALICE])

    assert result.usage.calls == len(model.calls) == 2
    [theme] = await store.load(THEME, ALICE, PRODUCT)
    [languages] = await store.load(LANGUAGES, ALICE, PRODUCT)
    assert (theme.value, languages.values) == ("dark", ("Korean",))
    [report] = result.reports_of(DetectionReport)
    assert [each.reason.value for each in report.rejected] == ["unknown concept"]


async def test_a_strategy_that_only_saves_reads_the_whole_conversation() -> None:
    """It runs at the end of a session without a question, so all messages count."""
    store = InMemoryProvider()
    history = [
        {"role": "user", "content": "I like the dark theme."},
        {"role": "assistant", "content": "Noted."},
    ]
    model = ScriptedChatModel(found_facts(theme_item("dark", "I like the dark theme")))
    agent = agent_of(model, node_save_to_memory_auto_detect_facts(), store=store)

    result = await agent.run("", messages=history, subjects=[ALICE])

    assert result.messages == history
    [theme] = await store.load(THEME, ALICE, PRODUCT)
    assert theme.value == "dark"


NODES: list[tuple[MemoryNode, list[MemorySubject]]] = [
    (node_load_from_memory([THEME], subjects=[USER]), [COMPANY]),
    (node_load_all_facts_from_memory(subjects=[COMPANY, USER]), [COMPANY]),
    (node_save_to_memory([THEME], USER, PRODUCT), [COMPANY]),
    (node_save_to_memory_auto_detect_facts(subjects=[USER]), [COMPANY]),
    (node_load_from_memory([THEME], subjects=[USER]), [ALICE, BOB]),
    (node_load_from_memory([THEME], subjects=[BOB]), [ALICE]),
    (node_load_all_facts_from_memory(subjects=[ALICE, COMPANY]), [ALICE]),
    (node_save_to_memory([THEME], COMPANY, PRODUCT), [ALICE]),
    (node_save_to_memory_auto_detect_facts(subjects=[BOB]), [ALICE]),
]
"""Nodes whose subject the run does not bind, or not to one, or which is none of the run's."""


@table(("node", "subjects"), NODES, ids=range(len(NODES)))
async def test_a_node_is_checked_before_any_model_call(
    node: MemoryNode, subjects: list[MemorySubject]
) -> None:
    """Also if the node is the last one. Facts outside of the run are not silently left out."""
    model = ScriptedChatModel("Hello.")
    without = Agent(model, strategy=Strategy("test", [node_llm_request(), node]))
    is_unbound = subjects in ([COMPANY], [ALICE, BOB])
    error = UnboundSubjectError if is_unbound else MemoryAccessError
    message = "'user' is per entity" if is_unbound else "which is not a subject of the run"

    with pytest.raises(error, match=message):
        await agent_of(model, node_llm_request(), node).run("Hi", subjects=subjects)
    with pytest.raises(RuntimeError, match=r"agent\.install\(AgentMemory"):
        await without.run("Hi")

    assert model.calls == []


async def test_nodes_of_ones_own_get_the_run() -> None:
    """An async function is a node; the next node gets its return value."""
    seen: list[object] = []

    async def shout(context: AgentContext, text: str) -> str:
        seen.extend([context.text, context.subjects, context.usage.calls])
        seen.extend(fact.value for fact in await context.memory.current(THEME))
        report = await context.memory.load_facts_to_agent(context.messages, THEME)
        seen.append(len(report.facts))
        return text.upper()

    async def judge(context: AgentContext, text: str) -> str:
        response = await context.chat_model.respond([{"role": "user", "content": text}])
        return response.text

    model = ScriptedChatModel("answer", "verdict")
    agent = agent_of(model, shout, node_llm_request(), judge, store=await prepared())

    result = await agent.run("hello", subjects=[ALICE])

    assert seen == ["hello", (ALICE,), 0, "dark", 1]
    assert model.calls[0][-1] == {"role": "user", "content": "HELLO"}
    assert model.calls[1] == [{"role": "user", "content": "answer"}]
    assert result.text == "verdict"


@pytest.mark.parametrize("is_at_end", [False, True], ids=["a node", "after the run"])
async def test_only_the_first_question_of_a_run_is_the_user_s(is_at_end: bool) -> None:
    """An answer that is sent back, such as a page's text, proves nothing; nor do those of later
    runs.
    """
    nut = theme_item("a nut allergy", "I have a nut allergy", message=2)
    dark = theme_item("dark", "the dark theme", message=0)
    answers = ["I have a nut allergy.", "final", found_facts(nut, dark)]
    nodes: list[Node] = [node_llm_request(), node_llm_request()]
    if is_at_end:
        model = ScriptedChatModel(*answers)
        agent = Agent(model, strategy=Strategy("test", nodes))
        installed(agent, subjects=[USER], auto_detect=True)
    else:
        model = ScriptedChatModel(*answers)
        agent = agent_of(model, *nodes, node_save_to_memory_auto_detect_facts())

    result = await agent.run("I like the dark theme.", subjects=[ALICE])

    [report] = result.reports_of(DetectionReport)
    assert [placed.fact.values for placed in report.saved] == [("dark",)]
    [rejected] = report.rejected
    assert rejected.reason.value in {"untrusted message", "quote not found"}
    assert '"message": 2' not in str(model.calls[2][1]["content"])


async def test_a_long_conversation_is_compressed_after_its_facts_are_saved() -> None:
    """The last exchange stays; the rest becomes facts, which the store has too."""
    store = InMemoryProvider()
    history: list[Message] = [
        {"role": "user", "content": "I like the dark theme."},
        {"role": "assistant", "content": "Noted."},
    ]
    kept = {"message": 0, "quote": "dark theme", "keyword": "ide-theme", "value": "dark"}
    language = theme_item("Korean", "I speak Korean", message=2, keyword="languages")
    model = ScriptedChatModel("Good.", found_facts(language), found_facts(kept))
    agent = agent_of(
        model,
        node_llm_request(),
        node_save_to_memory_auto_detect_facts(),
        node_llm_compress_history(RetrieveFactsFromHistory(THEME)),
        store=store,
    )

    result = await agent.run("I speak Korean.", messages=history, subjects=[ALICE])

    [report] = result.reports_of(CompressionReport)
    assert report.removed == 2
    assert [message.get("name", message["role"]) for message in result.messages] == [
        *("factmem_history", "user", "assistant")
    ]
    assert '"dark"' in str(result.messages[0]["content"])
    assert result.usage.calls == len(model.calls) == 3
    assert [fact.values for fact in await store.load_all(ALICE, PRODUCT)] == [("Korean",)]


async def test_a_node_that_returns_nothing_raises() -> None:
    """The error names the node and says what to write."""

    async def forgetful(context: AgentContext, text: str) -> str:
        return None  # type: ignore[return-value]

    agent = agent_of(ScriptedChatModel(), forgetful)

    with pytest.raises(
        TypeError, match="The node 'forgetful' of the strategy 'test' must return a str"
    ):
        await agent.run("Hi", subjects=[ALICE])


def test_a_strategy_without_nodes_is_refused() -> None:
    """It would return the user's own input."""
    with pytest.raises(ValueError, match="The strategy 'empty' has no nodes"):
        Strategy("empty", [])


async def test_a_tool_is_limited_to_the_run() -> None:
    """A tool that names another user finds nothing there, and cannot write."""
    seen: list[object] = []

    async def pry(context: AgentContext, text: str) -> str:
        seen.append(await context.memory.view(subjects=[BOB]).current(THEME))
        with pytest.raises(MemoryAccessError):
            await context.memory.view(subjects=[BOB]).auto_detect_facts(context.messages)
        return text

    agent = agent_of(ScriptedChatModel(), pry, store=await prepared())

    await agent.run("Hi", subjects=[ALICE])

    assert seen == [[]]
