"""MemorySync: an AgentMemory without await.

Written by tests/sync/generate.py: change the async class.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from types import EllipsisType
from typing import Any, Self, overload

from factmem._arguments import expect
from factmem.detection.report import Detection, DetectionReport
from factmem.llm.base import ChatModel, History
from factmem.memory._selection import Scopes, Subjects, Who
from factmem.memory._statements import Expected
from factmem.memory.agent_memory import AgentMemory
from factmem.memory.listing import CurrentFacts, FactOrigin
from factmem.models.facts import AnyFact, Concept, FactSource, L, MultipleFacts, SingleFact, V
from factmem.models.places import Boundary, MemorySubject, Place, ScopeChoice
from factmem.models.profile import P, Profile
from factmem.models.recall_filter import RecallFilter
from factmem.models.when import TimeProvider
from factmem.prompt.memory_message import LoadReport
from factmem.providers.results import Forgotten
from factmem.recall.match import RecallReport, RecallResult
from factmem.sync._contents import ContentsSync
from factmem.sync._conversations import ConversationsSync, ConversationSync
from factmem.sync._documents import ConsolidationSync, DocumentsSync, ToolSync
from factmem.sync._review import ReviewSync
from factmem.sync._wrapping import WrapsContext
from factmem.sync.portal import SHARED_PORTAL, Portal
from factmem.sync.stores import ProviderSync, StoreSync

__all__ = ["MemorySync"]


class MemorySync(WrapsContext[AgentMemory]):
    """An `AgentMemory` for code that does not use `await`.

        memory = MemorySync(AgentMemory(store, scopes=MemoryScopesProfile(agent="desk")))
        facts = memory.current()

    Each method is that of `AgentMemory` with its name, which says more.

    Methods run in the event loop of a portal. `with memory` is `async with memory`: work in the
    background goes on inside the block.

    Args:
        memory: The memory to call.
        portal: Where it runs; one loop that all twins share by default.
    """

    def __init__(self, memory: AgentMemory, portal: Portal = SHARED_PORTAL) -> None:
        example = "MemorySync(AgentMemory(InMemoryProvider()))"
        super().__init__(expect(memory, AgentMemory, "memory", example), portal)

    @property
    def boundary(self) -> Boundary:
        """The places that the memory may access: everything, unless it is a view."""
        return self._wrapped.boundary

    @property
    def subjects(self) -> tuple[MemorySubject, ...]:
        """The default subjects of calls."""
        return self._wrapped.subjects

    @property
    def places(self) -> tuple[Place, ...]:
        """The default places of calls: each subject in each scope, narrowest first."""
        return self._wrapped.places

    @property
    def clock(self) -> TimeProvider:
        """Returns the time."""
        return self._wrapped.clock

    @property
    def chat_model(self) -> ChatModel | None:
        """The model that detects facts, or None."""
        return self._wrapped.chat_model

    @property
    def provider(self) -> ProviderSync:
        """The provider, restricted to the view's places. Its operations are reported as events."""
        return ProviderSync(self._wrapped.provider, self._portal)

    @property
    def store(self) -> StoreSync:
        """The provider as a `FactStore`: for `forget`, `erase`, histories and `export_facts`."""
        return StoreSync(self._wrapped.store, self._portal)

    @property
    def contents(self) -> ContentsSync:
        """The contents of the memory: places, concepts, records; updates and deletions."""
        return ContentsSync(self._wrapped.contents, self._portal)

    @property
    def consolidation(self) -> ConsolidationSync:
        """Merges values that mean the same, in the memory's places."""
        return ConsolidationSync(self._wrapped.consolidation, self._portal)

    @property
    def review(self) -> ReviewSync:
        """What models learnt, and the decisions of people about it."""
        return ReviewSync(self._wrapped.review, self._portal)

    @property
    def detection(self) -> Detection:
        """How facts are detected, in calls that pass no other options."""
        return self._wrapped.detection

    def view(
        self,
        *,
        subjects: Subjects = None,
        scopes: Scopes = None,
        places: Iterable[Place] | None = None,
        read_only: bool = False,
    ) -> Self:
        """Return this memory restricted to some of its places. No call to a model, no I/O."""
        return type(self)(
            self._wrapped.view(
                subjects=subjects, scopes=scopes, places=places, read_only=read_only
            ),
            self._portal,
        )

    def of(self, entity: str, *levels: str) -> Self:
        """Return a view in which every unbound per-entity subject is bound to one entity."""
        return type(self)(self._wrapped.of(entity, *levels), self._portal)

    def text(
        self,
        question: str | None = None,
        limit: int | None = None,
        *,
        max_tokens: int | None = None,
    ) -> str:
        """Return the content of the memory message; empty if there are no facts."""
        return self._portal.call(self._wrapped.text, question, limit, max_tokens=max_tokens)

    def documents(self, scope: ScopeChoice, subject: MemorySubject | None = None) -> DocumentsSync:
        """Return the documents of a subject: texts with paths, in a separate scope."""
        return DocumentsSync(self._wrapped.documents(scope, subject), self._portal)

    def conversation(
        self,
        name: str,
        *,
        learn: bool = True,
        learn_after: timedelta | None = None,
        keep: timedelta | None = None,
    ) -> ConversationSync:
        """Return a chat of the user, whose messages are stored and learnt from. No I/O."""
        return ConversationSync(
            self._wrapped.conversation(name, learn=learn, learn_after=learn_after, keep=keep),
            self._portal,
        )

    @property
    def conversations(self) -> ConversationsSync:
        """The user's chats, and the queue of those that are still to be learnt."""
        return ConversationsSync(self._wrapped.conversations, self._portal)

    def load_facts_to_agent(
        self, messages: list[History], concept: Concept[Any, L] | None = None
    ) -> LoadReport[L]:
        """Put the current facts of every concept, or of one, into a chat. No call to a model."""
        return self._portal.call(self._wrapped.load_facts_to_agent, messages, concept)

    @overload
    def current(self, concept: Concept[Any, L]) -> list[L]: ...

    @overload
    def current(self, concept: Concept[Any, Any]) -> Sequence[AnyFact]: ...

    @overload
    def current(self, concept: type[P]) -> P: ...

    @overload
    def current(self, concept: None = None) -> CurrentFacts: ...

    def current(
        self, concept: Concept[Any, Any] | type[Profile] | None = None
    ) -> Sequence[AnyFact] | Profile:
        """Return the current facts of a concept, or of all, by keyword. No call to a model."""
        any_call: Any = self._wrapped.current
        result: Sequence[AnyFact] | Profile = self._portal.call(any_call, concept)
        return result

    def value(self, concept: Concept[V, SingleFact[Any]]) -> V | None:
        """Return the current value of a concept with one value; None if there is none."""
        return self._portal.call(self._wrapped.value, concept)

    def values(self, concept: Concept[V, Any]) -> list[V]:
        """Return the current values of a concept, those of the most specific place first."""
        return self._portal.call(self._wrapped.values, concept)

    def clear(self, concept: Concept[Any, Any]) -> Forgotten:
        """Forget the current values of a concept in all places. History keeps them."""
        return self._portal.call(self._wrapped.clear, concept)

    @overload
    def save(
        self,
        concept: Concept[V, SingleFact[V]],
        value: V,
        *,
        confirmed: bool = ...,
        if_unchanged: Expected | EllipsisType | None = ...,
    ) -> SingleFact[V]: ...

    @overload
    def save(
        self,
        concept: Concept[V, MultipleFacts[V]],
        value: Iterable[V],
        *,
        confirmed: bool = ...,
        if_unchanged: Expected | EllipsisType | None = ...,
    ) -> MultipleFacts[V]: ...

    @overload
    def save(self, concept: Profile) -> None: ...

    def save(
        self,
        concept: Concept[Any, Any] | Profile,
        value: object = ...,
        *,
        confirmed: bool = False,
        if_unchanged: Expected | EllipsisType | None = ...,
    ) -> AnyFact | None:
        """Save the value of a concept, or a list for one with many values. No call to a model."""
        any_call: Any = self._wrapped.save
        result: AnyFact | None = self._portal.call(
            any_call, concept, value, confirmed=confirmed, if_unchanged=if_unchanged
        )
        return result

    def edit(self, profile: type[P]) -> AbstractContextManager[P]:
        """Load a profile, and write what the block changed in it. No call to a model."""
        return self._portal.entered(self._wrapped.edit(profile))

    def note(self, text: str) -> MultipleFacts[str]:
        """Save a free text as it is, where `save` would. No call to a model."""
        return self._portal.call(self._wrapped.note, text)

    def why(self, fact: AnyFact) -> FactOrigin | None:
        """Return sources, quotes and history of a fact; None if no place has or had its id."""
        return self._portal.call(self._wrapped.why, fact)

    def auto_detect_facts(
        self,
        messages: Sequence[History],
        *,
        since: int = 0,
        conversation: str | None = None,
        said_at: datetime | None = None,
        detection: Detection | None = None,
        dry_run: bool = False,
    ) -> DetectionReport:
        """Detect the facts that a chat states, of all subjects at once, and save them."""
        return self._portal.call(
            self._wrapped.auto_detect_facts,
            messages,
            since=since,
            conversation=conversation,
            said_at=said_at,
            detection=detection,
            dry_run=dry_run,
        )

    def remember(
        self,
        text: str | Iterable[str],
        *,
        source: FactSource | str | None = None,
        said_at: datetime | None = None,
    ) -> DetectionReport:
        """Detect and save the facts in a text. One call to the model; none for an empty text."""
        return self._portal.call(self._wrapped.remember, text, source=source, said_at=said_at)

    def recall(
        self,
        query: str,
        *,
        limit: int = 5,
        subjects: Subjects = None,
        scopes: Scopes = None,
        where: RecallFilter | None = None,
    ) -> RecallResult:
        """Return the facts that are relevant to a question, best first, and messages in `turns`."""
        return self._portal.call(
            self._wrapped.recall, query, limit=limit, subjects=subjects, scopes=scopes, where=where
        )

    def recall_facts_to_agent(
        self,
        messages: list[History],
        query: str | None = None,
        *,
        limit: int = 20,
        subjects: Subjects = None,
        scopes: Scopes = None,
        where: RecallFilter | None = None,
    ) -> RecallReport:
        """Put the facts that are relevant to a question into a chat, instead of all facts."""
        return self._portal.call(
            self._wrapped.recall_facts_to_agent,
            messages,
            query,
            limit=limit,
            subjects=subjects,
            scopes=scopes,
            where=where,
        )

    def tools(
        self, prefix: str = "memory_", *, save: bool = False, of: Callable[[Any], Who] | None = None
    ) -> list[ToolSync]:
        """Return this memory's tools for a model: for `Agent(tools=...)` and other frameworks."""
        return [
            ToolSync(each, self._portal) for each in self._wrapped.tools(prefix, save=save, of=of)
        ]
