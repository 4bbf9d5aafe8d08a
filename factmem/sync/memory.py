"""MemorySync: an AgentMemory without await.

Written by scripts/sync_twins.py: change the async class.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal, Self, overload

from typing_extensions import TypeVar

from factmem._arguments import expect
from factmem.detection.reconciliation import DetectionReport
from factmem.llm.messages import History
from factmem.memory.agent_memory import AgentMemory
from factmem.memory.consolidation import ConsolidationReport
from factmem.memory.origin import FactOrigin
from factmem.models.boundary import Boundary
from factmem.models.facts import AnyFact, Concept, MultipleFacts, SingleFact
from factmem.models.places import MemorySubject, Place
from factmem.models.scopes import ScopeChoice
from factmem.models.sources import FactSource, SourceKind
from factmem.prompt.memory_message import LoadReport
from factmem.recall.match import RecallReport, RecallResult
from factmem.recall.query import Depth, RecallWeights
from factmem.sync._wrapping import WrapsContext
from factmem.sync.contents import ContentsSync, ToolSync
from factmem.sync.portal import SHARED_PORTAL, Portal
from factmem.sync.stores import ProviderSync, StoreSync

__all__ = ["MemorySync"]
L = TypeVar("L", bound="SingleFact[Any] | MultipleFacts[Any]")


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
    def contents(self) -> ContentsSync:
        """What is in it: a tree of places, concepts, records; forgetting and clearing."""
        return ContentsSync(self._wrapped.contents, self._portal)

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
            TypeError: An argument is no list, or not of what it should be.
            UnboundSubjectError: A subject is per entity and names none.
        """
        return type(self)(
            self._wrapped.view(
                subjects=subjects, scopes=scopes, places=places, read_only=read_only
            ),
            self._portal,
        )

    def tools(
        self, prefix: str = "memory_", *, writable: bool = True, save: bool = False
    ) -> list[ToolSync]:
        """Return tools by which a model uses this memory; for `Agent(tools=...)` and others.

        They are `recall`, which finds what the method of that name finds, by words and with an
        embedder by meaning, `list_concepts`, `remember` (one call to the chat model; not offered
        without one) and `forget`, bound to the places that the memory concerns by default: no
        argument of a model names a place. All wait for texts that `remember` has queued. Answers
        are JSON with exact counts, and at most 8,000 characters long.

        Args:
            prefix: What their names begin with.
            writable: Whether to offer `remember`, `save` and `forget`; a read-only view never does.
            save: Whether to offer `save`, by which the model itself states a fact, without a call to
                the chat model. No quote proves such a fact: a page or a tool's result can talk a
                model into saving it. Its source is `SourceKind.ASSISTANT`.

        Raises:
            TypeError: The provider is no `FactStore`.
            UnboundSubjectError: A subject is per entity and names none: make a view first.
            ValueError: `prefix` makes names that endpoints refuse: they have up to 64 letters,
                digits, `_` and `-`.
        """
        return [
            ToolSync(each, self._portal)
            for each in self._wrapped.tools(prefix, writable=writable, save=save)
        ]

    def load_facts_to_agent(
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
            TypeError: `messages` cannot be changed in place, or an argument is of the wrong kind.
            UnboundSubjectError: A subject is per entity and names none.
            StorageError: A place could not be read.
        """
        return self._portal.call(
            self._wrapped.load_facts_to_agent, messages, concept, scopes=scopes, subjects=subjects
        )

    def load_all_facts_to_agent(
        self,
        messages: list[History],
        *,
        scopes: Iterable[ScopeChoice] | None = None,
        subjects: Iterable[MemorySubject] | None = None,
    ) -> LoadReport:
        """Put what holds about every concept into a chat. No call to a model.

        The whole memory message is replaced. Otherwise like `load_facts_to_agent`.

        Args:
            messages: The chat; changed in place.
            scopes: Where to look; all scopes of the profile by default.
            subjects: Whom to look for; those of the memory by default.

        Raises:
            TypeError: `messages` cannot be changed in place, or an argument is of the wrong kind.
            UnboundSubjectError: A subject is per entity and names none.
            StorageError: A place could not be read.
        """
        return self._portal.call(
            self._wrapped.load_all_facts_to_agent, messages, scopes=scopes, subjects=subjects
        )

    def current(
        self,
        concept: Concept[Any, L],
        *,
        scopes: Iterable[ScopeChoice] | None = None,
        subjects: Iterable[MemorySubject] | None = None,
    ) -> list[L]:
        """Return what holds about a concept. No call to a model.

        One `SingleFact` at most for a concept that holds one value. For one that holds many, a
        `MultipleFacts` for each save, those of the most specific place first.

        Args:
            concept: What to look up.
            scopes: Where to look; all scopes of the profile by default.
            subjects: Whom to look for; those of the memory by default.

        Raises:
            StoredFactError: A stored value does not fit the concept's `value_type`.
            UnboundSubjectError: A subject is per entity and names none.
            StorageError: A place could not be read.
        """
        return self._portal.call(self._wrapped.current, concept, scopes=scopes, subjects=subjects)

    def current_all(
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
            StorageError: A place could not be read.
        """
        return self._portal.call(self._wrapped.current_all, scopes=scopes, subjects=subjects)

    def why(
        self,
        fact: AnyFact,
        *,
        scopes: Iterable[ScopeChoice] | None = None,
        subjects: Iterable[MemorySubject] | None = None,
    ) -> FactOrigin | None:
        """Return who said a fact, in which words, and what happened to its concept since.

        No call to a model. None when none of the places has, or had, a fact of its id.

        Args:
            fact: What to explain, such as one that `current` or `recall` gave.
            scopes: Where to look for it; all scopes of the profile by default.
            subjects: Whom it may concern; those of the memory by default.

        Raises:
            TypeError: `fact` is none.
            UnboundSubjectError: A subject is per entity and names none.
            StorageError: A place could not be read.
        """
        return self._portal.call(self._wrapped.why, fact, scopes=scopes, subjects=subjects)

    @overload
    def remember(
        self,
        text: str,
        *,
        subject: MemorySubject | None = None,
        scope: ScopeChoice | None = None,
        source: FactSource | str | None = None,
        wait: Literal[True] = True,
    ) -> DetectionReport: ...

    @overload
    def remember(
        self,
        text: str,
        *,
        subject: MemorySubject | None = None,
        scope: ScopeChoice | None = None,
        source: FactSource | str | None = None,
        wait: Literal[False],
    ) -> None: ...

    def remember(
        self,
        text: str,
        *,
        subject: MemorySubject | None = None,
        scope: ScopeChoice | None = None,
        source: FactSource | str | None = None,
        wait: bool = True,
    ) -> DetectionReport | None:
        """Find the facts that a text states, and save them. One call to a model.

        No call when the text is empty. The facts of one place are saved in one durable write.

        Args:
            text: What somebody said or wrote. It is believed as a user's message is.
            subject: Whom it concerns; any of the memory's subjects by default.
            scope: Where its facts are saved; any scope of the memory by default.
            source: Where it comes from: the application's name for it, such as a ticket's number,
                or a `FactSource`, of which the kind and the conversation are noted.
            wait: Whether to wait for it. If not, the memory must be open; the text is looked at
                in the background, `flush` waits for that, and nothing is returned. What fails then
                has a note with the text's number, counted in the order of such calls from 1 on,
                with the name of its source and with its places.

        Raises:
            TypeError: `text` is none, or another argument is of the wrong kind. No model was asked.
            UnboundSubjectError: A subject is per entity and names none. No model was asked.
            MemoryAccessError: A view does not let this be written. No model was asked.
            ValueError: There is no chat model, or no place to save to. No model was asked.
            RuntimeError: `wait` is not set, and the memory is not open.
            ChatModelError: The model's endpoint failed. Nothing was saved.
            ExtractionError: The model's answer could not be used. Nothing was saved.
            StorageError: A place could not be read or written.
        """
        any_call: Any = self._wrapped.remember
        result: DetectionReport | None = self._portal.call(
            any_call, text, subject=subject, scope=scope, source=source, wait=wait
        )
        return result

    @overload
    def remember_many(
        self,
        texts: Iterable[str],
        *,
        subject: MemorySubject | None = None,
        scope: ScopeChoice | None = None,
        source: FactSource | str | None = None,
        wait: Literal[True] = True,
    ) -> DetectionReport: ...

    @overload
    def remember_many(
        self,
        texts: Iterable[str],
        *,
        subject: MemorySubject | None = None,
        scope: ScopeChoice | None = None,
        source: FactSource | str | None = None,
        wait: Literal[False],
    ) -> None: ...

    def remember_many(
        self,
        texts: Iterable[str],
        *,
        subject: MemorySubject | None = None,
        scope: ScopeChoice | None = None,
        source: FactSource | str | None = None,
        wait: bool = True,
    ) -> DetectionReport | None:
        """Find the facts that several texts state, oldest first. One call to a model for all.

        A later text wins over an earlier one that it contradicts. The `message` in the source of a
        fact is the position of its text. Otherwise like `remember`.
        """
        any_call: Any = self._wrapped.remember_many
        result: DetectionReport | None = self._portal.call(
            any_call, texts, subject=subject, scope=scope, source=source, wait=wait
        )
        return result

    def flush(self) -> None:
        """Wait until every text that was queued before, here or in a view of it, was looked at.

        A view waits for the texts that concern no places but its own.

        Raises:
            ExceptionGroup: What failed since the last time.
        """
        return self._portal.call(self._wrapped.flush)

    def save_facts_from_history(
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
            TypeError: An argument is of the wrong kind, such as a text for `messages`. No model was
                asked.
            MemoryAccessError: A view does not let this be written. No model was asked.
            ValueError: There is no chat model, the scope has no name, or `preserve_questions` is
                set while a tool call waits for its result.
        """
        return self._portal.call(
            self._wrapped.save_facts_from_history,
            messages,
            concept,
            subject,
            scope,
            preserve_questions=preserve_questions,
            trust=trust,
            conversation=conversation,
            since=since,
            dry_run=dry_run,
        )

    def auto_detect_facts(
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
            TypeError: An argument is of the wrong kind, such as a text for `messages`, of which
                `remember` finds the facts. No model was asked.
            UnboundSubjectError: A subject is per entity and names none. No model was asked.
            MemoryAccessError: A view does not let this be written. No model was asked.
            ValueError: There is no chat model, no scope has a name, or two of the places would
                look the same to a model. No model was asked.
            ChatModelError: The model's endpoint failed. Nothing was saved.
            ExtractionError: The model's answer could not be used. Nothing was saved.
            StorageError: A place could not be read, or one was not written; what was written
                before stays.
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
            dry_run=dry_run,
        )

    def recall(
        self,
        query: str,
        *,
        limit: int = 5,
        min_score: float | None = None,
        subjects: Iterable[MemorySubject] | None = None,
        scopes: Iterable[ScopeChoice] | None = None,
        concepts: Iterable[Concept[Any, Any] | str] | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        depth: Depth = "shallow",
        weights: RecallWeights | None = None,
        half_life: timedelta | None = None,
    ) -> RecallResult:
        """Return the facts that a question may be about, the best first.

        Only what holds is found: nothing retracted, expired or superseded, and of a concept that
        holds one value what the most specific place says. Of several entities of one subject, as
        in `subjects=[USER.of("alice"), USER.of("bob")]`, each is looked at for itself. Texts that
        `remember` has queued are waited for.

        Without an embedder no model is asked and nothing is sent anywhere. With one, the question
        is embedded, and so is each fact that has no vector yet: one call for the question, and one
        for every 512 of these in a place. When the embedder fails, or takes longer than the
        memory's `recall_settings` allow, words alone are compared; what came back is kept. With
        `depth="deep"` the chat model is asked once to take the question apart; when that fails,
        the question is searched as it is. The result's `failures` tell either.

        The first recall over some places reads all their facts, later ones only those of places
        that have changed. Work that takes time is done in worker threads.

        Args:
            query: A question, or a few words.
            limit: How many matches to return at most.
            min_score: What a match's `relevance` must reach, from 0 to 1; that of the memory's
                `recall_settings` by default.
            subjects: Whom to look for; those of the memory by default.
            scopes: Where to look; all scopes of the profile by default.
            concepts: The concepts to look at, or their keywords; all by default.
            since: Only what was said from then on.
            until: Only what was said before.
            depth: "deep" asks the chat model to make up to three short questions of a long one,
                with the subjects and the days that they are about. "auto" does so for questions
                over a length, if there is a chat model.
            weights: How the parts of a score are weighed.
            half_life: After what time since its last confirmation a fact's recency is one half.

        Raises:
            ValueError: The query is empty, an option is out of its range, a datetime is naive, or
                `depth` is "deep" and there is no chat model.
            UnboundSubjectError: A subject is per entity and names none.
            MissingExtraError: The embedder needs a package that is not installed.
            StorageError: A place could not be read.
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
        )

    def recall_facts_to_agent(
        self,
        messages: list[History],
        query: str | None = None,
        *,
        limit: int = 20,
        min_score: float | None = None,
        subjects: Iterable[MemorySubject] | None = None,
        scopes: Iterable[ScopeChoice] | None = None,
        concepts: Iterable[Concept[Any, Any] | str] | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        depth: Depth = "shallow",
    ) -> RecallReport:
        """Put the facts that a question is about into a chat, in place of all that is known.

        It is for agents that know more than a prompt should hold. What `recall` finds is put where
        `load_all_facts_to_agent` puts everything, in the same form, and the whole memory message
        is replaced: what an earlier question was about goes. Concepts that are to be there whatever
        is asked are loaded after it, by `load_facts_to_agent`. When nothing is found nothing is
        said. Within the memory's `max_tokens` the best matches are kept; those that are kept stand
        in the order of their concepts, so that the same facts give the same bytes.

        A text of several sentences is searched for sentence by sentence, the last eight of those
        that say anything, and a fact that several of them are about counts where it matches best.
        What it costs is what `recall` costs. On an error or a cancellation `messages` is as it was.

        Args:
            messages: The chat; changed in place.
            query: What to look for; the words of the user's last message by default. Without a
                word nothing is looked for, and nothing is found.
            limit: How many facts to put there at most.
            min_score: What a match's `relevance` must reach, from 0 to 1; `prompt_min_score` of the
                memory's `recall_settings` by default.
            subjects: Whom to look for; those of the memory by default.
            scopes: Where to look; all scopes of the profile by default.
            concepts: The concepts to look at, or their keywords; all by default.
            since: Only what was said from then on.
            until: Only what was said before.
            depth: Whether the chat model takes the text apart; see `recall`.

        Raises:
            ValueError: An option is out of its range, as `recall` says.
            TypeError: `messages` cannot be changed in place, or an argument is of the wrong kind.
            UnboundSubjectError: A subject is per entity and names none.
            MissingExtraError: The embedder needs a package that is not installed.
            StorageError: A place could not be read.
        """
        return self._portal.call(
            self._wrapped.recall_facts_to_agent,
            messages,
            query,
            limit=limit,
            min_score=min_score,
            subjects=subjects,
            scopes=scopes,
            concepts=concepts,
            since=since,
            until=until,
            depth=depth,
        )

    def consolidate(
        self,
        concept: Concept[Any, Any],
        *,
        scopes: Iterable[ScopeChoice] | None = None,
        subjects: Iterable[MemorySubject] | None = None,
        dry_run: bool = True,
    ) -> ConsolidationReport:
        """Ask the model which values of a concept mean the same, and merge them if told to.

        One call to the model for each place that holds two values or more, and for each 200 values
        that it holds; values of two places are never in one call. The model only points at values
        that it was shown: one of them is kept, the others are forgotten, and nothing is made up.

        By default nothing is written. Look at `merges` of the report, and hand it to `merge`; with
        `dry_run=False` the same is done at once. Each merge is one entry in the history of its
        place, written whole or not at all. The value that is kept gains the sources of the others,
        and has the greatest importance and the latest expiry among them; it counts as confirmed.

        Args:
            concept: What to tidy up; it holds many values.
            scopes: Where; all scopes of the profile by default.
            subjects: For whom; those of the memory by default.
            dry_run: Write nothing, only report.

        Raises:
            ValueError: The concept holds one value, or there is no chat model. No model was asked.
            TypeError: `concept` is none; or `dry_run` is not set, and the provider is no
                `FactStore`. No model was asked.
            UnboundSubjectError: A subject is per entity and names none. No model was asked.
            MemoryAccessError: A view does not let this be written. No model was asked.
            StoredFactError: A stored value does not fit the concept's `value_type`.
            ChatModelError: The model's endpoint failed. Nothing was merged.
            ExtractionError: The model's answer could not be used. Nothing was merged.
            StorageError: A place could not be read or written; what was merged before stays.
        """
        return self._portal.call(
            self._wrapped.consolidate, concept, scopes=scopes, subjects=subjects, dry_run=dry_run
        )

    def merge(self, report: ConsolidationReport) -> ConsolidationReport:
        """Merge what a report of a dry run proposes. No call to a model.

        What it proposes holds as far as the values are current still: a kept value that was
        forgotten since does not come back, and such merges are in `outdated` of the report that is
        returned. A merge that was done before is not written again, so that a call that failed can
        be repeated; one that was undone is done again. Places are written one after the other.

        Raises:
            TypeError: `report` is none, or the provider is no `FactStore`.
            MemoryAccessError: A view does not let one of the places be written. Nothing was merged.
            StorageError: A place could not be written; what was merged before stays.
        """
        return self._portal.call(self._wrapped.merge, report)

    def restore(self, report: ConsolidationReport) -> int:
        """Undo the merges of a report, and return how many values came back. No call to a model.

        Each dropped value comes back as it was: when it was said, who said it, how important it
        was and when it expires; history shows a new save. Where the value that was kept is not
        current any more, nothing comes back: whoever had it forgotten meant the others as well. Nor
        does what was purged or erased since, has expired, or is beyond the history that the store
        keeps. The values that were kept are not touched: what the merge gave them, they keep.

        Raises:
            TypeError: `report` is none, or the provider is no `FactStore`.
            MemoryAccessError: A view does not let one of the places be written. Nothing came back.
            StorageError: A place could not be written; what came back before stays.
        """
        return self._portal.call(self._wrapped.restore, report)

    @property
    def boundary(self) -> Boundary:
        """What the memory may touch: everything, unless it is a view."""
        return self._wrapped.boundary

    @property
    def provider(self) -> ProviderSync:
        """Where facts are; of a view, a provider that holds no more than the view shows.

        It has the four methods that every provider has, and what is done through it is told to
        listeners. `store` is the same as a `FactStore`.
        """
        return ProviderSync(self._wrapped.provider, self._portal)

    @property
    def store(self) -> StoreSync:
        """The provider, where it is a `FactStore`; of a view, no more of it than the view shows.

        It is what code forgets, erases and reads histories through, and what `export_facts` takes.

        Raises:
            TypeError: The provider is no `FactStore`: it has `save` and three ways to load.
        """
        return StoreSync(self._wrapped.store, self._portal)
