"""The memory of an agent: facts into its prompt, facts out of its chats."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from copy import copy
from datetime import UTC, datetime
from typing import Any, Self, TypeVar

from factmem.boundary import Boundary
from factmem.consolidating import ConsolidatesFacts
from factmem.contents import MemoryContents
from factmem.detection import DetectionReport
from factmem.embedding.base import Embedder
from factmem.events import EventListener, MemoryEvents, MemoryOperation
from factmem.llm.base import ChatModel
from factmem.loading import FactReader
from factmem.memory_message import LoadReport, MemoryMessage
from factmem.memory_tools import MemoryTool, memory_tools
from factmem.messages import QUESTION_MESSAGE, History
from factmem.models import (
    AnyFact,
    Concept,
    MemorySubject,
    MultipleFacts,
    Place,
    SingleFact,
    SourceKind,
)
from factmem.observing import observed
from factmem.origin import FactOrigin, origin_of
from factmem.prompts import question_about
from factmem.provider import AgentMemoryProvider, FactStore, TimeProvider
from factmem.reach import Reach, check_distinct
from factmem.recall.recalling import RecallsFacts
from factmem.recall.search import FactSearch
from factmem.recall.settings import RecallSettings
from factmem.recall.warm import WarmIndexes
from factmem.remembering import PendingTexts, RemembersText, noted
from factmem.resolution import Resolution
from factmem.saving import FactDetector
from factmem.scopes import MemoryScopesProfile, ScopeChoice
from factmem.tokens import TokenCounter, estimate_tokens
from factmem.transcript import Transcript
from factmem.views import viewed

__all__ = ["AgentMemory"]

L = TypeVar("L", bound="SingleFact[Any] | MultipleFacts[Any]")
_NO_NAMES = MemoryScopesProfile()
_USUAL = RecallSettings()


def _now() -> datetime:
    return datetime.now(UTC)


class AgentMemory(RemembersText, RecallsFacts, ConsolidatesFacts):
    """Puts what is known into chats, and saves what chats state.

    A chat is a `list` of OpenAI chat-completions message dicts. It is changed in place, and only
    by one message, which factmem recognises by its name: `factmem_memory`.

    An instance holds no state of any chat, user or event loop: one serves any number of tasks
    at once. Which facts a call may touch is up to its `subjects` and `scopes`.

    Args:
        provider: Where facts are. The four methods of `AgentMemoryProvider` are enough; without
            `forget` nothing can be retracted, and without `history` `why` tells no history.
        chat_model: Who finds facts in chats. Loading never asks it.
        embedder: Makes vectors for `recall`, which compares words alone without one. Nothing else
            asks it. It stays its maker's to close.
        scopes: The scope that each type of scope means.
        subjects: Whom facts concern, where a call does not say. A per-entity subject among them
            must be bound in each call: `subjects=[USER.of("alice")]`.
        concepts: The concepts whose value types the application knows.
        clock: Tells the time that detected facts carry, and that recency is reckoned from.
        recall_settings: How `recall` weighs matches, where a call does not say.
        max_tokens: The most that the memory message may take; None sets no limit.
        token_counter: Counts the tokens of a text; an estimate by default, which needs no package
            and rather counts too many.
        listeners: Who is told of every operation, those on `provider` included; see
            `factmem.events`.
        include_values: Whether events hold facts and queries.

    Raises:
        ValueError: Two of `concepts` have one keyword, or `max_tokens` has no room for a fact.
    """

    def __init__(
        self,
        provider: AgentMemoryProvider,
        *,
        chat_model: ChatModel | None = None,
        embedder: Embedder | None = None,
        scopes: MemoryScopesProfile = _NO_NAMES,
        subjects: Iterable[MemorySubject] = (MemorySubject.EVERYTHING,),
        concepts: Iterable[Concept[Any, Any]] = (),
        clock: TimeProvider = _now,
        recall_settings: RecallSettings = _USUAL,
        max_tokens: int | None = None,
        token_counter: TokenCounter = estimate_tokens,
        listeners: Iterable[EventListener] = (),
        include_values: bool = False,
    ) -> None:
        self._chat_model = chat_model
        self._embedder = embedder
        self._recall_settings = recall_settings
        self._warm = WarmIndexes()
        self._concepts = _by_keyword(concepts)
        self._clock = clock
        self._events = MemoryEvents(listeners, include_values=include_values)
        self._pending = PendingTexts()
        self._reach = Reach(subjects, scopes)
        self._message = MemoryMessage(self._reach.subjects, max_tokens, token_counter)
        self._connect(provider)

    def _connect(self, provider: AgentMemoryProvider) -> None:
        """Make everything that reads or writes facts: nothing else here may hold a provider.

        A view is a copy that is connected to a provider of which less is there.
        """
        self._unobserved = provider
        self._provider = provider = observed(provider, self._events)
        self._reader = FactReader(provider, self._concepts.values())
        self._detector = FactDetector(provider, self._reader, self._clock)
        self._search = FactSearch(
            self._unobserved,
            self._reader,
            self._warm,
            self._events,
            embedder=self._embedder,
            chat_model=self._chat_model,
            settings=self._recall_settings,
            clock=self._clock,
        )

    @property
    def provider(self) -> AgentMemoryProvider:
        """Where facts are; of a view, a provider that holds no more than the view shows.

        It is what code saves and forgets through, and what `export_facts` takes.
        """
        return self._provider

    @property
    def contents(self) -> MemoryContents:
        """What is in it: a tree of places, concepts, records; forgetting and clearing."""
        return MemoryContents(self._provider, self._reader, self._reach)

    @property
    def boundary(self) -> Boundary:
        """What the memory may touch: everything, unless it is a view."""
        return self._reach.boundary

    def view(
        self,
        *,
        subjects: Iterable[MemorySubject] | None = None,
        scopes: Iterable[ScopeChoice] | None = None,
        places: Iterable[Place] | None = None,
        read_only: bool = False,
    ) -> Self:
        """Return this memory restricted to some of its places. No call to a model, no I/O.

        A place is in the view when its subject is among `subjects`, its scope among `scopes`, and
        itself among `places`, as far as they are given; an empty list lets nothing in. Places are
        the same by their identity, never by a description. What is given is also what calls
        concern that do not say; a view of a view has what both have.

        Everything that a memory can do goes through the same guarded provider: asking for what is
        outside gives nothing, as if it had never been written, and writing there, or at all when
        the view is read-only, raises `MemoryAccessError` before anything is asked or written. A
        view made of what a request may see is what is handed to the code, and to the tools of a
        model, that serves this request.

        Args:
            subjects: Whom facts may concern.
            scopes: Where they may be; a type of scope means the one that the memory has for it.
            places: These very places; several that have nothing in common are one view.
            read_only: Whether writing raises.

        Raises:
            UnboundSubjectError: A subject is per entity and names none.
        """
        made = copy(self)
        made._reach = self._reach.narrowed(
            subjects=subjects, scopes=scopes, places=places, read_only=read_only
        )
        made._connect(viewed(self._unobserved, made._reach.boundary))
        return made

    def tools(self, prefix: str = "memory_", *, writable: bool = True) -> list[MemoryTool]:
        """Return tools by which a model uses this memory; for `Agent(tools=...)` and others.

        They are `recall`, which finds what the method of that name finds, by words and with an
        embedder by meaning, `list_concepts`, `remember` (one call to the chat model; not offered
        without one) and `forget`, bound to the places that the memory concerns by default: no
        argument of a model names a place. All wait for texts that `remember` has queued. Answers
        are JSON with exact counts, and at most 8,000 characters long.

        Args:
            prefix: What their names begin with.
            writable: Whether to offer `remember` and `forget`; a read-only view never does.

        Raises:
            TypeError: The provider is no `FactStore`.
            UnboundSubjectError: A subject is per entity and names none: make a view first.
        """
        if not isinstance(self._provider, FactStore):
            raise TypeError(f"Tools need a FactStore, and {type(self._provider).__name__} is none")
        places = self._reach.places()
        bound = self.view(places=places)
        return memory_tools(
            bound.recall,
            bound.contents,
            None if self._chat_model is None else bound.remember,
            bound._caught_up,
            prefix=prefix,
            writable=writable and not self.boundary.is_read_only,
        )

    async def load_facts_to_agent(
        self,
        messages: list[History],
        concept: Concept[Any, L],
        *,
        scopes: Iterable[ScopeChoice] | None = None,
        subjects: Iterable[MemorySubject] | None = None,
    ) -> LoadReport[L]:
        """Put what holds about a concept into a chat. No call to a model.

        What the memory message says about the concept is replaced, what it says about others stays
        as long as there is room. When nothing is known nothing is said, and a message that would
        say nothing is removed. On an error or a cancellation `messages` is as it was.

        Args:
            messages: The chat; changed in place.
            concept: What to look up.
            scopes: Where to look; all scopes of the profile by default. A type of scope without
                a name is passed over.
            subjects: Whom to look for; those of the memory by default.

        Raises:
            UnboundSubjectError: A subject is per entity and names none.
            StorageError: A place could not be read.
        """
        places = self._places(subjects, scopes)
        resolution = await self._reader.concept(concept, places)
        return self._message.put(messages, resolution, places, {concept.keyword})

    async def load_all_facts_to_agent(
        self,
        messages: list[History],
        *,
        scopes: Iterable[ScopeChoice] | None = None,
        subjects: Iterable[MemorySubject] | None = None,
    ) -> LoadReport:
        """Put what holds about every concept into a chat. No call to a model.

        The whole memory message is replaced. Otherwise like `load_facts_to_agent`.
        """
        places = self._places(subjects, scopes)
        resolution = await self._reader.everything(places)
        return self._message.put(messages, resolution, places, None)

    async def current(
        self,
        concept: Concept[Any, L],
        *,
        scopes: Iterable[ScopeChoice] | None = None,
        subjects: Iterable[MemorySubject] | None = None,
    ) -> list[L]:
        """Return what holds about a concept. No call to a model.

        One `SingleFact` at most for a concept that holds one value. For one that holds many, a
        `MultipleFacts` for each save, those of the most specific place first.

        Raises:
            StoredFactError: A stored value does not fit the concept's `value_type`.
            UnboundSubjectError: A subject is per entity and names none.
        """
        places = self._places(subjects, scopes)
        return _readable(await self._reader.concept(concept, places))

    async def current_all(
        self,
        *,
        scopes: Iterable[ScopeChoice] | None = None,
        subjects: Iterable[MemorySubject] | None = None,
    ) -> list[AnyFact]:
        """Return what holds about every concept, ordered by keyword. No call to a model.

        Values of the memory's `concepts` have their types, all others are plain JSON.

        Raises:
            StoredFactError: A stored value does not fit the type of one of the memory's `concepts`.
            UnboundSubjectError: A subject is per entity and names none.
        """
        return _readable(await self._reader.everything(self._places(subjects, scopes)))

    async def save_facts_from_history(
        self,
        messages: list[History],
        concept: Concept[Any, Any],
        subject: MemorySubject,
        scope: ScopeChoice,
        *,
        preserve_questions: bool = False,
        trust: Iterable[SourceKind] = (),
        conversation: str | None = None,
        since: int = 0,
        dry_run: bool = False,
    ) -> DetectionReport:
        """Ask the model what a chat states about one concept, and save it. One call to a model.

        Nothing is saved when the chat does not say. Otherwise like `auto_detect_facts`.

        Args:
            messages: The chat; not changed unless `preserve_questions` is set.
            concept: What to look for.
            subject: Whom it concerns.
            scope: Where to save it.
            preserve_questions: Append the question and the model's answer to `messages`. No facts
                are ever taken from them.
            trust: See `auto_detect_facts`, as for the rest.
            conversation: The application's name for the chat.
            since: The index of the first message that may be cited.
            dry_run: Save nothing, only report.

        Raises:
            MemoryAccessError: A view does not let this be written. No model was asked.
            ValueError: There is no chat model, the scope has no name, or `preserve_questions` is
                set while a tool call waits for its result.
        """
        if preserve_questions and messages and messages[-1].get("tool_calls"):
            raise ValueError(
                "preserve_questions would tear a tool call from its result: append the result first"
            )
        async with self._events.operation(MemoryOperation.DETECT) as seen:
            chat_model = self._model()
            seen.places = [self._place(subject, scope)]
            transcript = Transcript(messages, trust=trust, since=since)
            report, answer = await self._detector.detect(
                chat_model,
                transcript,
                seen.places,
                declared=[concept],
                is_closed=True,
                conversation=conversation,
                dry_run=dry_run,
            )
            noted(report, seen)
        if preserve_questions and transcript:
            history: list[Any] = messages
            question = {"role": "user", "content": question_about(concept)}
            history.append({**question, "name": QUESTION_MESSAGE})
            history.append({"role": "assistant", "content": answer, "name": QUESTION_MESSAGE})
        return report

    async def auto_detect_facts(
        self,
        messages: Sequence[History],
        *,
        subjects: Iterable[MemorySubject] | None = None,
        scopes: Iterable[ScopeChoice] | None = None,
        concepts: Iterable[Concept[Any, Any]] = (),
        trust: Iterable[SourceKind] = (),
        conversation: str | None = None,
        since: int = 0,
        dry_run: bool = False,
    ) -> DetectionReport:
        """Find the facts that a chat states, about all subjects at once, and save them.

        One call to a model; none when no message may be cited. Each item of its answer is judged
        alone, and what is not taken is in the report with the reason. The facts of one place are
        saved in one durable write, all or none; places are written one after the other. A second
        run over the same chat saves nothing new.

        Facts come from the user's messages only, unless `trust` says otherwise: what a tool or a
        web page says never becomes a fact about the user. What factmem put into the chat itself
        is never taken for something that was said.

        Args:
            messages: The chat; not changed.
            subjects: Whom facts may concern; those of the memory by default.
            scopes: Where they may be saved; all scopes of the profile by default.
            concepts: Concepts with types, besides those of the memory.
            trust: Who besides the user is believed: `SourceKind.ASSISTANT`, `SourceKind.TOOL`.
            conversation: The application's name for the chat, for the source of each fact. It
                should be given: messages of two chats without a name cannot be told apart.
            since: The index of the first message that may be cited. Earlier ones only help to
                understand; pass the number of messages that an earlier run has seen.
            dry_run: Save nothing, only report.

        Raises:
            UnboundSubjectError: A subject is per entity and names none. No model was asked.
            MemoryAccessError: A view does not let this be written. No model was asked.
            ValueError: There is no chat model, no scope has a name, or two of the places would
                look the same to a model. No model was asked.
            ChatModelError: The model's endpoint failed. Nothing was saved.
            ExtractionError: The model's answer could not be used. Nothing was saved.
            StorageError: A place could not be read, or one was not written; what was written
                before stays.
        """
        async with self._events.operation(MemoryOperation.DETECT) as seen:
            seen.places, detect = self._detection_in(
                Transcript(messages, trust=trust, since=since),
                None if subjects is None else tuple(subjects),
                None if scopes is None else tuple(scopes),
                conversation,
                concepts=concepts,
                dry_run=dry_run,
            )
            return noted(await detect(), seen)

    async def why(
        self,
        fact: AnyFact,
        *,
        scopes: Iterable[ScopeChoice] | None = None,
        subjects: Iterable[MemorySubject] | None = None,
    ) -> FactOrigin | None:
        """Return who said a fact, in which words, and what happened to its concept since.

        No call to a model. None when none of the places has, or had, a fact of its id.

        Raises:
            UnboundSubjectError: A subject is per entity and names none.
        """
        return await origin_of(fact, self._places(subjects, scopes), self._provider)

    def _detection_in(
        self,
        transcript: Transcript,
        subjects: Sequence[MemorySubject] | None,
        scopes: Sequence[ScopeChoice] | None,
        conversation: str | None,
        *,
        concepts: Iterable[Concept[Any, Any]] = (),
        dry_run: bool = False,
    ) -> tuple[list[Place], Callable[[], Awaitable[DetectionReport]]]:
        """Return where a detection may write, and the detection; raise what forbids it."""
        places = self._reach.writable_places(subjects, scopes)
        check_distinct(places)
        chat_model = self._model()
        declared = list((self._concepts | _by_keyword(concepts)).values())

        async def detect() -> DetectionReport:
            report, _ = await self._detector.detect(
                chat_model,
                transcript,
                places,
                declared=declared,
                conversation=conversation,
                dry_run=dry_run,
            )
            return report

        return places, detect

    def _places(
        self, subjects: Iterable[MemorySubject] | None, scopes: Iterable[ScopeChoice] | None
    ) -> list[Place]:
        """Return the places that a call may touch; everything goes through here or `_place`."""
        return self._reach.places(subjects, scopes)

    def _place(self, subject: MemorySubject, scope: ScopeChoice) -> Place:
        """Return the one place that a call writes to."""
        return self._reach.place(subject, scope)

    async def _caught_up(self) -> None:
        """Wait until what is being written in the background is written."""
        await self._pending.wait(self.boundary)

    def _model(self) -> ChatModel:
        if self._chat_model is None:
            raise ValueError(
                "Finding facts in a chat takes a model: AgentMemory(..., chat_model=...)"
            )
        return self._chat_model


def _by_keyword(concepts: Iterable[Concept[Any, Any]]) -> dict[str, Concept[Any, Any]]:
    by_keyword: dict[str, Concept[Any, Any]] = {}
    for concept in concepts:
        if by_keyword.setdefault(concept.keyword, concept) != concept:
            raise ValueError(f"Two concepts have the keyword {concept.keyword!r}: keep one")
    return by_keyword


def _readable(resolution: Resolution[L]) -> list[L]:
    if resolution.unreadable:
        raise resolution.unreadable[0].error
    return resolution.facts
