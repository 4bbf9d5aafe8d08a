"""Wrong arguments of agents, nodes, contexts and tools raise in the call, not in the first run."""

from factmem.agent.agent import Agent
from factmem.agent.context import AgentContext
from factmem.agent.nodes import (
    Strategy,
    node_llm_compress_history,
    node_llm_request,
    node_load_all_facts_from_memory,
    node_load_from_memory,
    node_recall_from_memory,
    node_save_to_memory,
)
from factmem.agent.tools import Tool
from factmem.memory.agent_memory import AgentMemory
from factmem.models.places import MemoryScopesProfile, MemorySubject
from factmem.providers.in_memory import InMemoryProvider
from factmem.testing._facts import AGENT, THEME
from factmem.testing.chat import ScriptedChatModel
from tests.wrong_calls import SECRET, Wrong, each_is_refused

USER = MemorySubject("user", "The user", 1, per_entity=True)
ALICE = USER.of("alice")
MODEL = ScriptedChatModel()


class Silent:
    """A feature that does nothing."""

    async def before_model(self, context: object) -> None: ...

    async def after_answer(self, context: object) -> None: ...


def look_up(word: str) -> str:
    """Look a word up."""
    return word


def memory() -> AgentMemory:
    return AgentMemory(InMemoryProvider(), scopes=MemoryScopesProfile(agent="desk"))


WRONG: list[Wrong] = [
    (Agent, SECRET, TypeError, r"str has no respond: Agent\(OpenAIChatModel\(name\)\)"),
    (Agent, ScriptedChatModel, TypeError, "the class ScriptedChatModel has no respond"),
    (lambda it: Agent(MODEL, max_steps=it), "3", TypeError, "not str: max_steps=20"),
    (lambda it: Agent(MODEL, max_steps=it), 0, ValueError, "at least 1"),
    (
        lambda it: Agent(MODEL, tools=it), print, TypeError,
        r"not builtin_function_or_method: tools=\[look_up\]",
    ),
    (lambda it: Agent(MODEL, tools=it), [5], TypeError, r"not int: tools=\[look_up\]"),
    (
        lambda it: Agent(MODEL, system_prompt=it), None, TypeError,
        "system_prompt must be a str, not NoneType",
    ),
    (
        lambda it: Agent(MODEL).install(it), memory(), TypeError,
        r"not an instance of AgentMemory: agent\.install\(AgentMemory, provider=",
    ),
    (
        lambda it: Agent(MODEL).install(it), SECRET, TypeError,
        r"instance of str: agent\.install\(AgentMemory, provider=store",
    ),
    (
        lambda it: Agent(MODEL).install(it), InMemoryProvider, TypeError,
        "InMemoryProvider has no before_model and after_answer",
    ),
    (lambda it: Strategy("x", it), node_llm_request(), TypeError, r"not function: Strategy\("),
    (lambda it: Strategy(it, [node_llm_request()]), None, TypeError, "name must be a str"),
    (node_load_from_memory, THEME, TypeError, r"not Concept: .*concepts=\[concept\]"),
    (
        lambda it: node_load_all_facts_from_memory(subjects=it), USER, TypeError,
        "subjects must be a list",
    ),
    (
        lambda it: node_load_all_facts_from_memory(scopes=it), AGENT, TypeError,
        "scopes must be a list",
    ),
    (lambda it: node_save_to_memory(it, USER, AGENT), THEME, TypeError, r"concepts=\[concept\]"),
    (
        lambda it: node_save_to_memory([THEME], it, AGENT), None, TypeError,
        "subjects must be a list",
    ),
    (
        lambda it: node_save_to_memory([THEME], USER, it), None, TypeError,
        "scope must be a MemoryScope",
    ),
    (
        node_llm_compress_history, THEME, TypeError,
        r"Concept has no compress: node_llm_compress_history\(",
    ),
    (lambda it: AgentContext("x", it, chat_model=MODEL), 5, TypeError, "not int: "),
    (
        lambda it: AgentContext("x", chat_model=MODEL, tools=it), [Tool(look_up)], TypeError,
        "annot convert dictionary",
    ),
    (
        lambda it: AgentContext("x", chat_model=MODEL, subjects=it), ALICE, TypeError,
        r"subjects=\[USER\.of",
    ),
    (Tool, SECRET, TypeError, r"not str: tools="),
    (lambda it: Agent(MODEL).run(it), 5, TypeError, "text must be a str, not int"),
    (
        lambda it: Agent(MODEL).run("x", messages=it), SECRET, TypeError,
        "messages must be a list of dicts, not str",
    ),
    (
        lambda it: Agent(MODEL).run("x", messages=it), [SECRET], TypeError,
        "messages must contain dicts, not str",
    ),
    (lambda it: Agent(MODEL).run("x", subjects=it), [], ValueError, "subjects is empty"),
    (lambda it: Agent(MODEL).run("x", subjects=it), [ALICE, USER], ValueError, "is per entity"),
    (lambda it: Agent(MODEL).run("x", conversation=it), 5, TypeError, "must be a str, not int"),
    (lambda it: Agent(MODEL).run("x", subjects=it), ALICE, TypeError, r"subjects=\[USER\.of"),
    (lambda it: Agent(MODEL).run("x", scopes=it), AGENT, TypeError, "scopes must be a list, not"),
    (lambda it: Agent(MODEL).run("x", scopes=it), [], ValueError, "scopes is empty"),
    (node_recall_from_memory, 0, ValueError, "an int of at least 1"),
]  # fmt: skip


test_wrong_arguments = each_is_refused(WRONG)


def test_features_are_known_by_what_they_can_do() -> None:
    """And inherit from nothing."""
    assert isinstance(Agent(ScriptedChatModel()).install(Silent), Silent)
