"""AgentMemory: facts into prompts, facts out of chats and texts, recall, views."""

import os
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from copy import copy
from datetime import datetime, timedelta
from functools import partial
from types import TracebackType
from typing import Any, Self

from pydantic import JsonValue
from typing_extensions import Unpack

from factmem._arguments import expect_function
from factmem.detection.report import DetectionReport
from factmem.detection.request import DoubtfulItems, Verification
from factmem.detection.synonyms import SIMILARITY
from factmem.embedding.base import Embedder
from factmem.events import EventListener
from factmem.llm.base import ChatModel
from factmem.llm.messages import History
from factmem.memory._saving import FactSaver
from factmem.memory.chat_detection import ChatOptions
from factmem.memory.collaborators import Collaborators
from factmem.memory.consolidation import ConsolidationReport
from factmem.memory.contents import MemoryContents
from factmem.memory.documents import MemoryDocuments
from factmem.memory.failed_texts import FailedTexts
from factmem.memory.origin import FactOrigin
from factmem.memory.selection import PlaceSelection, Scopes, Subjects
from factmem.memory.settings import MemorySettings
from factmem.memory.text_intake import TextOptions
from factmem.memory.tools import MemoryTool, memory_tools
from factmem.memory.users import Who, view_for, view_of_anyone
from factmem.models.boundary import UNBOUNDED, Boundary
from factmem.models.clock import TimeProvider, system_clock
from factmem.models.facts import AnyFact, Concept, L
from factmem.models.places import Identity, MemorySubject, Place
from factmem.models.scopes import MemoryScopesProfile, ScopeChoice
from factmem.models.sources import FactSource, SourceKind
from factmem.prompt.memory_message import FORM, LoadReport
from factmem.prompt.message_form import MessageForm
from factmem.prompt.tokens import TokenCounter, estimate_tokens
from factmem.prompt.transcript import CONTEXT
from factmem.providers.base import AgentMemoryProvider, FactStore, fact_store
from factmem.providers.learning import Moment
from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.recall.match import RecallReport, RecallResult
from factmem.recall.query import (
    Depth,
    RecallFilters,
    RecallSettings,
    RecallWeights,
)
from factmem.storage.base import Storage

__all__ = ["AgentMemory"]


_NO_SCOPES = MemoryScopesProfile()
_SETTINGS = RecallSettings()
_APP = MemoryScopesProfile(product="app")
_BY_MODEL = FactSource(SourceKind.ASSISTANT)
"""The source of texts that a model passes to a tool: they are its words, not the user's."""
_USER = MemorySubject("user", "The person who talks to the agent", 1, per_entity=True)


class AgentMemory:
    """Puts known facts into chats, and saves the facts that chats and texts state.

        memory = AgentMemory(store, scopes=MemoryScopesProfile(agent="desk"), subjects=[USER])
        alice = memory.view(subjects=[USER.of("alice")])
        await alice.load_all_facts_to_agent(messages)
        matches = await alice.recall("Which theme does she like?")

    A chat is a `list` of OpenAI chat-completions message dicts. Loading changes it in place, and
    only by one message named `factmem_memory`. On an error or a cancellation it is unchanged.

    **Subjects and scopes.** Every call takes `subjects` and `scopes`, which select places: each
    subject in each scope. `subjects` defaults to those of the memory; a per-entity subject must be
    bound, `subjects=[USER.of("alice")]`, else `UnboundSubjectError` is raised. `scopes` defaults to
    all scopes of the profile; members are scopes, or types of scope that the profile names, and a
    type without a name is skipped. A call with no scope at all raises `ValueError`. Reading outside
    a view finds nothing; writing there raises `MemoryAccessError`.

    **Errors of every call**, raised before any call to a model or any write: `TypeError` for
    an argument of the wrong type, `UnboundSubjectError`, `MemoryAccessError`, and `ValueError` for
    a value out of range or a missing chat model. `StorageError`: a place could not be read or
    written; places that were written before stay written. `ChatModelError`: the endpoint failed.
    `ExtractionError`: the model's answer was unusable. `StoredFactError`: a stored value does not
    fit the declared `value_type`. `MissingExtraError`: the embedder's package is not installed.
    Maintenance (`store`, `tools`, `consolidate`) raises `TypeError` if the provider is no
    `FactStore`.

    An instance holds no state of a chat, a user or an event loop: any number of tasks can share it.
    `async with memory` opens it for texts that are processed in the background; an open memory
    belongs to its event loop.

    Args:
        provider: The store. The four methods of `AgentMemoryProvider` are enough; without `forget`
            nothing can be retracted, and without `history` `why` returns no history.
        chat_model: Finds facts in chats and texts, groups equal values, and splits the question of
            a deep recall. Loading never calls it.
        embedder: Makes vectors for `recall`, which compares words alone without one, and for
            made-up keywords. The caller closes it.
        scopes: The scope that each type of scope stands for.
        subjects: The default subjects.
        concepts: The concepts whose value types the application declares.
        instructions: The concepts whose values are preferences about the assistant's own behavior,
            such as "answer briefly". They form a block of their own that the model is asked to
            follow, as far as the application saved them or the user said them in a message.
        message_form: The wording of the memory message.
        clock: Returns the time: for recency, and for what was said at an unknown time.
        recall_settings: The defaults of `recall`.
        keyword_similarity: How near a made-up keyword must be to a known one, by the embedder, to
            be joined with it, from 0 to 1; None never joins synonyms.
        max_tokens: The largest size of the memory message; None sets no limit.
        token_counter: Counts the tokens of a string. The default estimates, rather too high.
        listeners: Functions that receive an event for every operation; see `factmem.events`.
        include_values: Whether events contain facts and queries.

    Raises:
        TypeError: An argument is of the wrong type, such as a path in place of a provider.
        ValueError: Two of `concepts` have one keyword, or `max_tokens` has no room for a fact.
    """

    def __init__(
        self,
        provider: AgentMemoryProvider,
        *,
        chat_model: ChatModel | None = None,
        embedder: Embedder | None = None,
        scopes: MemoryScopesProfile = _NO_SCOPES,
        subjects: Iterable[MemorySubject] = (MemorySubject.EVERYTHING,),
        concepts: Iterable[Concept[Any, Any]] = (),
        instructions: Iterable[Concept[Any, Any]] = (),
        message_form: MessageForm = FORM,
        clock: TimeProvider = system_clock,
        recall_settings: RecallSettings = _SETTINGS,
        keyword_similarity: float | None = SIMILARITY,
        max_tokens: int | None = None,
        token_counter: TokenCounter = estimate_tokens,
        listeners: Iterable[EventListener] = (),
        include_values: bool = False,
    ) -> None:
        selection = PlaceSelection(subjects, scopes)
        self._settings = MemorySettings.of_arguments(
            provider,
            selection.subjects,
            chat_model=chat_model,
            embedder=embedder,
            concepts=concepts,
            instructions=instructions,
            message_form=message_form,
            clock=clock,
            recall_settings=recall_settings,
            keyword_similarity=keyword_similarity,
            max_tokens=max_tokens,
            token_counter=token_counter,
            listeners=listeners,
            include_values=include_values,
        )
        self._parts = Collaborators(self._settings, selection, None)

    def __repr__(self) -> str:
        kind = "read-only view" if self.boundary.is_read_only else "view"
        part = "" if self.boundary == UNBOUNDED else f", {kind}"
        return f"<{type(self).__name__} in {type(self._settings.provider).__name__}: {self._parts.selection}{part}>"

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        folder: str | os.PathLike[str],
        *,
        user: str | None = None,
        chat_model: ChatModel | None = None,
        embedder: Embedder | None = None,
        concepts: Iterable[Concept[Any, Any]] = (),
        instructions: Iterable[Concept[Any, Any]] = (),
        storage: Storage | None = None,
        subject: MemorySubject = _USER,
        scopes: MemoryScopesProfile = _APP,
    ) -> AsyncGenerator[Self]:
        """Open a folder with a store in it, and a memory of one user; both close at the end.

            async with AgentMemory.open("memory", user="alice", chat_model=model) as memory:
                await memory.remember("I prefer the dark theme.")

        The folder is created if missing and holds plain files, unless `storage` is an
        `EncryptedStorage`. `user` is the entity to bind, as `of` does. The subject is the
        per-entity subject `user` and the scope the product `app`, unless `subject` and `scopes` say
        otherwise. To share a store between users, open it with `LocalFileMemoryProvider`.
        """
        async with (
            LocalFileMemoryProvider(folder, storage=storage) as store,
            cls(
                store,
                chat_model=chat_model,
                embedder=embedder,
                concepts=concepts,
                instructions=instructions,
                subjects=[subject],
                scopes=scopes,
            ) as memory,
        ):
            yield memory if user is None else memory.of(user)

    @property
    def boundary(self) -> Boundary:
        """The places that the memory may access: everything, unless it is a view."""
        return self._parts.selection.boundary

    @property
    def subjects(self) -> tuple[MemorySubject, ...]:
        """The subjects of calls that name none."""
        return self._parts.selection.subjects

    @property
    def places(self) -> tuple[Place, ...]:
        """The places of calls that name none: each subject in each scope, the narrowest first.

        Reading it raises `UnboundSubjectError` if a per-entity subject has no entity.
        """
        return tuple(self._parts.selection.places())

    @property
    def clock(self) -> TimeProvider:
        """Returns the time."""
        return self._settings.clock

    @property
    def chat_model(self) -> ChatModel | None:
        """The model that finds facts, or None."""
        return self._settings.chat_model

    @property
    def provider(self) -> AgentMemoryProvider:
        """The provider, restricted to the view's places; events report what is done with it."""
        return self._parts.provider

    @property
    def store(self) -> FactStore:
        """The provider as a `FactStore`: for `forget`, `erase`, histories and `export_facts`."""
        return fact_store(self._parts.provider)

    @property
    def contents(self) -> MemoryContents:
        """What the memory holds: a tree of places, concepts, records; forgetting and clearing."""
        return self._parts.contents

    @property
    def failed_texts(self) -> FailedTexts:
        """The texts that `remember(..., keep_failed=True)` could not read."""
        return FailedTexts(self._parts.kept_texts, self._parts.texts.run_again)

    def view(
        self,
        *,
        subjects: Subjects = None,
        scopes: Scopes = None,
        places: Iterable[Place] | None = None,
        read_only: bool = False,
    ) -> Self:
        """Return this memory restricted to some of its places. No call to a model, no I/O.

        A place is inside when its subject is in `subjects`, its scope in `scopes` and the place in
        `places`, as far as they are given; an empty list admits nothing. Places are equal by their
        identity, never by a description. The arguments also become the defaults of the view's
        calls. A view of a view has what both have.

        Every method goes through the same guarded provider. Reading outside finds nothing. Writing
        outside, or anywhere in a read-only view, raises `MemoryAccessError` before a model is
        asked. Give code and tools that serve a request a view of what this request may see.
        """
        view = copy(self)
        selection = self._parts.selection.narrowed(
            subjects=subjects, scopes=scopes, places=places, read_only=read_only
        )
        view._parts = Collaborators(self._settings, selection, selection.boundary)
        return view

    def of(self, entity: str, *levels: str) -> Self:
        """Return a view in which every unbound per-entity subject is bound to one entity.

        Without such a subject, `ValueError` is raised: the view would not be of that entity.
        """
        return self.view(subjects=self._parts.selection.bound_to(entity, *levels))

    async def text(
        self,
        question: str | None = None,
        limit: int | None = None,
        *,
        scopes: Scopes = None,
        subjects: Subjects = None,
    ) -> str:
        """Return the memory message's content as a string; empty if nothing is known.

        The same facts give the same bytes. For frameworks that build prompts of their own. With a
        question, only the facts that it is about, as `recall_facts_to_agent` finds them: at most
        `limit`, or 20.
        """
        report: LoadReport
        if question is not None:
            most = 20 if limit is None else limit
            report = await self.recall_facts_to_agent(
                [], question, limit=most, subjects=subjects, scopes=scopes
            )
        elif limit is not None:
            raise ValueError("limit needs a question: memory.text('Which theme?', limit=5)")
        else:
            report = await self.load_all_facts_to_agent([], subjects=subjects, scopes=scopes)
        return report.text

    def documents(
        self, scope: ScopeChoice, subject: MemorySubject | None = None
    ) -> MemoryDocuments:
        """Return the documents about a subject: texts under paths, in a scope of their own.

        Args:
            scope: A scope for documents alone. The memory's profile must not name it, or its texts
                would stand in every prompt.
            subject: The subject; by default the memory's only one.

        Raises:
            TypeError: The provider is not a `FactStore`.
            ValueError: The profile names `scope`, or the memory has several subjects.
            UnboundSubjectError: The subject is per entity and has no entity.
        """
        return MemoryDocuments(
            fact_store(self._parts.provider), self._parts.selection.aside(scope, subject)
        )

    async def load_facts_to_agent(
        self,
        messages: list[History],
        concept: Concept[Any, L],
        *,
        scopes: Scopes = None,
        subjects: Subjects = None,
    ) -> LoadReport[L]:
        """Put the current facts of one concept into a chat. No call to a model.

        The memory message's lines about this concept are replaced; those about others stay as long
        as there is room. A message without facts is removed.
        """
        return await self._parts.loader.load_into(messages, concept, subjects, scopes)

    async def load_all_facts_to_agent(
        self, messages: list[History], *, scopes: Scopes = None, subjects: Subjects = None
    ) -> LoadReport:
        """Put the current facts of every concept into a chat. No call to a model.

        The whole memory message is replaced. Otherwise like `load_facts_to_agent`.
        """
        return await self._parts.loader.load_all_into(messages, subjects, scopes)

    async def current(
        self, concept: Concept[Any, L], *, scopes: Scopes = None, subjects: Subjects = None
    ) -> list[L]:
        """Return the current facts of a concept. No call to a model.

        At most one `SingleFact` for a concept of one value. For a concept of many values, one
        `MultipleFacts` per save, those of the most specific place first.
        """
        return await self._parts.loader.current(concept, subjects, scopes)

    async def current_all(
        self, *, scopes: Scopes = None, subjects: Subjects = None
    ) -> list[AnyFact]:
        """Return the current facts of every concept, ordered by keyword. No call to a model.

        Values of the memory's `concepts` have their types; all others are plain JSON.
        """
        return await self._parts.loader.current_all(subjects, scopes)

    async def why(
        self, fact: AnyFact, *, scopes: Scopes = None, subjects: Subjects = None
    ) -> FactOrigin | None:
        """Return sources, quotes and history of a fact; None if no place had one with its id."""
        return await self._parts.loader.origin(fact, subjects, scopes)

    async def save_facts_from_history(
        self,
        messages: list[History],
        concept: Concept[Any, Any],
        subject: MemorySubject,
        scope: ScopeChoice,
        *,
        preserve_questions: bool = False,
        **options: Unpack[ChatOptions],
    ) -> DetectionReport:
        """Find what a chat states about one concept, and save it. One call to the model.

        `preserve_questions` appends the question and the model's answer to `messages`; no fact is
        ever taken from these two. Otherwise like `auto_detect_facts`, which explains the other
        arguments: `trust`, `conversation`, `since`, `context`, `said_at`, `speaker`, `doubtful`,
        `verify` and `dry_run`.
        """
        return await self._parts.detection.find_one(
            messages, concept, subject, scope, preserve_questions=preserve_questions, **options
        )

    async def auto_detect_facts(
        self,
        messages: Sequence[History],
        *,
        subjects: Subjects = None,
        scopes: Scopes = None,
        concepts: Iterable[Concept[Any, Any]] = (),
        trust: Iterable[SourceKind] = (),
        conversation: str | None = None,
        since: int = 0,
        context: int | None = CONTEXT,
        said_at: datetime | None = None,
        speaker: str | None = None,
        doubtful: DoubtfulItems = "keep",
        verify: Verification = "off",
        only: Iterable[Concept[Any, Any]] | None = None,
        read_at: Mapping[Identity, Moment] | None = None,
        dry_run: bool = False,
    ) -> DetectionReport:
        """Find the facts that a chat states, about all subjects at once, and save them.

        One call to the model for each 6,000 tokens of messages; none if no message may be cited.
        Each item of its answer is validated alone; the report gives a reason for each item that was
        rejected. The facts of one place are saved in one durable write, all or none; places are
        written one after the other. A second run over the same chat saves nothing new.

        Facts come from messages of the user only, unless `trust` says otherwise: what a tool or a
        web page says never becomes a fact about the user. Messages that factmem added are ignored.

        Args:
            messages: The chat; not changed.
            subjects: See `AgentMemory`.
            scopes: See `AgentMemory`; where facts may be saved.
            concepts: Concepts with types, besides those of the memory.
            trust: Other speakers to believe: `SourceKind.ASSISTANT`, `SourceKind.TOOL`.
            conversation: The name of the chat, for the source of each fact. Without it, messages of
                two chats cannot be distinguished.
            since: The index of the first message that may be cited; earlier ones are context. Pass
                the number of messages that an earlier run has seen.
            context: The number of messages before `since` that the model sees; None for all.
            said_at: The time of messages that carry none, in the zone of its days; now by default.
            speaker: The `name` of the user who may be cited; by default the entity of a subject.
            doubtful: Whether items that are flagged in `report.doubtful` are saved.
            verify: The new items that a second call checks: some 250 tokens, and 40 for each item.
            only: Look for these concepts and no others.
            read_at: What `moment` returned when the chat was received; now by default. Facts about
                a place that was erased since then are not saved; `report.erased` has them.
            dry_run: Save nothing, only report.
        """
        return await self._parts.detection.find_all(
            messages,
            subjects,
            scopes,
            concepts=concepts,
            only=only,
            read_at=read_at,
            trust=trust,
            conversation=conversation,
            since=since,
            context=context,
            said_at=said_at,
            speaker=speaker,
            doubtful=doubtful,
            verify=verify,
            dry_run=dry_run,
        )

    async def remember(
        self,
        text: str,
        *,
        subject: MemorySubject | None = None,
        scope: ScopeChoice | None = None,
        source: FactSource | str | None = None,
        said_at: datetime | None = None,
        keep_failed: bool = False,
    ) -> DetectionReport:
        """Find the facts in a text, and save them. One call to the model.

        No call if the text is empty. The text is believed as a message of the user; the rules are
        those of `auto_detect_facts`, and each fact quotes the text.

        Args:
            text: What was said or written.
            subject: The subject of its facts; any of the memory's subjects by default.
            scope: The scope to save in; any of the memory's scopes by default.
            source: The application's name for the text, such as a ticket number, or a `FactSource`,
                whose kind and conversation are saved.
            said_at: When it was said or written; now by default.
            keep_failed: Keep the text in `failed_texts` if its extraction fails. The error is
                raised all the same, with a note. Needs a `FactStore`.
        """
        return await self._parts.texts.run(
            [text],
            subject=subject,
            scope=scope,
            source=source,
            said_at=said_at,
            keep_failed=keep_failed,
        )

    async def remember_many(
        self, texts: Iterable[str], **options: Unpack[TextOptions]
    ) -> DetectionReport:
        """Find the facts that several texts state, oldest first. One call to the model for all.

        A later text wins over an earlier one that it contradicts. The `message` in a fact's source
        is the index of its text. Otherwise like `remember`.
        """
        return await self._parts.texts.run(texts, **options)

    async def remember_later(self, text: str, **options: Unpack[TextOptions]) -> None:
        """Queue a text for `remember` in the background of an open memory.

        Wrong arguments raise at once. `flush` waits for queued texts and raises what failed, each
        with a note of the text's number, source and places. Texts about one subject keep order.
        A memory that is not open, or in another event loop, raises `RuntimeError`.
        """
        await self._parts.texts.queue([text], **options)

    async def remember_many_later(
        self, texts: Iterable[str], **options: Unpack[TextOptions]
    ) -> None:
        """Queue several texts for `remember_many`; otherwise like `remember_later`."""
        await self._parts.texts.queue(texts, **options)

    async def flush(self, *, subjects: Subjects = None, deadline: float | None = None) -> None:
        """Wait for texts that were queued before, in this memory or a view of it.

        A view waits for the texts that concern its own places only. Failures since the last time
        are raised in an `ExceptionGroup`.

        Args:
            subjects: Only texts that may concern any of these subjects.
            deadline: The most seconds to wait; then `TimeoutError`, and the texts stay queued.
        """
        await self._settings.pending.drain(self.boundary, subjects, deadline)

    def pending(self, *, subjects: Subjects = None) -> int:
        """Return the number of queued texts that are not processed, as `flush` waits for them."""
        return self._settings.pending.count(self.boundary, subjects)

    async def moment(
        self, *, subjects: Subjects = None, scopes: Scopes = None
    ) -> Mapping[Identity, Moment]:
        """Return the present moment of the places where facts may be saved. No call to a model.

        Take it when your code receives a chat and pass it as `read_at` to a detection that runs
        later: then nothing that is erased in between comes back. The result is opaque and belongs
        to this process.
        """
        return await self._parts.detection.moments(
            self._parts.selection.detection_places(subjects, scopes)
        )

    async def recall(
        self,
        query: str,
        *,
        limit: int = 5,
        min_score: float | None = None,
        subjects: Subjects = None,
        scopes: Scopes = None,
        concepts: Iterable[Concept[Any, Any] | str] | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        depth: Depth = "shallow",
        weights: RecallWeights | None = None,
        half_life: timedelta | None = None,
        source_kinds: Iterable[SourceKind] | None = None,
        min_importance: float | None = None,
        metadata: Mapping[str, JsonValue] | None = None,
    ) -> RecallResult:
        """Return the facts that a question may be about, best first.

        Only current facts are found: nothing retracted, expired or superseded, and for a concept of
        one value the fact of the most specific place. Several entities of one subject, as in
        `subjects=[USER.of("alice"), USER.of("bob")]`, are resolved separately. Queued texts are
        waited for. With `subjects=[USER.every()]` all entities are searched, a few at a time, and
        the most relevant matches come first.

        Without an embedder no model is called. With one: one call for the question, and one for
        every 512 facts of a place without a vector. If the embedder fails or exceeds the time in
        `recall_settings`, words alone are compared. `depth="deep"` makes one call to the chat model,
        which splits the question; if that fails, the question is searched as it is. The result's
        `failures` report both.

        Args:
            query: A question, or a few words.
            limit: The most matches to return.
            min_score: The smallest `relevance` of a match, from 0 to 1. Other facts of a
                conversation come with one that reaches it.
            subjects: See `AgentMemory`.
            scopes: See `AgentMemory`.
            concepts: The concepts to search, or their keywords; all by default.
            since: Only facts that were said from then on.
            until: Only facts that were said before.
            depth: "deep" has the chat model make up to three short questions of a long one, with
                their subjects and days. "auto" does so for long questions if there is a model.
            weights: The weights of the parts of a score.
            half_life: The time since its last confirmation after which a fact's recency is 0.5.
            source_kinds: Only facts from sources of these kinds.
            min_importance: Only facts of at least this importance.
            metadata: Only facts whose metadata has all of these keys, with equal values.
        """
        return await self._parts.recall.find(
            query,
            subjects,
            scopes,
            depth,
            limit=limit,
            min_score=min_score,
            concepts=concepts,
            since=since,
            until=until,
            weights=weights,
            half_life=half_life,
            source_kinds=source_kinds,
            min_importance=min_importance,
            metadata=metadata,
        )

    async def recall_facts_to_agent(
        self,
        messages: list[History],
        query: str | None = None,
        *,
        limit: int = 20,
        min_score: float | None = None,
        subjects: Subjects = None,
        scopes: Scopes = None,
        depth: Depth = "shallow",
        **filters: Unpack[RecallFilters],
    ) -> RecallReport:
        """Put the facts that a question is about into a chat, in place of all known facts.

        For agents that know more than a prompt should hold. The whole memory message is replaced.
        To add concepts that every prompt needs, call `load_facts_to_agent` afterwards. Within
        `max_tokens` the best matches are kept, in the order of their concepts, so that the same
        facts give the same bytes.

        A text of several sentences is searched sentence by sentence, the last eight that contain
        words, and a fact counts where it matches best. The query defaults to the user's last
        message; without a word, nothing is searched. `min_score` defaults to `prompt_min_score` of
        the memory's `recall_settings`. The other arguments, and the cost, are those of `recall`:
        `concepts`, `since`, `until`, `source_kinds`, `min_importance` and `metadata` filter facts.
        """
        return await self._parts.recall.find_into(
            messages,
            query,
            subjects,
            scopes,
            depth,
            limit=limit,
            min_score=min_score,
            **filters,
        )

    async def consolidate(
        self,
        concept: Concept[Any, Any],
        *,
        scopes: Scopes = None,
        subjects: Subjects = None,
        dry_run: bool = True,
    ) -> ConsolidationReport:
        """Ask the model which values of a concept mean the same, and merge them if `dry_run` is off.

        One call to the model for each place with two values or more, and for each 200 values there;
        values of two places are never in one call. The model only selects values: one is kept, the
        others are forgotten, and nothing is invented.

        By default nothing is written: check `merges` of the report, then pass it to `merge`. Each
        merge is one entry in the history of its place, written whole or not at all. The kept value
        gets the sources of the others, their greatest importance and their latest expiry; it counts
        as confirmed. Instructions are not merged: they raise `ValueError`.
        """
        return await self._parts.consolidator.consolidate(
            concept, subjects, scopes, dry_run=dry_run
        )

    async def merge(self, report: ConsolidationReport) -> ConsolidationReport:
        """Do the merges that a report of a dry run proposes. No call to a model.

        Only current values are merged: a kept value that was forgotten since does not come back,
        and such merges are in `outdated` of the returned report. A merge that was done before is
        not written again, so a failed call can be repeated; one that was undone is done again.
        """
        return await self._parts.consolidator.merge(report)

    async def restore(self, report: ConsolidationReport) -> int:
        """Undo the merges of a report, and return how many values came back. No call to a model.

        Each dropped value comes back with its date, source, importance and expiry. Nothing comes
        back if the kept value is no longer current, nor values that were purged, erased, have expired or are
        beyond the retained history. The kept values stay as they are.
        """
        return await self._parts.consolidator.restore(report)

    def tools(
        self,
        prefix: str = "memory_",
        *,
        writable: bool = True,
        save: bool = False,
        of: Callable[[Any], Who] | None = None,
    ) -> list[MemoryTool]:
        """Return tools for a model to use this memory; for `Agent(tools=...)` and other frameworks.

        `recall` finds what `AgentMemory.recall` finds; `list_concepts`; `remember` (one call to the
        chat model, and only if there is one) and `forget`. All are bound to the memory's default
        places: no argument of a model names a place. All wait for queued texts. Answers are JSON
        with exact counts, at most 8,000 characters long.

        Args:
            prefix: The beginning of the tools' names: letters, digits, `_` and `-`.
            writable: Whether to offer `remember`, `save` and `forget`; a read-only view never does.
            save: Whether to offer `save`, with which the model itself states a fact, without a call
                to the chat model. No quote proves such a fact: a page or a tool's result can talk a
                model into saving it. Its source is `SourceKind.ASSISTANT`.
            of: Returns the user of a call from the `context` that is passed to `MemoryTool.call`.
                The tools are then made once and serve every user. Without it they serve this
                memory's default subjects.
        """
        fact_store(self._parts.provider)
        if of is not None:
            user_of = expect_function(of, "of", "of=lambda context: context.user")
            late = partial(AgentMemory.tools, prefix=prefix, writable=writable, save=save)
            return MemoryTool.late(
                late(view_of_anyone(self)), lambda context: late(view_for(self, user_of(context)))
            )
        places = self._parts.selection.places()
        bound = self.view(places=places)
        saver = FactSaver(bound.provider, bound.contents, self._settings.concepts, places)
        return memory_tools(
            bound.recall,
            bound.contents,
            None
            if self._settings.chat_model is None
            else partial(bound.remember, source=_BY_MODEL),
            lambda: self._settings.pending.wait(bound.boundary),
            prefix=prefix,
            writable=writable and not self.boundary.is_read_only,
            save=saver.save if save and places else None,
            subjects=[place.subject for place in places],
            owned=[each.keyword for each in self._settings.concepts.values() if not each.detect],
        )

    async def aclose(self) -> None:
        """Do what `flush` does, and save vectors that are not in the store yet.

        The caller closes the store, after this; if it is closed already, no vectors are saved. The
        memory can still be used.
        """
        try:
            await self.flush()
        finally:
            await self._parts.search.keep_vectors(self.boundary.allows)

    async def __aenter__(self) -> Self:
        """Open the memory for `remember_later`; a view cannot be opened."""
        if self.boundary != UNBOUNDED:
            raise RuntimeError(
                "A view cannot be opened: open the memory that it was made of, which processes the "
                "texts of its views"
            )
        await self._settings.pending.open()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Process all queued texts, those of views included, and save vectors as `aclose` does.

        After an exception the texts are processed as well, and failures become a note on it. A
        cancellation cancels the texts, each with an event. Otherwise failures that `flush` did not
        raise are raised in an `ExceptionGroup`.
        """
        try:
            await self._settings.pending.close(exc_type, exc, traceback)
        finally:
            await self._parts.search.keep_vectors(self.boundary.allows)
