"""Common mistakes: errors at the call that name the type of the argument, not its value.

What a memory, a store, an embedder and an agent are made of has tests of its own.
"""

from collections.abc import Awaitable, Callable
from inspect import isawaitable
from io import BytesIO, StringIO
from typing import Any

import pytest

from factmem.agent.agent import Agent
from factmem.agent.context import AgentContext
from factmem.agent.nodes import (
    MemoryNode,
    Strategy,
    node_llm_compress_history,
    node_llm_request,
    node_load_all_facts_from_memory,
    node_load_from_memory,
    node_recall_from_memory,
    node_save_to_memory,
)
from factmem.agent.tools import Tool
from factmem.detection.compression import RetrieveFactsFromHistory
from factmem.errors import MemoryAccessError
from factmem.events import (
    MemoryEvent,
    MemoryOperation,
    correlated,
)
from factmem.llm.openai import OpenAIChatModel
from factmem.memory.agent_memory import AgentMemory
from factmem.models.facts import (
    Concept,
    FactType,
    MultipleFacts,
    SingleFact,
)
from factmem.models.places import (
    MemoryScope,
    MemorySubject,
    Place,
)
from factmem.models.scopes import MemoryScopesProfile
from factmem.models.sources import FactSource
from factmem.prompt.tokens import tiktoken_counter
from factmem.prompt.transcript import Transcript
from factmem.providers.in_memory import InMemoryProvider
from factmem.recall.query import RecallSettings
from factmem.storage.encryption.key import Key
from factmem.testing.chat import ScriptedChatModel
from factmem.testing.facts import (
    AGENT,
    THEME,
    theme,
)
from factmem.transfer.bundle import export_facts, import_facts
from factmem.transfer.koog import import_koog
from tests.tables import table

SECRET = "sk-secret"
USER = MemorySubject("user", "The user", 1, per_entity=True)
ALICE, BOB = USER.of("alice"), USER.of("bob")
MANY = Concept("pet", "The user's pets", FactType.MULTIPLE)
CHAT = [{"role": "user", "content": "I like it dark."}]


def look_up(word: str) -> str:
    """Look a word up."""
    return word


def memory() -> AgentMemory:
    return AgentMemory(
        InMemoryProvider(),
        chat_model=ScriptedChatModel(),
        scopes=MemoryScopesProfile(agent="desk"),
        subjects=[ALICE],
    )


Call = Callable[[Any], object]
CONCEPT = r'Concept\("theme", "The IDE theme"\)'
HISTORY = "messages must be a list"
WRONG: list[tuple[str, Call, object, str]] = [
    ("a fact", lambda it: SingleFact(it, "dark"), SECRET, rf"not str: SingleFact\({CONCEPT}"),
    ("a fact", lambda it: SingleFact(it, "dark"), Concept, "not the class Concept"),
    ("a fact", lambda it: SingleFact(it, "dark"), theme("dark"), "not SingleFact: SingleFact"),
    (
        "facts",
        lambda it: MultipleFacts(it, ["x"]),
        None,
        rf"not NoneType: MultipleFacts\({CONCEPT}",
    ),
    ("values", lambda it: MultipleFacts(MANY, it), SECRET, "must be a list, not"),
    ("values", lambda it: MultipleFacts(MANY, it), b"x", "must be a list, not"),
    ("values", lambda it: MultipleFacts(MANY, it), 5, "must be a list, not int"),
    ("a concept", lambda it: Concept("age", "Years", it), int, "class int. .*value_type=int"),
    ("a source", FactSource, None, r"one of SourceKind\.USER, .*, not NoneType"),
    ("a scope", lambda it: MemoryScope(it, "x"), 5, r"one of MemoryScopeType\.AGENT, .*, not int"),
    ("a scope", MemoryScope.parse, AGENT, r'not MemoryScope: MemoryScope\.parse\("product/my-app"'),
    ("a place", Place.of_identity, SECRET, r"must be a tuple of four, not str"),
    ("a place", Place.of_identity, None, r"must be a tuple of four, not NoneType"),
    ("a key", Key.from_file, None, r"not NoneType: Key\.from_file\("),
    ("a key", Key.from_env, None, r"not NoneType: Key\.from_env\("),
    ("nodes", lambda it: Strategy("x", it), node_llm_request(), r"not function: Strategy\("),
    ("nodes", lambda it: Strategy("x", it), [node_llm_request], r"node_llm_request\(\.\.\.\) in"),
    ("nodes", lambda it: Strategy("x", it), [SECRET], r"not str: Strategy\("),
    ("a strategy", lambda it: Strategy(it, [node_llm_request()]), None, "name must be a str"),
    ("a node", node_load_from_memory, THEME, r"not Concept: .*concepts=\[concept\]"),
    ("a node", node_load_from_memory, [SECRET], "list of Concept, not of str"),
    (
        "a node",
        lambda it: node_load_all_facts_from_memory(subjects=it),
        USER,
        "subjects must be a list",
    ),
    (
        "a node",
        lambda it: node_load_all_facts_from_memory(scopes=it),
        AGENT,
        "scopes must be a list",
    ),
    ("a node", lambda it: node_save_to_memory(it, USER, AGENT), THEME, r"concepts=\[concept\]"),
    ("a node", lambda it: node_save_to_memory([THEME], it, AGENT), None, "subjects must be a list"),
    (
        "a node",
        lambda it: node_save_to_memory([THEME], USER, it),
        None,
        "scope must be a MemoryScope",
    ),
    (
        "a node",
        node_llm_compress_history,
        THEME,
        r"Concept has no compress: node_llm_compress_history\(",
    ),
    ("a node", lambda it: MemoryNode(it, None), SECRET, r"not str: MemoryNode\(work, None\)"),
    ("a history", RetrieveFactsFromHistory, [THEME], "a Concept, not list"),
    (
        "a history",
        lambda it: RetrieveFactsFromHistory(THEME, max_tokens=it),
        SECRET,
        "not str: max_",
    ),
    ("a history", lambda it: RetrieveFactsFromHistory(THEME, clock=it), 5, "not int: clock="),
    (
        "a chat",
        lambda it: RetrieveFactsFromHistory(THEME).compress(it, ScriptedChatModel()),
        (),
        rf"{HISTORY}, because they are changed in place, not tuple",
    ),
    (
        "a chat",
        lambda it: RetrieveFactsFromHistory(THEME).compress([], it),
        SECRET,
        r"str has no extract: OpenAIChatModel\(name\)",
    ),
    ("a model", OpenAIChatModel, None, r"not NoneType: OpenAIChatModel\('gpt-4o-mini'\)"),
    ("a time-out", lambda it: OpenAIChatModel("m", timeout=it), "5", "not str: timeout=60"),
    ("fields", lambda it: OpenAIChatModel("m", extra_body=it), SECRET, "not str: extra_body={"),
    ("a client", lambda it: OpenAIChatModel("m", client=it), SECRET, r"not str: .*AsyncOpenAI\("),
    ("an API key", lambda it: OpenAIChatModel("m", api_key=it), 5, "a string, not int"),
    ("a model", lambda it: OpenAIChatModel("m").respond(it), SECRET, r"not str: \[{"),
    (
        "a model",
        lambda it: OpenAIChatModel("m").respond([it]),
        SECRET,
        "messages must contain dicts",
    ),
    (
        "a model",
        lambda it: OpenAIChatModel("m").extract(it, str),
        None,
        f"{HISTORY} of dicts",
    ),
    ("tools", lambda it: OpenAIChatModel("m").respond(CHAT, tools=it), look_up, "tool.definition"),
    (
        "tools",
        lambda it: OpenAIChatModel("m").respond(CHAT, tools=it),
        [look_up],
        "not of function",
    ),
    ("a run", lambda it: AgentContext("x", it, chat_model=ScriptedChatModel()), 5, "not int: "),
    (
        "tools of a run",
        lambda it: AgentContext("x", chat_model=ScriptedChatModel(), tools=it),
        [Tool(look_up)],
        "cannot convert dictionary",
    ),
    (
        "subjects of a run",
        lambda it: AgentContext("x", chat_model=ScriptedChatModel(), subjects=it),
        ALICE,
        r"subjects=\[USER\.of",
    ),
    ("a view", lambda it: memory().boundary.narrowed(places=it), [ALICE], "not of MemorySubject"),
    ("a tool", Tool, SECRET, r"not str: Tool\(look_up\)"),
    ("a tool", Tool, dict, "not the class dict"),
    ("a tool", lambda it: Tool(look_up, name=it), 5, "not int: name='look_up'"),
    ("a tool", lambda it: Tool(look_up, reported_errors=it), LookupError, r"=\[LookupError\]"),
    ("a tool", lambda it: Tool(look_up, reported_errors=it), [SECRET], "not of str: .*LookupError"),
    ("a chat", Transcript, SECRET, r"memory\.remember\(text\)"),
    ("a chat", Transcript, CHAT[0], "messages must be a list of dicts, not dict"),
    ("a chat", lambda it: Transcript(CHAT, since=it), "1", "not str: since=0"),
    ("a chat", lambda it: Transcript(CHAT, trust=it), "tool", r"trust=\[SourceKind\.ASSISTANT\]"),
    ("settings", lambda it: RecallSettings(auto_tokens=it), True, "at least 0, not bool"),
    (
        "a memory",
        lambda it: memory().load_all_facts_to_agent(it),
        (),
        f"{HISTORY}, because they are changed",
    ),
    ("a memory", lambda it: memory().load_all_facts_to_agent(it), SECRET, r"memory\.remember\("),
    ("a memory", lambda it: memory().load_facts_to_agent(it, THEME), None, "not NoneType: .*role"),
    ("a memory", lambda it: memory().load_facts_to_agent([], it), "t", r"not str: Concept\(keyw"),
    (
        "a memory",
        lambda it: memory().recall_facts_to_agent(it),
        (),
        f"{HISTORY}, because they are changed",
    ),
    ("a question", lambda it: memory().recall_facts_to_agent([], it), 5, "question must be a str"),
    ("a question", lambda it: memory().recall(it), None, "question must be a str, not NoneType"),
    (
        "concepts",
        lambda it: memory().recall("x", concepts=it),
        [5],
        r"not of int: concepts=\['city'",
    ),
    ("a memory", lambda it: memory().auto_detect_facts(it), SECRET, r"memory\.remember\(text\)"),
    (
        "a memory",
        lambda it: memory().auto_detect_facts(it),
        [SECRET],
        "messages must contain dicts",
    ),
    (
        "a memory",
        lambda it: memory().save_facts_from_history(CHAT, it, ALICE, AGENT),
        SECRET,
        r"not str: Concept\(keyword",
    ),
    (
        "a memory",
        lambda it: memory().save_facts_from_history(
            it, THEME, ALICE, AGENT, preserve_questions=True
        ),
        ({"role": "user", "content": "x"},),
        f"{HISTORY}, because they are changed",
    ),
    (
        "a bundle",
        lambda it: export_facts(InMemoryProvider(), it),
        None,
        "NoneType has no write",
    ),
    ("a bundle", lambda it: export_facts(InMemoryProvider(), it), StringIO(), "in binary mode"),
    ("a bundle", lambda it: import_facts(it, InMemoryProvider()), 5, "int has no readline"),
    (
        "places",
        lambda it: export_facts(InMemoryProvider(), BytesIO(), places=it),
        [ALICE],
        r"places=\[Place\(",
    ),
    (
        "places",
        lambda it: import_facts(BytesIO(), InMemoryProvider(), places=it),
        Place(AGENT, ALICE),
        r"places=\[Place\(",
    ),
    (
        "a clock",
        lambda it: export_facts(InMemoryProvider(), BytesIO(), clock=it),
        5,
        "not int: clock=",
    ),
    (
        "Koog's folder",
        lambda it: import_koog(it, InMemoryProvider()),
        None,
        "not NoneType: import_",
    ),
    ("a place", lambda it: InMemoryProvider().places(subjects=it), ALICE, r"subjects=\[USER\.of"),
    ("a place", lambda it: InMemoryProvider().places(scopes=it), [ALICE], "not of MemorySubject"),
    ("entries", lambda it: InMemoryProvider().replay(it, ALICE, AGENT), 5, "must be a list, not"),
    ("a change", lambda it: InMemoryProvider().amend(it, ALICE, AGENT), [], "must be a function"),
    (
        "a change of what is current",
        lambda it: InMemoryProvider().amend_current(it, ALICE, AGENT),
        [],
        "must be a function",
    ),
    (
        "facts",
        lambda it: InMemoryProvider().save_many(it, ALICE, AGENT),
        None,
        "facts must be a list",
    ),
    ("a run", lambda it: Agent(ScriptedChatModel()).run(it), 5, "text must be a str, not int"),
    ("a run", lambda it: Agent(ScriptedChatModel()).run("x", messages=it), 5, "not int: .*role"),
    (
        "a run",
        lambda it: Agent(ScriptedChatModel()).run("x", conversation=it),
        5,
        "must be a str, not int",
    ),
]


@table(
    ("call", "given", "told"),
    [wrong[1:] for wrong in WRONG],
    ids=[f"{wrong[0]} {number}" for number, wrong in enumerate(WRONG)],
)
async def test_the_wrong_kind_of_argument(call: Call, given: object, told: str) -> None:
    """The error names its type and shows a correct call."""
    with pytest.raises(TypeError, match=told) as caught:
        await _done(call(given))

    assert SECRET not in str(caught.value)


OUT_OF_RANGE: list[tuple[Call, object, str]] = [
    (lambda it: Concept("k", "d", it), SECRET, r"one of FactType\.SINGLE, FactType\.MULTIPLE"),
    (FactSource, SECRET, r"one of SourceKind\.USER"),
    (lambda it: MemoryScope(it, "x"), SECRET, r"one of MemoryScopeType\.AGENT"),
    (lambda it: SingleFact(it, "x"), MANY, "'pet' has many values: use MultipleFacts"),
    (lambda it: MultipleFacts(it, ["x"]), THEME, "has one value: use SingleFact"),
    (lambda it: RecallSettings(auto_tokens=it), -5, "a number of at least 0"),
    (lambda it: RecallSettings(auto_tokens=it), float("nan"), "a number of at least 0"),
    (node_recall_from_memory, 0, "an int of at least 1"),
    (lambda it: Transcript(CHAT, trust=[it]), SECRET, r"one of SourceKind\.USER"),
]


@table(
    ("call", "given", "told"), OUT_OF_RANGE, ids=[str(each) for each in range(len(OUT_OF_RANGE))]
)
def test_what_is_out_of_range(call: Call, given: object, told: str) -> None:
    with pytest.raises(ValueError, match=told) as caught:
        call(given)

    assert SECRET not in str(caught.value)


def test_a_model_is_no_encoding() -> None:
    """The encodings are named."""
    pytest.importorskip("tiktoken")

    with pytest.raises(ValueError, match=r"use one of .*o200k_base"):
        tiktoken_counter("gpt-4o")


@pytest.mark.parametrize(("given", "error"), [(5, TypeError), (None, TypeError), ("", ValueError)])
def test_a_correlation_id_is_a_text(given: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="orrelation_id must"), correlated(given):
        raise AssertionError("the block has begun")


def test_the_client_of_another_world_is_refused() -> None:
    """A blocking client cannot be awaited, which would show only after a paid request."""
    openai = pytest.importorskip("openai")

    with openai.OpenAI(api_key=SECRET) as client, pytest.raises(TypeError, match="not OpenAI: "):
        OpenAIChatModel("m", client=client)


async def test_a_bundle_with_a_place_outside_a_view_leaves_nothing_in_it() -> None:
    """The places are listed first, and the refusal is one failed event."""
    store, told = InMemoryProvider(), list[MemoryEvent]()
    await store.save(theme("dark"), ALICE, AGENT)
    await store.save(theme("light"), BOB, AGENT)
    bundle = BytesIO()
    await export_facts(store, bundle)
    other = InMemoryProvider()
    whole = AgentMemory(
        other, scopes=MemoryScopesProfile(agent=AGENT.name), listeners=[told.append]
    )
    alice = whole.view(subjects=[ALICE])

    bundle.seek(0)
    with pytest.raises(MemoryAccessError, match="outside this view"):
        await import_facts(bundle, alice.store)

    assert await other.places() == []
    assert [(event.operation, event.error_type) for event in told] == [
        (MemoryOperation.SAVE, "MemoryAccessError")
    ]
    bundle.seek(0)
    report = await import_facts(bundle, alice.store, places=[Place(AGENT, ALICE)])
    assert report.new == 1
    assert [fact.value for fact in await other.load(THEME, ALICE, AGENT)] == ["dark"]


async def _done(outcome: object) -> None:
    if isawaitable(outcome):
        awaited: Awaitable[object] = outcome
        await awaited
