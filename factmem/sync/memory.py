"""MemorySync: an AgentMemory without await.

Written by tests/sync/generate.py: change the async class.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Self

from pydantic import JsonValue
from typing_extensions import Unpack

from factmem._arguments import expect
from factmem.detection.report import DetectionReport
from factmem.detection.request import DoubtfulItems, Verification
from factmem.llm.base import ChatModel
from factmem.llm.messages import History
from factmem.memory.agent_memory import AgentMemory
from factmem.memory.chat_detection import ChatOptions
from factmem.memory.consolidation import ConsolidationReport
from factmem.memory.origin import FactOrigin
from factmem.memory.selection import Scopes, Subjects
from factmem.memory.text_intake import TextOptions
from factmem.memory.users import Who
from factmem.models.boundary import Boundary
from factmem.models.clock import TimeProvider
from factmem.models.facts import AnyFact, Concept, L
from factmem.models.places import Identity, MemorySubject, Place
from factmem.models.scopes import ScopeChoice
from factmem.models.sources import FactSource, SourceKind
from factmem.prompt.memory_message import LoadReport
from factmem.prompt.transcript import CONTEXT
from factmem.providers.learning import Moment
from factmem.recall.match import RecallReport, RecallResult
from factmem.recall.query import Depth, RecallFilters, RecallWeights
from factmem.sync._wrapping import WrapsContext
from factmem.sync.contents import ContentsSync, ToolSync
from factmem.sync.documents import DocumentsSync, FailedTextsSync
from factmem.sync.portal import SHARED_PORTAL, Portal
from factmem.sync.stores import ProviderSync, StoreSync

__all__ = ["MemorySync"]


class MemorySync(WrapsContext[AgentMemory]):
    """An `AgentMemory` for code that does not use `await`.

        memory = MemorySync(AgentMemory(store, scopes=MemoryScopesProfile(agent="desk")))
        facts = memory.current_all()

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
        """The subjects of calls that name none."""
        return self._wrapped.subjects

    @property
    def places(self) -> tuple[Place, ...]:
        """The places of calls that name none: each subject in each scope, the narrowest first.

        Reading it raises `UnboundSubjectError` if a per-entity subject has no entity.
        """
        return self._wrapped.places

    @property
    def clock(self) -> TimeProvider:
        """Returns the time."""
        return self._wrapped.clock

    @property
    def chat_model(self) -> ChatModel | None:
        """The model that finds facts, or None."""
        return self._wrapped.chat_model

    @property
    def provider(self) -> ProviderSync:
        """The provider, restricted to the view's places; events report what is done with it."""
        return ProviderSync(self._wrapped.provider, self._portal)

    @property
    def store(self) -> StoreSync:
        """The provider as a `FactStore`: for `forget`, `erase`, histories and `export_facts`."""
        return StoreSync(self._wrapped.store, self._portal)

    @property
    def contents(self) -> ContentsSync:
        """What the memory holds: a tree of places, concepts, records; forgetting and clearing."""
        return ContentsSync(self._wrapped.contents, self._portal)

    @property
    def failed_texts(self) -> FailedTextsSync:
        """The texts that `remember(..., keep_failed=True)` could not read."""
        return FailedTextsSync(self._wrapped.failed_texts, self._portal)

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
        return type(self)(
            self._wrapped.view(
                subjects=subjects, scopes=scopes, places=places, read_only=read_only
            ),
            self._portal,
        )

    def of(self, entity: str, *levels: str) -> Self:
        """Return a view in which every unbound per-entity subject is bound to one entity.

        Without such a subject, `ValueError` is raised: the view would not be of that entity.
        """
        return type(self)(self._wrapped.of(entity, *levels), self._portal)

    def text(
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
        return self._portal.call(
            self._wrapped.text, question, limit, scopes=scopes, subjects=subjects
        )

    def documents(self, scope: ScopeChoice, subject: MemorySubject | None = None) -> DocumentsSync:
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
        return DocumentsSync(self._wrapped.documents(scope, subject), self._portal)

    def load_facts_to_agent(
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
        return self._portal.call(
            self._wrapped.load_facts_to_agent, messages, concept, scopes=scopes, subjects=subjects
        )

    def load_all_facts_to_agent(
        self, messages: list[History], *, scopes: Scopes = None, subjects: Subjects = None
    ) -> LoadReport:
        """Put the current facts of every concept into a chat. No call to a model.

        The whole memory message is replaced. Otherwise like `load_facts_to_agent`.
        """
        return self._portal.call(
            self._wrapped.load_all_facts_to_agent, messages, scopes=scopes, subjects=subjects
        )

    def current(
        self, concept: Concept[Any, L], *, scopes: Scopes = None, subjects: Subjects = None
    ) -> list[L]:
        """Return the current facts of a concept. No call to a model.

        At most one `SingleFact` for a concept of one value. For a concept of many values, one
        `MultipleFacts` per save, those of the most specific place first.
        """
        return self._portal.call(self._wrapped.current, concept, scopes=scopes, subjects=subjects)

    def current_all(self, *, scopes: Scopes = None, subjects: Subjects = None) -> list[AnyFact]:
        """Return the current facts of every concept, ordered by keyword. No call to a model.

        Values of the memory's `concepts` have their types; all others are plain JSON.
        """
        return self._portal.call(self._wrapped.current_all, scopes=scopes, subjects=subjects)

    def why(
        self, fact: AnyFact, *, scopes: Scopes = None, subjects: Subjects = None
    ) -> FactOrigin | None:
        """Return sources, quotes and history of a fact; None if no place had one with its id."""
        return self._portal.call(self._wrapped.why, fact, scopes=scopes, subjects=subjects)

    def save_facts_from_history(
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
        return self._portal.call(
            lambda: self._wrapped.save_facts_from_history(
                messages, concept, subject, scope, preserve_questions=preserve_questions, **options
            )
        )

    def auto_detect_facts(
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
        return self._portal.call(
            self._wrapped.auto_detect_facts,
            messages,
            subjects=subjects,
            scopes=scopes,
            concepts=concepts,
            trust=trust,
            conversation=conversation,
            since=since,
            context=context,
            said_at=said_at,
            speaker=speaker,
            doubtful=doubtful,
            verify=verify,
            only=only,
            read_at=read_at,
            dry_run=dry_run,
        )

    def remember(
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
        return self._portal.call(
            self._wrapped.remember,
            text,
            subject=subject,
            scope=scope,
            source=source,
            said_at=said_at,
            keep_failed=keep_failed,
        )

    def remember_many(
        self, texts: Iterable[str], **options: Unpack[TextOptions]
    ) -> DetectionReport:
        """Find the facts that several texts state, oldest first. One call to the model for all.

        A later text wins over an earlier one that it contradicts. The `message` in a fact's source
        is the index of its text. Otherwise like `remember`.
        """
        return self._portal.call(lambda: self._wrapped.remember_many(texts, **options))

    def remember_later(self, text: str, **options: Unpack[TextOptions]) -> None:
        """Queue a text for `remember` in the background of an open memory.

        Wrong arguments raise at once. `flush` waits for queued texts and raises what failed, each
        with a note of the text's number, source and places. Texts about one subject keep order.
        A memory that is not open, or in another event loop, raises `RuntimeError`.
        """
        return self._portal.call(lambda: self._wrapped.remember_later(text, **options))

    def remember_many_later(self, texts: Iterable[str], **options: Unpack[TextOptions]) -> None:
        """Queue several texts for `remember_many`; otherwise like `remember_later`."""
        return self._portal.call(lambda: self._wrapped.remember_many_later(texts, **options))

    def flush(self, *, subjects: Subjects = None, deadline: float | None = None) -> None:
        """Wait for texts that were queued before, in this memory or a view of it.

        A view waits for the texts that concern its own places only. Failures since the last time
        are raised in an `ExceptionGroup`.

        Args:
            subjects: Only texts that may concern any of these subjects.
            deadline: The most seconds to wait; then `TimeoutError`, and the texts stay queued.
        """
        return self._portal.call(self._wrapped.flush, subjects=subjects, deadline=deadline)

    def pending(self, *, subjects: Subjects = None) -> int:
        """Return the number of queued texts that are not processed, as `flush` waits for them."""
        return self._wrapped.pending(subjects=subjects)

    def moment(
        self, *, subjects: Subjects = None, scopes: Scopes = None
    ) -> Mapping[Identity, Moment]:
        """Return the present moment of the places where facts may be saved. No call to a model.

        Take it when your code receives a chat and pass it as `read_at` to a detection that runs
        later: then nothing that is erased in between comes back. The result is opaque and belongs
        to this process.
        """
        return self._portal.call(self._wrapped.moment, subjects=subjects, scopes=scopes)

    def recall(
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
        return self._portal.call(
            self._wrapped.recall,
            query,
            limit=limit,
            min_score=min_score,
            subjects=subjects,
            scopes=scopes,
            concepts=concepts,
            since=since,
            until=until,
            depth=depth,
            weights=weights,
            half_life=half_life,
            source_kinds=source_kinds,
            min_importance=min_importance,
            metadata=metadata,
        )

    def recall_facts_to_agent(
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
        return self._portal.call(
            lambda: self._wrapped.recall_facts_to_agent(
                messages,
                query,
                limit=limit,
                min_score=min_score,
                subjects=subjects,
                scopes=scopes,
                depth=depth,
                **filters,
            )
        )

    def consolidate(
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
        return self._portal.call(
            self._wrapped.consolidate, concept, scopes=scopes, subjects=subjects, dry_run=dry_run
        )

    def merge(self, report: ConsolidationReport) -> ConsolidationReport:
        """Do the merges that a report of a dry run proposes. No call to a model.

        Only current values are merged: a kept value that was forgotten since does not come back,
        and such merges are in `outdated` of the returned report. A merge that was done before is
        not written again, so a failed call can be repeated; one that was undone is done again.
        """
        return self._portal.call(self._wrapped.merge, report)

    def restore(self, report: ConsolidationReport) -> int:
        """Undo the merges of a report, and return how many values came back. No call to a model.

        Each dropped value comes back with its date, source, importance and expiry. Nothing comes
        back if the kept value is no longer current, nor values that were purged, erased, have expired or are
        beyond the retained history. The kept values stay as they are.
        """
        return self._portal.call(self._wrapped.restore, report)

    def tools(
        self,
        prefix: str = "memory_",
        *,
        writable: bool = True,
        save: bool = False,
        of: Callable[[Any], Who] | None = None,
    ) -> list[ToolSync]:
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
        return [
            ToolSync(each, self._portal)
            for each in self._wrapped.tools(prefix, writable=writable, save=save, of=of)
        ]
