"""Strategies and their nodes: the steps of a run."""

import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from factmem._arguments import expect_all, expect_function, expect_methods, expect_within
from factmem.agent.context import AgentContext
from factmem.agent.tools import run_tool_loop
from factmem.detection.compression import RetrieveFactsFromHistory
from factmem.detection.report import Detection
from factmem.errors import MemoryAccessError
from factmem.llm.base import last_said
from factmem.memory.agent_memory import AgentMemory
from factmem.models._values import checked_text
from factmem.models.facts import Concept, checked_concepts
from factmem.models.places import MemorySubject, ScopeChoice, checked_choices, checked_subjects

__all__ = [
    "Strategy", "node_llm_compress_history", "node_llm_request", "node_load_all_facts_from_memory",
    "node_load_from_memory", "node_recall_from_memory", "node_save_to_memory",
    "node_save_to_memory_auto_detect_facts",
]  # fmt: skip

_log = logging.getLogger("factmem.agent")

Node: TypeAlias = Callable[[AgentContext, str], Awaitable[str]]
"""A step of a run: a function of the run and the string of the previous step; returns a string."""

MemoryWork: TypeAlias = Callable[[AgentContext, AgentMemory], Awaitable[None]]
"""The work of a node with the memory of a run."""

_NODES = 'Strategy("answer", [node_llm_request()])'


@dataclass(frozen=True, slots=True)
class Strategy:
    """A sequence of nodes: the first gets the user's message, the last returns the answer.

    A strategy stores no state of a run; any number of runs can share it.

    Raises:
        TypeError: `nodes` is not a list of functions.
        ValueError: `nodes` is empty.
    """

    name: str
    nodes: tuple[Node, ...]

    def __init__(self, name: str, nodes: Iterable[Node]) -> None:
        object.__setattr__(self, "name", checked_text(name, "strategy's name"))
        object.__setattr__(self, "nodes", expect_all(nodes, object, "nodes", _NODES))
        for node in self.nodes:
            expect_function(node, "Each of nodes", _NODES)
        if not self.nodes:
            raise ValueError(
                f"The strategy {name!r} has no nodes: pass at least [node_llm_request()]"
            )

    async def run(self, context: AgentContext, text: str) -> str:
        """Run the nodes in order and return the string of the last one.

        Every `MemoryNode` is checked first: a run that must fail then calls no model.

        Raises:
            TypeError: A node returned something other than a string.
        """
        for node in self.nodes:
            if isinstance(node, MemoryNode):
                node.check(context)
        for node in self.nodes:
            text = self._checked(await node(context, text), node)
        return text

    def _checked(self, returned: object, node: Node) -> str:
        if isinstance(returned, str):
            return returned
        name = getattr(node, "__name__", type(node).__name__)
        raise TypeError(
            f"The node {name!r} of the strategy {self.name!r} must return a str: end it with "
            f"`return text`"
        )


class MemoryNode:
    """A node that uses the memory and returns its input unchanged."""

    def __init__(
        self,
        work: MemoryWork,
        subjects: Iterable[MemorySubject] | None,
        scopes: Iterable[ScopeChoice] | None,
    ) -> None:
        self._work = work
        self._subjects = None if subjects is None else checked_subjects(subjects)
        self._scopes = None if scopes is None else checked_choices(scopes)

    async def __call__(self, context: AgentContext, text: str) -> str:
        memory = context.memory.view(subjects=self._bound(context), scopes=self._scopes)
        await self._work(context, memory)
        return text

    def _bound(self, context: AgentContext) -> list[MemorySubject] | None:
        if self._subjects is None:
            return None
        return [context.bound(subject) for subject in self._subjects]

    def check(self, context: AgentContext) -> None:
        """Check what the node needs before the first node of a run starts.

        Raises:
            RuntimeError: The agent has no memory.
            UnboundSubjectError: A per-entity subject is bound neither here nor by the run.
            MemoryAccessError: A subject is not among those of the run.
        """
        _ = context.memory
        concerned = {(subject.name, subject.entity) for subject in context.subjects}
        for subject in self._bound(context) or ():
            if (subject.name, subject.entity) not in concerned:
                raise MemoryAccessError(
                    f"A node uses the subject {subject.name!r}, which is not a subject of the run: "
                    f"add it to agent.run(..., subjects=[...]) or to the installation"
                )


def node_load_from_memory(
    concepts: Iterable[Concept[Any, Any]],
    *,
    subjects: Iterable[MemorySubject] | None = None,
    scopes: Iterable[ScopeChoice] | None = None,
) -> MemoryNode:
    """Return a node that puts the facts of concepts into the prompt. No call to a model.

    Args:
        concepts: The concepts to load.
        subjects: Some of the run's subjects; all of them by default. A per-entity subject without
            an entity is bound to that of the run.
        scopes: The scopes to load from; by default all scopes of the memory.

    Raises:
        TypeError: An argument has the wrong type, such as one concept instead of a list.
    """
    wanted = checked_concepts(concepts)

    async def load(context: AgentContext, memory: AgentMemory) -> None:
        for concept in wanted:
            context.reports.append(await memory.load_facts_to_agent(context.messages, concept))

    return MemoryNode(load, subjects, scopes)


def node_load_all_facts_from_memory(
    *, subjects: Iterable[MemorySubject] | None = None, scopes: Iterable[ScopeChoice] | None = None
) -> MemoryNode:
    """Return a node that puts the facts of every concept into the prompt. No call to a model.

    `subjects` and `scopes` are those of `node_load_from_memory`.
    """

    async def load(context: AgentContext, memory: AgentMemory) -> None:
        context.reports.append(await memory.load_facts_to_agent(context.messages))

    return MemoryNode(load, subjects, scopes)


def node_recall_from_memory(
    limit: int = 20,
    *,
    subjects: Iterable[MemorySubject] | None = None,
    scopes: Iterable[ScopeChoice] | None = None,
) -> MemoryNode:
    """Return a node that puts up to `limit` facts about the user's message into the prompt.

    No call to a chat model; with an embedder the message is embedded. See
    `AgentMemory.recall_facts_to_agent`, and `node_load_from_memory` for `subjects` and `scopes`.
    """
    expect_within(limit, int, "limit", "node_recall_from_memory(20)", least=1)

    async def load(context: AgentContext, memory: AgentMemory) -> None:
        report = await memory.recall_facts_to_agent(context.messages, context.text, limit=limit)
        context.reports.append(report)

    return MemoryNode(load, subjects, scopes)


def node_save_to_memory(
    concepts: Iterable[Concept[Any, Any]], subject: MemorySubject, scope: ScopeChoice
) -> MemoryNode:
    """Return a node that detects and saves facts of these concepts. One call to the model.

    Put it after `node_llm_request`, which adds the user's text to the chat. Before that node, only
    messages of earlier runs are read; if there is none, the node logs a warning. A per-entity
    subject without an entity is bound to that of the run.
    """
    wanted = checked_concepts(concepts)

    async def save(context: AgentContext, memory: AgentMemory) -> None:
        await _detect(context, memory, replace(memory.detection, only=wanted))

    return MemoryNode(save, [subject], [scope])


def node_save_to_memory_auto_detect_facts(
    *, subjects: Iterable[MemorySubject] | None = None, scopes: Iterable[ScopeChoice] | None = None
) -> MemoryNode:
    """Return a node that detects and saves the facts of this run. One call to the model.

    Put it after `node_llm_request`, as `node_save_to_memory` explains. `subjects` and `scopes` are
    those of `node_load_from_memory`.
    """

    async def save(context: AgentContext, memory: AgentMemory) -> None:
        await _detect(context, memory, memory.detection)

    return MemoryNode(save, subjects, scopes)


def node_llm_request() -> Node:
    """Return a node that sends the text to the model, runs its tool calls and returns the answer.

    One call to the model, and one more for each round of tool calls; at most
    `context.max_steps`. The calls of one round run concurrently. After an error or a cancellation,
    the result of an unfinished call is an error message.
    """
    return run_tool_loop


def node_llm_compress_history(compression: RetrieveFactsFromHistory) -> Node:
    """Return a node that replaces old messages with the facts that they state.

    One call to a model; `RetrieveFactsFromHistory.compress` describes when there is no call. Put it
    after a node that saves facts: that node then reads the original messages.
    """
    example = "node_llm_compress_history(RetrieveFactsFromHistory(CONCEPT))"
    expect_methods(compression, ["compress"], "compression", example)

    async def compress_history(context: AgentContext, text: str) -> str:
        report = await compression.compress(context.messages, context.chat_model)
        context.usage += report.usage
        context.reports.append(report)
        return text

    return compress_history


_TOO_EARLY = (
    "A node that saves facts ran before the chat had a message of the user, and found nothing. "
    "node_llm_request adds the user's text to the chat: put the node after it"
)


async def _detect(context: AgentContext, memory: AgentMemory, detection: Detection) -> None:
    if not last_said(context.messages):
        _log.warning(_TOO_EARLY)
    report = await memory.auto_detect_facts(
        context.messages,
        since=context.since,
        conversation=context.conversation,
        detection=detection,
    )
    context.usage += report.usage
    context.reports.append(report)
