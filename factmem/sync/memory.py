"""MemorySync: an AgentMemory without await.

Written by tests/sync/generate.py: change the async class.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from typing import Any, Self, overload

from factmem._arguments import expect
from factmem.detection.report import DetectionReport
from factmem.detection.request import Detection
from factmem.llm.base import ChatModel
from factmem.llm.messages import History
from factmem.memory._selection import Scopes, Subjects, Who
from factmem.memory.agent_memory import AgentMemory
from factmem.memory.conversations import REST, LearningRun
from factmem.memory.listing import CurrentFacts
from factmem.memory.origin import FactOrigin
from factmem.models.boundary import Boundary
from factmem.models.clock import TimeProvider
from factmem.models.concepts import ConceptDefinition, V
from factmem.models.facts import AnyFact, Concept, L, MultipleFacts, SingleFact
from factmem.models.places import Identity, MemorySubject, Place
from factmem.models.profile import P, Profile
from factmem.models.recall_filter import RecallFilter
from factmem.models.scopes import ScopeChoice
from factmem.models.sources import FactSource
from factmem.prompt.memory_message import LoadReport
from factmem.providers.results import Moment
from factmem.recall.match import RecallReport, RecallResult
from factmem.sync._wrapping import WrapsContext
from factmem.sync.contents import ContentsSync
from factmem.sync.conversations import ConversationsSync, ConversationSync
from factmem.sync.documents import ConsolidationSync, DocumentsSync, ToolSync
from factmem.sync.portal import SHARED_PORTAL, Portal
from factmem.sync.review import ReviewSync
from factmem.sync.stores import ProviderSync, StoreSync

__all__ = ["MemorySync"]


class MemorySync(WrapsContext[AgentMemory]):
    """An `AgentMemory` for code that does not use `await`.

        memory = MemorySync(AgentMemory(store, scopes=MemoryScopesProfile(agent="desk")))
        facts = memory.current()

    Every method does what the method of that name does, in the event loop of a portal, and returns
    its result. `with memory` is `async with memory`: work in the background goes on inside the block.

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
        """The default places of calls: each subject in each scope, narrowest first.

        Raises `UnboundSubjectError` if a per-entity subject has no entity.
        """
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
        """Merges values that mean the same, in the memory's places, and restores them."""
        return ConsolidationSync(self._wrapped.consolidation, self._portal)

    @property
    def review(self) -> "ReviewSync":
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
        """Return this memory restricted to some of its places. No call to a model, no I/O.

        A place is inside if its subject is in `subjects`, its scope in `scopes` and the place in
        `places`. An omitted argument does not restrict; an empty list excludes everything. Places
        are compared by their identity, never by a description. The arguments also become the
        defaults of the view's calls. A view of a view has the places that are inside both.

        Every method uses the same guarded provider. Reading outside finds nothing. Writing outside,
        or anywhere in a read-only view, raises `MemoryAccessError` before a model is called. Pass a
        view to code and tools that serve a request, with the places that this request may see.
        """
        return type(self)(
            self._wrapped.view(
                subjects=subjects, scopes=scopes, places=places, read_only=read_only
            ),
            self._portal,
        )

    def of(self, entity: str, *levels: str) -> Self:
        """Return a view in which every unbound per-entity subject is bound to one entity.

        Raises `ValueError` if there is no such subject.
        """
        return type(self)(self._wrapped.of(entity, *levels), self._portal)

    def text(
        self,
        question: str | None = None,
        limit: int | None = None,
        *,
        max_tokens: int | None = None,
    ) -> str:
        """Return the content of the memory message; empty if there are no facts.

        For frameworks that build their own prompts. Equal facts give equal bytes. With a question,
        only what is relevant is included, as in `recall_facts_to_agent`: facts, and quotes of stored
        conversations. There are at most `limit` of them, by default 20, or as many as fit into
        `max_tokens`, as `estimate_tokens` counts them.
        """
        return self._portal.call(self._wrapped.text, question, limit, max_tokens=max_tokens)

    def documents(self, scope: ScopeChoice, subject: MemorySubject | None = None) -> DocumentsSync:
        """Return the documents of a subject: texts with paths, in a separate scope.

        Args:
            scope: A scope for documents only. It must not be in the memory's profile, because every
                prompt would then contain the texts.
            subject: The subject; by default the memory's only one.

        Raises:
            TypeError: The provider is not a `FactStore`.
            ValueError: `scope` is in the profile, or the memory has several subjects.
            UnboundSubjectError: The subject is per entity and has no entity.
        """
        return DocumentsSync(self._wrapped.documents(scope, subject), self._portal)

    def conversation(
        self, name: str, *, learn_after: timedelta | None = REST, keep: timedelta | None = None
    ) -> ConversationSync:
        """Return a chat of the user, whose messages are stored and learnt from. No I/O.

        It belongs to the first per-entity subject, in the narrowest scope of the memory.

        Args:
            name: The application's name for the chat; another user's chat may have the same.
            learn_after: How long the chat rests before `learn_pending` detects facts in it, or ten
                times as long if it never rests. None only stores it.
            keep: How long messages are kept. None keeps them until they are removed or erased.

        Raises:
            UnboundSubjectError: The subject is per entity and has no entity.
            ValueError: The name is not valid, or the memory has no scope.
        """
        return ConversationSync(
            self._wrapped.conversation(name, learn_after=learn_after, keep=keep), self._portal
        )

    @property
    def conversations(self) -> ConversationsSync:
        """The user's chats, and the queue of those that are still to be learnt."""
        return ConversationsSync(self._wrapped.conversations, self._portal)

    def learn_pending(
        self, *, workers: int = 1, per_minute: int | None = None, every: timedelta | None = None
    ) -> LearningRun:
        """Detect the facts of chats that are due, of all users of this memory, and save them.

        Any number of processes can do it at the same time: each chat is learnt by one of them. Only
        messages since the last success are read, with up to 20 earlier ones as context: one call to
        the model for each 6,000 tokens. A failure is repeated after 30 seconds, then after twice as
        long each time, and given up after eight; see `conversations.pending`. Facts of a user who is
        erased meanwhile are not saved. A cancelled or killed worker loses nothing: its chats are due
        again after ten minutes.

        Args:
            workers: How many chats are learnt at the same time.
            per_minute: How many chats are begun in a minute; as many as there are by default.
            every: Go on until cancelled, and look for due chats so often. None returns when none is
                due.

        Raises:
            StorageError: The store could not be read or written.
        """
        return self._portal.call(
            self._wrapped.learn_pending, workers=workers, per_minute=per_minute, every=every
        )

    def load_facts_to_agent(
        self, messages: list[History], concept: Concept[Any, L]
    ) -> LoadReport[L]:
        """Put the current facts of one concept into a chat. No call to a model.

        The lines of this concept in the memory message are replaced; those of other concepts stay
        if they fit. A message without facts is removed.
        """
        return self._portal.call(self._wrapped.load_facts_to_agent, messages, concept)

    def load_all_facts_to_agent(self, messages: list[History]) -> LoadReport:
        """Put the current facts of every concept into a chat. No call to a model.

        The whole memory message is replaced. Otherwise like `load_facts_to_agent`.
        """
        return self._portal.call(self._wrapped.load_all_facts_to_agent, messages)

    @overload
    def current(self, concept: Concept[Any, L]) -> list[L]: ...

    @overload
    def current(self, concept: type[P]) -> P: ...

    @overload
    def current(self, concept: None = None) -> CurrentFacts: ...

    def current(
        self, concept: Concept[Any, Any] | type[Profile] | None = None
    ) -> Sequence[AnyFact] | Profile:
        """Return the current facts of a concept, or of all, ordered by keyword. No call to a model.

        A concept with one value has at most one `SingleFact`. A concept with many values has one
        `MultipleFacts` per save, those of the most specific place first. Without `concept`, values
        of the memory's `concepts` have their types; all others are plain JSON. A value that does not
        fit its type is left out and reported in `unreadable` of the list; with `concept` it raises
        `StoredFactError`.

        With a class of `Profile`, the result is an instance with the current values. A field whose
        value cannot be read has its default, and is named in `profile_unreadable`.
        """
        any_call: Any = self._wrapped.current
        result: Sequence[AnyFact] | Profile = self._portal.call(any_call, concept)
        return result

    @overload
    def save(
        self, concept: Concept[V, SingleFact[V]], value: V, *, confirmed: bool = ...
    ) -> SingleFact[V]: ...

    @overload
    def save(
        self, concept: Concept[V, MultipleFacts[V]], value: Iterable[V], *, confirmed: bool = ...
    ) -> MultipleFacts[V]: ...

    @overload
    def save(
        self,
        concept: Concept[V, SingleFact[V] | MultipleFacts[V]],
        value: V | Iterable[V],
        *,
        confirmed: bool = ...,
    ) -> AnyFact: ...

    @overload
    def save(self, concept: Profile) -> None: ...

    def save(
        self, concept: Concept[Any, Any] | Profile, value: object = None, *, confirmed: bool = False
    ) -> AnyFact | None:
        """Save the value of a concept, or a list of values for one with many. No call to a model.

        The fact is saved in the first place of the memory: for the first subject, in the narrowest
        scope. It replaces the value of a concept with one value, and adds to those of one with
        many. `store.save` can save it elsewhere, and with other fields. With `confirmed`, a person
        said so: no model replaces the value, see `review`.

        Of an instance of a `Profile`, the fields that were set are saved, in one write. Its None
        and empty lists remove nothing: see `edit`.

        Returns:
            The saved fact; None for a profile.
        """
        any_call: Any = self._wrapped.save
        result: AnyFact | None = self._portal.call(any_call, concept, value, confirmed=confirmed)
        return result

    def edit(self, profile: type[P]) -> AbstractContextManager[P]:
        """Load a profile, and write what the block changed in it. No call to a model.

            with memory.edit(Traveller) as me:
                me.home_city = "Busan"
                me.pets.remove(miso)

        New values are saved in one write, then the removed ones are forgotten. If the block raises,
        nothing is written. Values that others saved meanwhile stay.

        Raises:
            TypeError: It is not a class of `Profile`.
            ValueError: A value that was added to a list is not of its type. Nothing was written.
        """
        return self._portal.entered(self._wrapped.edit(profile))

    def concepts(self) -> list[ConceptDefinition]:
        """Return what all programs told the store about concepts, by keyword. No call to a model.

        `differs` names those that this memory declares in another way; `with memory` reports
        them in an event. Compatible changes are taken over: more values, a type that accepts more,
        a concept with `read` or `was`. Empty for a provider with four methods.
        """
        return self._portal.call(self._wrapped.concepts)

    def note(self, text: str) -> MultipleFacts[str]:
        """Save a free text as it is, where `save` would. No call to a model.

        It is a value of the concept `note`: loaded, recalled, listed and forgotten like any fact.

        Returns:
            The saved fact.
        """
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
        read_at: Mapping[Identity, Moment] | None = None,
        dry_run: bool = False,
    ) -> DetectionReport:
        """Detect the facts that a chat states, of all subjects at once, and save them.

        Makes one call to the model for each 6,000 tokens of messages, and none if no message may be
        cited. Each item of the answer is validated separately; the report has a reason for each
        rejected item. The facts of one place are saved in one durable write, all or none. Places
        are written in sequence. A second run on the same chat saves nothing new.

        Facts are detected in messages of the user only, unless `Detection(trust=...)` allows
        others: the words of a tool or a web page never become a fact of the user. Messages of
        factmem are ignored.

        Args:
            messages: The chat; not changed.
            since: The index of the first message that may be cited; up to 20 earlier ones are
                context. Pass the number of messages that an earlier run has seen.
            conversation: The name of the chat, recorded in the source of each fact. Without it, the
                messages of two chats cannot be distinguished.
            said_at: The time of messages without a time, in the user's time zone; now by default.
            detection: The options of this call; those of the memory by default.
            read_at: The moments of the places when the chat was received; now by default. Facts of
                a place that was erased since then are not saved; `report.erased` has them.
                `MemoryRuns.detection` passes them.
            dry_run: Whether to only report, without saving.
        """
        return self._portal.call(
            self._wrapped.auto_detect_facts,
            messages,
            since=since,
            conversation=conversation,
            said_at=said_at,
            detection=detection,
            read_at=read_at,
            dry_run=dry_run,
        )

    def remember(
        self,
        text: str | Iterable[str],
        *,
        source: FactSource | str | None = None,
        said_at: datetime | None = None,
    ) -> DetectionReport:
        """Detect the facts in a text, and save them. One call to the model; none for an empty text.

        The text is trusted like a message of the user. The rules are those of `auto_detect_facts`,
        and each fact quotes the text. Several texts are read in one call, oldest first: a later
        text has priority over an earlier one that it contradicts, and the `message` in a fact's
        source is the index of its text. If the model fails, nothing is saved and the error is
        raised: append what must not be lost to a `conversation`, from which it is learnt later.

        Args:
            text: The text, or several.
            source: The application's name for the text, such as a ticket number, or a `FactSource`,
                whose kind and conversation are saved.
            said_at: When it was said or written; now by default.
        """
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
        """Return the facts that are relevant to a question, best first, and messages in `turns`.

        Messages of stored conversations are searched by words. Only current facts are found: no
        retracted, expired or superseded ones, and for a concept with one value only the fact of the
        most specific place. Several entities of one subject, as
        in `subjects=[USER.of("alice"), USER.of("bob")]`, are resolved separately.  With `subjects=[USER.every()]` all entities are searched, a few at a time, and
        the most relevant facts come first; no messages.

        Without an embedder no model is called. With an embedder there is one call for the question,
        and one for every 512 facts of a place without vectors. If the embedder fails or takes more
        than 30 seconds, only words are compared, and the error is in the result's `failures`.

        Args:
            query: A question, or a few words.
            limit: The maximum of matches to return.
            subjects: See `AgentMemory`.
            scopes: See `AgentMemory`.
            where: The facts to search, by concept, time and metadata; all by default.
        """
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
        """Put the facts that are relevant to a question into a chat, instead of all facts.

        For agents with more facts than fit a prompt. If the user's conversations are stored, quotes of
        them take turns with the facts, and `limit` counts both. After five facts come further values
        of the concepts of the best three. The whole memory message is replaced. To add
        concepts that every prompt needs, call `load_facts_to_agent` afterwards. Within the form's `max_tokens`
        the best matches are kept. They are ordered by concept: equal facts give equal bytes.

        A text of several sentences is searched sentence by sentence, at most the last eight that
        contain words; the best match of a fact counts. The query defaults to the user's last
        message; without any word nothing is searched. The other arguments and the cost are those of
        `recall`.
        """
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
        """Return the tools of this memory for a model; for `Agent(tools=...)` and other frameworks.

        The tools are `recall`, like `AgentMemory.recall`; `list_concepts`; `remember`, with one
        call to the chat model and only if there is one; and `forget`. A read-only view has only the
        first two. All use the memory's default
        places: a model cannot select a place. Answers are JSON with
        exact counts, at most 8,000 characters long.

        Args:
            prefix: The prefix of the tools' names: letters, digits, `_` and `-`.
            save: Whether to offer `save`, with which the model itself states a fact, without a call
                to the chat model. No quote proves such a fact: a page or a tool's result can
                persuade the model to save it. Its source is `SourceKind.ASSISTANT`.
            of: Returns the user of a call from the `context` that is passed to `MemoryTool.call`.
                The same tools then serve every user. Without it they serve this memory's default
                subjects.
        """
        return [
            ToolSync(each, self._portal) for each in self._wrapped.tools(prefix, save=save, of=of)
        ]
