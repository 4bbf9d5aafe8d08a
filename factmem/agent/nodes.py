"""Strategies: what an agent does in a run, node by node."""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

from factmem._arguments import (
    checked_function,
    kind_of,
    listed,
    methods_lacking,
)
from factmem.agent.context import AgentContext
from factmem.agent.tool_loop import answered
from factmem.detection.compression import RetrieveFactsFromHistory
from factmem.errors import MemoryAccessError
from factmem.models.checked import checked_concepts, checked_subjects
from factmem.models.facts import Concept
from factmem.models.names import checked_text
from factmem.models.places import MemorySubject
from factmem.models.scopes import ScopeChoice, checked_choice

__all__ = [
    "CheckedNode",
    "MemoryNode",
    "Node",
    "Strategy",
    "node_llm_compress_history",
    "node_llm_request",
    "node_load_all_facts_from_memory",
    "node_load_from_memory",
    "node_recall_from_memory",
    "node_save_to_memory",
    "node_save_to_memory_auto_detect_facts",
]


Node: TypeAlias = Callable[[AgentContext, str], Awaitable[str]]
"""A step of a run: takes the text of the step before it, and gives one to the step after it."""


_NODES = 'Strategy("answer", [node_llm_request()])'


@runtime_checkable
class CheckedNode(Protocol):
    """A node that can tell, before any node of a run has begun, that it will fail."""

    def check(self, context: AgentContext) -> None:
        """Raise what the node would raise for want of something that the run does not have."""
        ...


@dataclass(frozen=True, slots=True)
class Strategy:
    """Nodes, one after the other: the first gets what the user said, the last gives the answer.

    It holds no state of any run, and serves any number of them at once.

    Raises:
        TypeError: The nodes are no list of functions.
        ValueError: There are no nodes.
    """

    name: str
    nodes: tuple[Node, ...]

    def __init__(self, name: str, nodes: Iterable[Node]) -> None:
        object.__setattr__(self, "name", checked_text(name, "strategy's name"))
        object.__setattr__(
            self, "nodes", listed(nodes, "The nodes of a strategy are a list", _NODES)
        )
        for node in self.nodes:
            _check_node(node)
        if not self.nodes:
            raise ValueError(
                f"The strategy {name!r} has no nodes: it takes at least [node_llm_request()]"
            )

    async def run(self, context: AgentContext, text: str) -> str:
        """Let the nodes work, and return what the last one gives.

        Nodes that can are checked first, so that a run that must fail asks no model before.

        Raises:
            TypeError: A node gave something else than a text.
        """
        for node in self.nodes:
            _check(node, context)
        for node in self.nodes:
            text = self._checked(await node(context, text), node)
        return text

    def _checked(self, given: object, node: Node) -> str:
        if isinstance(given, str):
            return given
        name = getattr(node, "__name__", type(node).__name__)
        raise TypeError(
            f"The node {name!r} of the strategy {self.name!r} gave no text: end it with "
            f"`return text`"
        )


def _check_node(node: Node) -> None:
    if node in _MAKERS:
        name = getattr(node, "__name__", "")
        raise TypeError(f"{name} makes a node and is none: {name}(...) in the list")
    checked_function(node, "A node is a function of the run and a text", _NODES)


class MemoryNode:
    """A node that does something with the memory, and passes its text through.

    Args:
        work: What it does.
        subjects: Whom it is about; None for whom the run concerns.

    Raises:
        TypeError: `work` is no function, or `subjects` are no list of subjects.
    """

    def __init__(
        self,
        work: Callable[[AgentContext], Awaitable[None]],
        subjects: Iterable[MemorySubject] | None,
    ) -> None:
        self._work = checked_function(
            work, "A node's work is an async function of the run", "MemoryNode(work, None)"
        )
        self._subjects = None if subjects is None else checked_subjects(subjects)

    async def __call__(self, context: AgentContext, text: str) -> str:
        """Do the work."""
        await self._work(context)
        return text

    def check(self, context: AgentContext) -> None:
        """See `CheckedNode.check`.

        Raises:
            RuntimeError: The agent has no memory.
            UnboundSubjectError: A subject is per entity, and neither it nor the run names one.
            MemoryAccessError: The run does not concern a subject.
        """
        _ = context.memory
        concerned = {(subject.name, subject.entity) for subject in context.subjects}
        for subject in _bound(self._subjects, context) or ():
            if (subject.name, subject.entity) not in concerned:
                raise MemoryAccessError(
                    f"A node is about {subject.name!r}, which the run does not concern: name it in "
                    f"agent.run(..., subjects=[...]), or where the memory is installed"
                )


def node_load_from_memory(
    concepts: Iterable[Concept[Any, Any]],
    *,
    subjects: Iterable[MemorySubject] | None = None,
    scopes: Iterable[ScopeChoice] | None = None,
) -> MemoryNode:
    """Put what holds about concepts into the prompt. No call to a model.

    Args:
        concepts: What to look up.
        subjects: Whom to look for, of those that the run concerns; all of them by default. One
            that is per entity and names none stands for the run's.
        scopes: Where to look; all of the memory's by default.

    Raises:
        TypeError: An argument is of the wrong kind, such as one concept for a list; so do all that
            make nodes.
    """
    wanted, concerned, where = checked_concepts(concepts), _subjects(subjects), _scopes(scopes)

    async def load(context: AgentContext) -> None:
        bound = _bound(concerned, context)
        for concept in wanted:
            report = await context.memory.load_facts_to_agent(
                context.messages, concept, subjects=bound, scopes=where
            )
            context.reports.append(report)

    return MemoryNode(load, concerned)


def node_load_all_facts_from_memory(
    *,
    subjects: Iterable[MemorySubject] | None = None,
    scopes: Iterable[ScopeChoice] | None = None,
) -> MemoryNode:
    """Put what holds about every concept into the prompt. No call to a model.

    Args:
        subjects: See `node_load_from_memory`, as for the rest.
        scopes: Where to look; all of the memory's by default.
    """
    concerned, where = _subjects(subjects), _scopes(scopes)

    async def load(context: AgentContext) -> None:
        report = await context.memory.load_all_facts_to_agent(
            context.messages, subjects=_bound(concerned, context), scopes=where
        )
        context.reports.append(report)

    return MemoryNode(load, concerned)


def node_recall_from_memory(
    limit: int = 20,
    *,
    subjects: Iterable[MemorySubject] | None = None,
    scopes: Iterable[ScopeChoice] | None = None,
) -> MemoryNode:
    """Put the facts into the prompt that what the user said is about. No call to a chat model.

    See `AgentMemory.recall_facts_to_agent`: with an embedder what the user said is embedded.

    Args:
        limit: How many facts at most.
        subjects: See `node_load_from_memory`, as for the rest.
        scopes: Where to look; all of the memory's by default.

    Raises:
        ValueError: `limit` is no whole number from 1 on.
    """
    if type(limit) is not int or limit < 1:
        raise ValueError("limit is how many facts to recall: a whole number from 1 on")
    concerned, where = _subjects(subjects), _scopes(scopes)

    async def load(context: AgentContext) -> None:
        report = await context.memory.recall_facts_to_agent(
            context.messages,
            context.text,
            limit=limit,
            subjects=_bound(concerned, context),
            scopes=where,
        )
        context.reports.append(report)

    return MemoryNode(load, concerned)


def node_save_to_memory(
    concepts: Iterable[Concept[Any, Any]], subject: MemorySubject, scope: ScopeChoice
) -> MemoryNode:
    """Save what was said in this run about concepts. One call to a model for each concept.

    Before the model was asked, that is the whole conversation so far.

    Args:
        concepts: What to look for.
        subject: Whom it concerns; one that is per entity and names none stands for the run's.
        scope: Where to save it.

    Raises:
        TypeError: An argument is of the wrong kind, such as one concept for a list.
    """
    wanted = checked_concepts(concepts)
    checked_subjects([subject])
    checked_choice(scope)

    async def save(context: AgentContext) -> None:
        for concept in wanted:
            report = await context.memory.save_facts_from_history(
                context.messages,
                concept,
                context.bound(subject),
                scope,
                since=context.since,
                conversation=context.conversation,
            )
            context.usage += report.usage
            context.reports.append(report)

    return MemoryNode(save, [subject])


def node_save_to_memory_auto_detect_facts(
    *,
    subjects: Iterable[MemorySubject] | None = None,
    scopes: Iterable[ScopeChoice] | None = None,
) -> MemoryNode:
    """Find the facts that were stated in this run, and save them. One call to a model.

    Before the model was asked, that is the whole conversation so far.

    Args:
        subjects: Whom facts may concern; see `node_load_from_memory`, as for the rest.
        scopes: Where they may be saved; all of the memory's by default.
    """
    concerned, where = _subjects(subjects), _scopes(scopes)

    async def save(context: AgentContext) -> None:
        report = await context.memory.auto_detect_facts(
            context.messages,
            subjects=_bound(concerned, context),
            scopes=where,
            since=context.since,
            conversation=context.conversation,
        )
        context.usage += report.usage
        context.reports.append(report)

    return MemoryNode(save, concerned)


def node_llm_request(*, allow_tool_calls: bool = True) -> Node:
    """Say the text to the model as the user, run the tools that it calls, and give its answer.

    One call to the model, and one more for each round of tool calls. See
    `factmem.agent.tool_loop.answered`.

    Args:
        allow_tool_calls: Whether the agent's tools are offered.
    """

    async def llm_request(context: AgentContext, text: str) -> str:
        return await answered(context, text, allow_tool_calls=allow_tool_calls)

    return llm_request


def node_llm_compress_history(compression: RetrieveFactsFromHistory) -> Node:
    """Make the conversation short by what it states about some concepts. One call to a model.

    See `RetrieveFactsFromHistory.compress`, which says when it costs none. Put it where the
    conversation is to be short: after the node that saves facts, so that they are found in what
    was really said.

    Args:
        compression: What to keep of it.

    Raises:
        TypeError: It is something else, such as a concept.
    """
    if methods_lacking(compression, "compress"):
        raise TypeError(
            f"A history is compressed by a RetrieveFactsFromHistory, not {kind_of(compression)}: "
            f"node_llm_compress_history(RetrieveFactsFromHistory(CONCEPT))"
        )

    async def compress_history(context: AgentContext, text: str) -> str:
        report = await compression.compress(context.messages, context.chat_model)
        context.usage += report.usage
        context.reports.append(report)
        return text

    return compress_history


def _check(node: object, context: AgentContext) -> None:
    if isinstance(node, CheckedNode):
        node.check(context)


def _subjects(given: Iterable[MemorySubject] | None) -> tuple[MemorySubject, ...] | None:
    return None if given is None else checked_subjects(given)


def _scopes(given: Iterable[ScopeChoice] | None) -> tuple[ScopeChoice, ...] | None:
    if given is None:
        return None
    chosen = listed(given, "scopes are a list", "scopes=[MemoryScope.Product('my-app')]")
    for each in chosen:
        checked_choice(each)
    return chosen


def _bound(
    subjects: "tuple[MemorySubject, ...] | None", context: AgentContext
) -> "list[MemorySubject] | None":
    return None if subjects is None else [context.bound(subject) for subject in subjects]


_MAKERS: tuple[object, ...] = (
    node_llm_compress_history,
    node_llm_request,
    node_load_all_facts_from_memory,
    node_load_from_memory,
    node_recall_from_memory,
    node_save_to_memory,
    node_save_to_memory_auto_detect_facts,
)
"""What makes nodes, and is taken for one where its call was forgotten."""
