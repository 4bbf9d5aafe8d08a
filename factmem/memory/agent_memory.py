"""AgentMemory: loading facts into prompts, detection in chats and texts, recall, views."""

import os
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from copy import copy
from datetime import datetime, timedelta
from functools import partial
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Self, overload

from factmem._arguments import AsyncWith, expect_function, guided, kind_of
from factmem.detection.report import Detection, DetectionReport
from factmem.embedding.base import Embedder
from factmem.errors import InputTypeError, InputValueError
from factmem.events import EventListener
from factmem.llm.base import ChatModel, History
from factmem.memory._loading import (
    current_facts,
    current_facts_of,
    load_into,
    origin_in,
    recall_facts,
    recall_into,
)
from factmem.memory._parts import MemoryParts, MemorySettings, detect_in_chat, detect_in_texts
from factmem.memory._profiles import edited_profile, load_profile, save_profile
from factmem.memory._selection import PlaceSelection, Scopes, Subjects, Who
from factmem.memory._statements import (
    Expected,
    check_statement,
    note_of,
    save_in,
    save_unchanged,
    stated,
)
from factmem.memory._wording import ARGUMENTS, CALLS, ITEMS, NAMES
from factmem.memory.contents import MemoryContents, clear_in
from factmem.memory.conversations import Conversation, MemoryConversations
from factmem.memory.listing import CurrentFacts, FactOrigin
from factmem.models.facts import (
    AnyFact,
    Concept,
    FactSource,
    FactType,
    L,
    MultipleFacts,
    SingleFact,
    V,
    checked_concept,
)
from factmem.models.places import (
    UNBOUNDED,
    Boundary,
    MemoryScopesProfile,
    MemorySubject,
    Place,
    ScopeChoice,
)
from factmem.models.profile import Concepts, P, Profile
from factmem.models.recall_filter import RecallFilter
from factmem.models.when import TimeProvider, system_clock
from factmem.prompt.memory_message import FORM, LoadReport, MessageForm
from factmem.providers._view import StoreView
from factmem.providers.conversations import rest_of
from factmem.providers.provider import AgentMemoryProvider, fact_store
from factmem.providers.results import Forgotten
from factmem.providers.store import FactStore
from factmem.recall.match import RecallReport, RecallResult, RecallSettings

if TYPE_CHECKING:
    from factmem.memory.consolidation import MemoryConsolidation
    from factmem.memory.documents import MemoryDocuments
    from factmem.memory.review import MemoryReview
    from factmem.memory.tools import MemoryTool
    from factmem.providers.storages import Storage

__all__ = ["AgentMemory"]

_NO_SCOPES = MemoryScopesProfile()
_SETTINGS = RecallSettings()
_DETECTION = Detection()
_USER = MemorySubject("user", "The person who talks to the agent", 1, per_entity=True)
_STAND_IN = "someone"


@guided(NAMES, arguments=ARGUMENTS, calls=CALLS, items=ITEMS, closing=True)
class AgentMemory:
    """Loads stored facts into chats, and saves the facts that chats and texts state.

        memory = AgentMemory(store, scopes=MemoryScopesProfile(agent="desk"), subjects=[USER])
        alice = memory.view(subjects=[USER.of("alice")])
        await alice.load_facts_to_agent(messages)
        matches = await alice.recall("Which theme does she like?")

    A chat is a `list` of OpenAI chat-completions message dicts. Loading changes it in place, and
    changes only the message named `factmem_memory`. After an error or a cancellation the chat is
    unchanged.

    **Subjects and scopes.** A call reads and writes the places of the memory: each subject in each
    scope. `view` and `of` select others. A per-entity subject must be bound, as in
    `memory.of("alice")`; otherwise `UnboundSubjectError` is raised. A memory without any scope
    raises `ValueError`. Reading outside a view finds nothing; writing there raises
    `MemoryAccessError`.

    **Errors of every call**, raised before any call to a model or any write: `TypeError` for an
    argument of the wrong type, `UnboundSubjectError`, `MemoryAccessError`, and `ValueError` for a
    value out of range or a missing chat model. `StorageError`: a place could not be read or
    written; places that were already written stay written. `ChatModelError`: the endpoint failed.
    `ExtractionError`: the model's answer was unusable. `StoredFactError`: a stored value does not
    fit the declared `value_type`. `MissingExtraError`: the embedder's package is not installed.
    Maintenance (`store`, `tools`, `consolidation`) raises `TypeError` if the provider is not a
    `FactStore`.

    An instance has no state of a chat, a user or an event loop: any number of tasks can share it.
    The end of `async with memory` saves vectors that are not in the store yet.

    Args:
        provider: The store. The four methods of `AgentMemoryProvider` are sufficient; without
            `forget` nothing can be retracted, and without `history` `why` returns no history.
        chat_model: The model that detects facts in chats and texts and groups equal values. Loading
            and recalls never call it.
        embedder: Creates vectors for `recall`, which compares only words without it, and for new
            keywords. The caller closes it. Or its name: `ollama:nomic-embed-text`,
            `openai:text-embedding-3-small` or `sentence-transformers:all-MiniLM-L6-v2`.
        scopes: The scope of each scope type.
        subjects: The default subjects.
        concepts: The concepts whose value types the application declares, or profiles of them.
        instructions: The concepts whose values are preferences about the assistant's behavior, such
            as "answer briefly". The model is asked to follow them, in a separate block, if the
            application saved them or the user stated them in a message.
        message_form: The wording and the largest size of the memory message.
        clock: Returns the time, for recency and for facts without a time.
        recall_settings: The defaults of `recall`.
        detection: How facts are detected in chats and texts; calls may pass their own.
        listeners: Functions that receive an event for every operation; see `factmem.events`.

    Raises:
        TypeError: An argument has the wrong type, such as a path instead of a provider.
        ValueError: Two of `concepts` have the same keyword, the form's `max_tokens` is too small
            for a fact, or `embedder` names none.
    """

    def __init__(
        self,
        provider: AgentMemoryProvider,
        *,
        chat_model: ChatModel | None = None,
        embedder: Embedder | str | None = None,
        scopes: MemoryScopesProfile = _NO_SCOPES,
        subjects: Iterable[MemorySubject] = (MemorySubject.EVERYTHING,),
        concepts: Concepts = (),
        instructions: Concepts = (),
        message_form: MessageForm = FORM,
        clock: TimeProvider = system_clock,
        recall_settings: RecallSettings = _SETTINGS,
        detection: Detection = _DETECTION,
        listeners: Iterable[EventListener] = (),
    ) -> None:
        selection = PlaceSelection(subjects, scopes)
        self._settings = MemorySettings(
            provider,
            selection.subjects,
            chat_model=chat_model,
            embedder=embedder,
            concepts=concepts,
            instructions=instructions,
            message_form=message_form,
            clock=clock,
            recall_settings=recall_settings,
            detection=detection,
            listeners=listeners,
        )
        self._parts = MemoryParts(self._settings, selection, None)

    def __repr__(self) -> str:
        kind = "read-only view" if self.boundary.is_read_only else "view"
        part = "" if self.boundary == UNBOUNDED else f", {kind}"
        found = self._settings.elsewhere
        note = f"; empty when first read, the store has facts of {found}" if found else ""
        store = type(self._settings.provider).__name__
        return f"<{type(self).__name__} in {store}: {self._parts.selection}{part}{note}>"

    @classmethod
    def open(
        cls,
        folder: str | os.PathLike[str],
        *,
        user: str | None = None,
        product: str = "app",
        chat_model: ChatModel | None = None,
        embedder: Embedder | str | None = None,
        concepts: Concepts = (),
        storage: "Storage | None" = None,
        must_exist: bool = False,
    ) -> AbstractAsyncContextManager[Self]:
        """Open a store in a folder, and a memory of one user; both are closed at the end.

            async with AgentMemory.open("memory", user="alice", chat_model=model) as memory:
                await memory.remember("I prefer the dark theme.")

        The folder is created if it does not exist; with `must_exist`, `StorageError` is raised
        instead. Its files are not encrypted, unless `storage` is an `EncryptedStorage`. The memory
        has one scope, the product, and one subject, the per-entity subject `user`, bound to `user`
        as by `of`. Another program finds the facts with the same product, or with
        `AgentMemory(store, scopes=MemoryScopesProfile(product="app"), subjects=[USER])`. For
        others, or to share a store between users, open it with `LocalFileMemoryProvider`.
        """

        @asynccontextmanager
        async def opened() -> AsyncGenerator[Self]:
            from factmem.providers.local_file import LocalFileMemoryProvider  # slow to import

            async with (
                LocalFileMemoryProvider(folder, storage=storage, must_exist=must_exist) as store,
                cls(
                    store,
                    chat_model=chat_model,
                    embedder=embedder,
                    concepts=concepts,
                    subjects=[_USER],
                    scopes=MemoryScopesProfile(product=product),
                ) as memory,
            ):
                yield memory if user is None else memory.of(user)

        return AsyncWith(opened(), "async with AgentMemory.open(folder, user='alice') as memory:")

    @property
    def boundary(self) -> Boundary:
        """The places that the memory may access: everything, unless it is a view."""
        return self._parts.selection.boundary

    @property
    def subjects(self) -> tuple[MemorySubject, ...]:
        """The default subjects of calls."""
        return self._parts.selection.subjects

    @property
    def places(self) -> tuple[Place, ...]:
        """The default places of calls: each subject in each scope, narrowest first.

        Raises `UnboundSubjectError` if a per-entity subject has no entity.
        """
        return tuple(self._parts.selection.places())

    @property
    def clock(self) -> TimeProvider:
        """Returns the time."""
        return self._settings.clock

    @property
    def chat_model(self) -> ChatModel | None:
        """The model that detects facts, or None."""
        return self._settings.chat_model

    @property
    def provider(self) -> AgentMemoryProvider:
        """The provider, restricted to the view's places. Its operations are reported as events."""
        store = self._parts.provider
        return store if isinstance(store, StoreView) else self._settings.provider

    @property
    def store(self) -> FactStore:
        """The provider as a `FactStore`: for `forget`, `erase`, histories and `export_facts`."""
        return fact_store(self._parts.provider)

    @property
    def contents(self) -> MemoryContents:
        """The contents of the memory: places, concepts, records; updates and deletions."""
        return MemoryContents(self._parts)

    @property
    def consolidation(self) -> "MemoryConsolidation":
        """Merges values that mean the same, in the memory's places."""
        from factmem.memory.consolidation import MemoryConsolidation

        return MemoryConsolidation(self._parts)

    @property
    def review(self) -> "MemoryReview":
        """What models learnt, and the decisions of people about it."""
        from factmem.memory.review import MemoryReview

        return MemoryReview(self._parts)

    @property
    def detection(self) -> Detection:
        """How facts are detected, in calls that pass no other options."""
        return self._settings.detection

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
        view = copy(self)
        selection = self._parts.selection.narrowed(
            subjects=subjects, scopes=scopes, places=places, read_only=read_only
        )
        view._parts = MemoryParts(self._settings, selection, selection.boundary)
        return view

    def of(self, entity: str, *levels: str) -> Self:
        """Return a view in which every unbound per-entity subject is bound to one entity.

        Raises `ValueError` if there is no such subject.
        """
        return self.view(subjects=self._parts.selection.bound_to(entity, *levels))

    async def text(
        self,
        question: str | None = None,
        limit: int | None = None,
        *,
        max_tokens: int | None = None,
    ) -> str:
        """Return the content of the memory message; empty if there are no facts.

        For frameworks that build their own prompts. Equal facts give equal bytes. With a question,
        only what is relevant is included, as in `recall_facts_to_agent`: facts, and quotes of
        stored conversations. There are at most `limit` of them, by default 20, or as many as fit
        into `max_tokens`, as `estimate_tokens` counts them.
        """
        report: LoadReport
        if question is not None:
            most = (20 if max_tokens is None else 200) if limit is None else limit
            report = await recall_into(
                self._parts, [], question, None, None, limit=most, where=None, max_tokens=max_tokens
            )
        elif limit is not None or max_tokens is not None:
            raise InputValueError(
                "limit and max_tokens need a question: memory.text('Which theme?', limit=5); "
                "MessageForm(max_tokens=800) limits a text without one"
            )
        else:
            report = await self.load_facts_to_agent([])
        return report.text

    def documents(
        self, scope: ScopeChoice, subject: MemorySubject | None = None
    ) -> "MemoryDocuments":
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
        from factmem.memory.documents import MemoryDocuments

        place = self._parts.selection.aside(scope, subject)
        self._parts.settings.aside.add(place.scope)
        return MemoryDocuments(fact_store(self._parts.provider), place)

    def conversation(
        self,
        name: str,
        *,
        learn: bool = True,
        learn_after: timedelta | None = None,
        keep: timedelta | None = None,
    ) -> Conversation:
        """Return a chat of the user, whose messages are stored and learnt from. No I/O.

        It belongs to the first per-entity subject, in the narrowest scope of the memory.

        Args:
            name: The application's name for the chat; another user's chat may have the same.
            learn: Whether appended messages are queued for `conversations.learn`, which detects
                their facts. False only stores them.
            learn_after: How long the chat rests before it is due, or ten times as long if it never
                rests; 30 seconds by default.
            keep: How long messages are kept, see `Conversation`. None keeps them until they are
                removed or erased.

        Raises:
            UnboundSubjectError: The subject is per entity and has no entity.
            ValueError: The name is not valid, the memory has no scope, or `learn_after` is passed
                with `learn=False`.
        """
        return Conversation(self._parts, name, rest_of(learn_after, is_queued=learn), keep)

    @property
    def conversations(self) -> MemoryConversations:
        """The user's chats, and the queue of those that are still to be learnt."""
        return MemoryConversations(self._parts, lambda place: view_at(self, place.subject)._parts)

    async def load_facts_to_agent(
        self, messages: list[History], concept: Concept[Any, L] | None = None
    ) -> LoadReport[L]:
        """Put the current facts of every concept, or of one, into a chat. No call to a model.

        The whole memory message is replaced. With `concept` only its lines are; those of other
        concepts stay if they fit. A message without facts is removed.
        """
        return await load_into(self._parts, messages, concept)

    @overload
    async def current(self, concept: Concept[Any, L]) -> list[L]: ...
    @overload
    async def current(self, concept: Concept[Any, Any]) -> Sequence[AnyFact]: ...
    @overload
    async def current(self, concept: type[P]) -> P: ...
    @overload
    async def current(self, concept: None = None) -> CurrentFacts: ...
    async def current(
        self, concept: Concept[Any, Any] | type[Profile] | None = None
    ) -> Sequence[AnyFact] | Profile:
        """Return the current facts of a concept, or of all, by keyword. No call to a model.

        A concept with one value has at most one `SingleFact`. A concept with many values has one
        `MultipleFacts` per save, those of the most specific place first. Without `concept`, values
        of the memory's `concepts` have their types; all others are plain JSON. A value that does
        not fit its type is left out and reported in `unreadable` of the list; with `concept` it
        raises `StoredFactError`.

        With a class of `Profile`, the result is an instance with the current values. A field whose
        value cannot be read has its default, and is named in `profile_unreadable`.
        """
        if concept is None:
            return await current_facts(self._parts)
        if isinstance(concept, type):
            return await load_profile(self._parts, concept)
        return await current_facts_of(self._parts, concept)

    async def value(self, concept: Concept[V, SingleFact[Any]]) -> V | None:
        """Return the current value of a concept with one value; None if there is none.

            city = await memory.value(CITY)

        See `current`. A concept with many values raises `ValueError`: `values` returns them.
        """
        if checked_concept(concept).fact_type is FactType.MULTIPLE:
            raise InputValueError(
                f"The concept {concept.keyword!r} has many values: await memory.values(concept)"
            )
        found = await self.values(concept)
        return found[0] if found else None

    async def values(self, concept: Concept[V, Any]) -> list[V]:
        """Return the current values of a concept, those of the most specific place first."""
        facts = await current_facts_of(self._parts, concept)
        return [value for fact in facts for value in fact.values]

    async def clear(self, concept: Concept[Any, Any]) -> Forgotten:
        """Forget the current values of a concept in all places. History keeps them.

        `contents.forget` forgets single values, and purges.
        """
        return await clear_in(self._parts, concept)

    @overload
    async def save(
        self,
        concept: Concept[V, SingleFact[V]],
        value: V,
        *,
        confirmed: bool = ...,
        if_unchanged: Expected | EllipsisType | None = ...,
    ) -> SingleFact[V]: ...
    @overload
    async def save(
        self,
        concept: Concept[V, MultipleFacts[V]],
        value: Iterable[V],
        *,
        confirmed: bool = ...,
        if_unchanged: Expected | EllipsisType | None = ...,
    ) -> MultipleFacts[V]: ...
    @overload
    async def save(self, concept: Profile) -> None: ...
    async def save(
        self,
        concept: Concept[Any, Any] | Profile,
        value: object = ...,
        *,
        confirmed: bool = False,
        if_unchanged: Expected | EllipsisType | None = ...,
    ) -> AnyFact | None:
        """Save the value of a concept, or a list for one with many values. No call to a model.

        The fact is saved in the first place of the memory: for the first subject, in the narrowest
        scope. It replaces the value of a concept with one value, and adds to those of one with
        many. `store.save` can save it elsewhere, and with other fields. With `confirmed`, a person
        said so: no model replaces the value, see `review`.

        Of an instance of a `Profile`, the fields that were set are saved, in one write. None clears
        a field; one that was left out stays. A list adds its values: `edit` removes some.

        Args:
            concept: The concept, or an instance of a profile.
            value: The value, or the list of values.
            confirmed: Whether a person said so.
            if_unchanged: The fact of the concept that was read in that place, or its `version`, or
                None if there was none. A value that was saved since then is not replaced.

        Returns:
            The saved fact; None for a profile.

        Raises:
            ChangedError: The concept does not have that state any more. Nothing was saved.
        """
        if isinstance(concept, Profile):
            if if_unchanged is not ...:
                raise InputTypeError("if_unchanged is about one fact: save(concept, value, ...)")
            if value is not ...:
                raise InputTypeError("A profile has its values: await memory.save(profile)")
            await save_profile(self._parts, concept)
            return None
        check_statement(concept, value)
        fact = stated(concept, value, self.clock(), confirmed=confirmed)
        if if_unchanged is not ...:
            return await save_unchanged(self._parts, fact, if_unchanged)
        await save_in(self._parts.selection, self._parts.provider, fact)
        return fact

    @asynccontextmanager
    async def edit(self, profile: type[P]) -> AsyncGenerator[P]:
        """Load a profile, and write what the block changed in it. No call to a model.

            async with memory.edit(Traveller) as me:
                me.home_city = "Busan"
                me.pets.remove(miso)
                del me.diet  # back to its default

        New values are saved in one write, then the removed ones are forgotten. If the block raises,
        nothing is written. Values that others saved meanwhile stay.

        Raises:
            TypeError: It is not a class of `Profile`.
            ValueError: A value that was added to a list is not of its type. Nothing was written.
        """
        async with edited_profile(self._parts, profile) as me:
            yield me

    async def note(self, text: str) -> MultipleFacts[str]:
        """Save a free text as it is, where `save` would. No call to a model.

        It is a value of the concept `note`: loaded, recalled, listed and forgotten like any fact.

        Returns:
            The saved fact.
        """
        fact = note_of(text, self.clock())
        await save_in(self._parts.selection, self._parts.provider, fact)
        return fact

    async def why(self, fact: AnyFact) -> FactOrigin | None:
        """Return sources, quotes and history of a fact; None if no place has or had its id."""
        return await origin_in(self._parts, fact)

    async def auto_detect_facts(
        self,
        messages: Sequence[History],
        *,
        since: int = 0,
        conversation: str | None = None,
        said_at: datetime | None = None,
        detection: Detection | None = None,
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
            dry_run: Whether to only report, without saving.
        """
        return await detect_in_chat(
            self._parts,
            messages,
            since=since,
            conversation=conversation,
            said_at=said_at,
            detection=detection,
            dry_run=dry_run,
        )

    async def remember(
        self,
        text: str | Iterable[str],
        *,
        source: FactSource | str | None = None,
        said_at: datetime | None = None,
    ) -> DetectionReport:
        """Detect and save the facts in a text. One call to the model; none for an empty text.

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
        return await detect_in_texts(self._parts, text, source=source, said_at=said_at)

    async def recall(
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
        most specific place. Several entities of one subject, as in
        `subjects=[USER.of("alice"), USER.of("bob")]`, are resolved separately. With
        `subjects=[USER.every()]` all entities are searched, a few at a time, and the most relevant
        facts come first; no messages.

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
        return await recall_facts(self._parts, query, subjects, scopes, limit=limit, where=where)

    async def recall_facts_to_agent(
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

        For agents with more facts than fit a prompt. If the user's conversations are stored, quotes
        of them take turns with the facts, and `limit` counts both. After five facts come further
        values of the concepts of the best three. The whole memory message is replaced. To add
        concepts that every prompt needs, call `load_facts_to_agent` afterwards. Within the form's
        `max_tokens` the best matches are kept. They are ordered by concept: equal facts give equal
        bytes.

        A text of several sentences is searched sentence by sentence, at most the last eight that
        contain words; the best match of a fact counts. The query defaults to the user's last
        message; without any word nothing is searched. The other arguments and the cost are those of
        `recall`.
        """
        return await recall_into(
            self._parts, messages, query, subjects, scopes, limit=limit, where=where
        )

    def tools(
        self, prefix: str = "memory_", *, save: bool = False, of: Callable[[Any], Who] | None = None
    ) -> "list[MemoryTool]":
        """Return this memory's tools for a model: for `Agent(tools=...)` and other frameworks.

        The tools are `recall`, like `AgentMemory.recall`; `list_concepts`; `remember`, with one
        call to the chat model and only if there is one; and `forget`. A read-only view has only the
        first two. All use the memory's default places: a model cannot select a place. Answers are
        JSON with exact counts, at most 8,000 characters long.

        Args:
            prefix: The prefix of the tools' names: letters, digits, `_` and `-`.
            save: Whether to offer `save`, with which the model itself states a fact, without a call
                to the chat model. No quote proves such a fact: a page or a tool's result can
                persuade the model to save it. Its source is `SourceKind.ASSISTANT`.
            of: Returns the user of a call from the `context` that is passed to `MemoryTool.call`.
                The same tools then serve every user. Without it they serve this memory's default
                subjects.
        """
        from factmem.memory.tools import MemoryTool, memory_tools

        fact_store(self._parts.provider)
        if of is not None:
            user_of = expect_function(of, "of", "of=lambda context: context.user")
            late = partial(AgentMemory.tools, prefix=prefix, save=save)
            return MemoryTool.late(
                late(view_of_anyone(self)), lambda context: late(view_for(self, user_of(context)))
            )
        bound = self.view(places=self._parts.selection.places())
        return memory_tools(bound._parts, prefix, save=save)

    async def aclose(self) -> None:
        """Save vectors that are not in the store yet.

        Close the store after this call; if it is already closed, no vectors are saved. The memory
        can still be used.
        """
        if self._settings.embedder is not None:
            await self._parts.search.keep_vectors(self.boundary.allows)

    async def __aenter__(self) -> Self:
        from factmem.memory._parts import store_definitions  # needless for facts

        await store_definitions(self._parts)
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()


def view_for(memory: "AgentMemory", who: Who) -> "AgentMemory":
    """Return the memory of a user."""
    if who is None:
        for subject in memory.subjects:
            subject.check_bound()
        return memory
    if isinstance(who, str):
        return memory.of(who)
    if isinstance(who, MemorySubject):
        return memory.view(subjects=[who])
    if isinstance(who, Iterable):
        return memory.view(subjects=who)
    raise InputTypeError(
        f"user must be a string, a MemorySubject or a function of the run's context that returns "
        f"one, not {kind_of(who)}: user=lambda context: context.user"
    )


def view_at(memory: "AgentMemory", subject: MemorySubject) -> "AgentMemory":
    """Return the memory of a stored subject, which has no description."""
    for each in memory.subjects:
        if each.name == subject.name and each.entity == subject.entity:
            return memory
        if each.name == subject.name and each.per_entity and each.entity is None:
            return memory.of(*subject.levels)
    return memory.view(subjects=[subject])


def view_of_anyone(memory: "AgentMemory") -> "AgentMemory":
    """Return the memory with a placeholder for each missing entity, to read definitions from it."""
    return memory.view(
        subjects=[
            each.of(_STAND_IN) if each.per_entity and each.entity is None else each
            for each in memory.subjects
        ]
    )
