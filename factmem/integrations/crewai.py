"""Memory for CrewAI: crews, agents and flows, and lessons from human feedback.

    crew = Crew(agents=[agent], tasks=[task], memory=FactmemMemory.of(memory, user="alice"))
    crew.kickoff()

It needs the extra `crewai`. It replaces CrewAI's own memory: there is no vector table, no embedding
per recall and no model call per saved text.

Background saves run in the threads of CrewAI's `Memory`, and each of them in the portal. A recall
first waits for them, so that it finds what the last task has saved.

A path exists if the store lists a place of it. The private notes of a source have a scope of their
own, behind `//`, so that no prompt, tool or search of others reads them. Every call makes a view of
the paths it names, which cannot reach facts of other users.
"""

import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import nullcontext, suppress
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Literal, TypeAlias, TypeVar

from crewai.events import crewai_event_bus
from crewai.events.base_events import BaseEvent
from crewai.events.types import memory_events
from crewai.memory.types import MemoryMatch, MemoryRecord, ScopeInfo
from crewai.memory.unified_memory import Memory
from crewai.memory.utils import join_scope_paths
from pydantic import PrivateAttr, SerializationInfo, model_serializer

from factmem.detection.report import DetectionReport
from factmem.errors import ChatModelError, ExtractionError, InputValueError
from factmem.ledger.resolution import PlacedFact
from factmem.memory.agent_memory import AgentMemory
from factmem.memory.runs import AT_ONCE, UNREACHABLE, MemoryRuns, Who
from factmem.models.facts import Concept, FactSource, FactType, MultipleFacts, SourceKind
from factmem.models.places import MemoryScope, Place, acting_unless_named
from factmem.models.recall_filter import RecallFilter
from factmem.recall.match import Match, prompt_line
from factmem.sync.portal import SHARED_PORTAL

__all__ = ["FactmemMemory", "lesson_concept"]

T = TypeVar("T")

_NOTES = "notes"
"""The concept of texts that were saved verbatim; that of a category is `notes-<category>`."""

CATEGORIES = "categories"
"""The metadata of a note with categories, the first of which is in its concept too."""

_MANY = 1_000_000


class Paths:
    """The methods of CrewAI's `StorageBackend` that need no vector; each path is a scope."""

    def __init__(self, view: AgentMemory) -> None:
        self._view = view
        self._own = list(dict.fromkeys(place.scope for place in view.places))

    def at(self, path: str) -> AgentMemory:
        """Return the memory of one path."""
        return self._view if path == "/" else self._view.view(scopes=[self.scope(path)])

    async def below(self, path: str, readers: Sequence[str] | None = None) -> AgentMemory:
        """Return the memory of a path and all below, with private notes of some sources or all."""
        marks = None if readers is None else {"", *map(_mark, readers)}
        scopes = [
            each
            for each in await self._stored(path)
            if marks is None
            or each.name.removeprefix(self._own[0].name).partition("//")[2] in marks
        ]
        return self._view.view(scopes=[*self._own, *scopes] if path == "/" else scopes)

    def call(self, path: str | None, work: Callable[[AgentMemory], Awaitable[T]]) -> T:
        """Run a function in the portal with the memory of a path and of all paths below."""

        async def run() -> T:
            return await work(await self.below(join_scope_paths(path, None)))

        return SHARED_PORTAL.call(run)

    def scope(self, path: str, *, private: bool = False, source: str | None = None) -> MemoryScope:
        """Return the scope of a path, or that of the private notes of a source in it."""
        home = self._own[0]
        if path == "/" and not private:
            return home
        behind = f"//{_mark(source)}" if private else ""
        return MemoryScope(home.type, home.name + ("" if path == "/" else path) + behind)

    def _is_below(self, scope: MemoryScope) -> bool:
        home = self._own[0]
        return scope.type is home.type and scope.name.startswith(f"{home.name}/")

    def _path(self, scope: MemoryScope) -> str:
        behind = scope.name.removeprefix(self._own[0].name) if self._is_below(scope) else ""
        return behind.partition("//")[0] or "/"

    async def _stored(self, path: str) -> list[MemoryScope]:
        places = await self._view.store.list_places(subjects=self._view.subjects)
        scopes = {each.scope for each in places if self._is_below(each.scope)}
        first = f"{path.rstrip('/')}/"
        found = [each for each in scopes if f"{self._path(each).rstrip('/')}/".startswith(first)]
        return sorted(found, key=lambda scope: scope.name)

    def record(self, placed: PlacedFact[Any]) -> MemoryRecord:
        """Return a fact as a record."""
        fact, keyword = placed.fact, placed.fact.concept.keyword
        metadata, text = dict(fact.metadata), prompt_line(fact)  # CrewAI prompts with it unescaped
        if keyword == _NOTES or keyword.startswith(f"{_NOTES}-"):
            text = text.removeprefix(f"{fact.concept.description}: ")[1:-1]
        named = [] if keyword == _NOTES else [keyword.removeprefix(f"{_NOTES}-")]
        return MemoryRecord(
            id=fact.id,
            content=text,
            scope=self._path(placed.place.scope),
            categories=metadata.pop(CATEGORIES, None) or named,
            private="//" in placed.place.scope.name.removeprefix(self._own[0].name),
            metadata=metadata,
            importance=fact.importance,
            created_at=fact.timestamp.astimezone(UTC).replace(tzinfo=None),
            last_accessed=placed.heard_at.astimezone(UTC).replace(tzinfo=None),
            source=None if fact.source is None else fact.source.conversation,
        )

    def match(self, found: Match) -> MemoryMatch:
        """Return a fact as a match, with its reasons."""
        reasons = {"lexical": found.lexical > 0, "semantic": found.semantic > 0}
        reasons |= {"recency": found.recency > 0.5, "importance": found.importance > 0.5}
        return MemoryMatch(
            record=self.record(PlacedFact(found.place, found.fact)),
            score=found.relevance,
            match_reasons=[name for name, is_one in reasons.items() if is_one],
        )

    def of_categories(
        self, found: Iterable[PlacedFact[Any]], categories: Iterable[str] | None
    ) -> list[PlacedFact[Any]]:
        """Return the facts of concepts, by keyword, and the notes with any of these categories."""
        wanted = None if categories is None else set(categories)
        return [e for e in found if wanted is None or wanted & {*self.record(e).categories}]

    def delete(
        self,
        scope_prefix: str | None = None,
        categories: list[str] | None = None,
        record_ids: list[str] | None = None,
        older_than: datetime | None = None,
        metadata_filter: dict[str, Any] | None = None,
    ) -> int:
        """Forget the current values that meet all conditions; those of `/` need one."""
        conditions = (categories, record_ids, older_than, metadata_filter)
        if scope_prefix in (None, "/") and conditions == (None,) * 4:
            raise ValueError("forget needs a condition or a path; reset erases everything")
        if older_than is not None and older_than.tzinfo is None:
            older_than = older_than.replace(tzinfo=UTC)  # CrewAI's times are naive, in UTC

        async def forget(view: AgentMemory) -> int:
            found = await view.contents.records(_MANY, metadata=metadata_filter)
            ids = [
                each.fact.id
                for each in self.of_categories(found, categories)
                if (record_ids is None or each.fact.id in record_ids)
                and (older_than is None or each.heard_at < older_than)
            ]
            return await view.contents.delete(*ids)

        return self.call(scope_prefix, forget)

    def list_records(
        self, scope_prefix: str | None = None, limit: int = 200, offset: int = 0
    ) -> list[MemoryRecord]:
        """Return the current facts, last confirmed first."""
        found = self.call(scope_prefix, lambda view: view.contents.records(limit, offset))
        return [self.record(each) for each in found]

    def count(self, scope_prefix: str | None = None) -> int:
        """Return the number of current facts."""
        return self.call(scope_prefix, lambda view: view.contents.records(0)).total

    def list_categories(self, scope_prefix: str | None = None) -> dict[str, int]:
        """Return the concepts, and the categories of notes, with the number of their values."""
        counts = Counter[str]()
        for each in self.call(scope_prefix, lambda view: view.contents.records(_MANY)):
            counts.update(dict.fromkeys(self.record(each).categories, len(each.fact.values)))
        return dict(counts)

    def list_scopes(self, parent: str = "/") -> list[str]:
        """Return the paths directly below a path."""
        first = f"{parent.rstrip('/')}/"
        scopes = SHARED_PORTAL.call(self._stored, join_scope_paths(parent, None))
        paths = {self._path(each) for each in scopes} - {"/"}
        rest = {path.removeprefix(first).partition("/")[0] for path in paths if path != parent}
        return sorted(f"{first}{name}" for name in rest)

    def get_scope_info(self, scope: str) -> ScopeInfo:
        """Return the number of records, their categories, times, and the paths directly below."""
        records = self.list_records(scope, _MANY)
        times = [each.created_at for each in records]
        return ScopeInfo(
            path=scope,
            record_count=len(records),
            categories=sorted({name for each in records for name in each.categories}),
            oldest_record=min(times, default=None),
            newest_record=max(times, default=None),
            child_scopes=self.list_scopes(scope),
        )

    def reset(self, scope_prefix: str | None = None) -> None:
        """Erase all facts, with their history. Other users keep theirs."""
        self.call(scope_prefix, lambda view: view.contents.reset(confirm=True))


def _mark(source: str | None) -> str:
    """Return the form of a source in the name of a scope, as a source may have any length."""
    return sha256((source or "").encode()).hexdigest()[:16]


_LESSON_SOURCE = "hitl"
"""The default `learn_source` of CrewAI's `@human_feedback(learn=True)`."""

_TYPE = "unified_memory"
"""The source type of CrewAI's events of a memory."""

_Note: TypeAlias = tuple[list[str] | None, dict[str, Any] | None, float | None, bool]
"""Categories, metadata, importance and privacy."""

_FAILED = "crewai"
"""The conversation of texts whose detection failed, if they have no source."""


class FactmemMemory(Memory):
    """The memory of one user as CrewAI's `Memory`. Create it with `of`.

    Crews, agents, flows and the tools `search_memory` and `save_to_memory` use it. If the
    `AgentMemory` has a chat model, facts in a task and its answer are detected with one call for
    each task, in the background; the crew waits at its end. The source kind is `ASSISTANT`, because
    CrewAI passes task and answer as one string. Without a chat model, and if the caller names
    `categories`, a text is saved verbatim as a note.

    Lessons that CrewAI distills from human feedback are saved verbatim, one fact each, under
    `lesson_concept`. They are those of CrewAI's default `learn_source`, "hitl".

    A path, as in `memory.scope("/team/api")` and `memory.slice([...])`, is a `MemoryScope` of its
    own with the name of the memory's narrowest one before it: `agent/desk/team/api` for the agent
    "desk". Other users, and memories with other scopes, do not reach it. The path `/` is the places
    of the view and all paths below. Without a path nothing is saved elsewhere: no model selects
    one.

    Queries and saves emit CrewAI's events, with their texts, as those of CrewAI's own memory do.

    A failure of the store does not end a run: the model reads that the memory cannot be reached.
    `remember` raises the error, because it returns the saved record.
    """

    _view: AgentMemory = PrivateAttr()
    _runs: MemoryRuns[None] = PrivateAttr()
    _paths: Paths = PrivateAttr()

    @classmethod
    def of(
        cls,
        memory: AgentMemory,
        *,
        user: Who = None,
        root_scope: str | None = None,
        read_only: bool = False,
        on_report: Callable[[DetectionReport], None] | None = None,
        on_failure: Callable[[Exception], None] | Literal["raise"] | None = None,
    ) -> "FactmemMemory":
        """Return the memory of a user, for the crews, agents and flows of this user.

        Args:
            memory: The memory.
            user: The user; None if the memory is already bound.
            root_scope: The path before all others; CrewAI extends it by the role of each agent.
            read_only: Whether to prevent saves. Agents then get no tool that saves.
            on_report: Called with the report of each detection, which includes rejected items.
            on_failure: Called with each error; by default its type is logged. "raise" raises
                it, and CrewAI decides what ends the run.

        Raises:
            UnboundSubjectError: There is no `user`, and a per-entity subject has no entity.
            TypeError: An argument has the wrong type.
            ValueError: The memory has no scope, or no per-entity subject for `user`.
        """
        runs = MemoryRuns[None](
            memory,
            user=user,
            auto_detect=memory.chat_model is not None,
            tools=False,
            on_report=on_report,
            on_failure=on_failure,
        )
        view = runs.view(None).view(read_only=read_only)
        made: FactmemMemory = cls.model_construct(
            read_only=view.boundary.is_read_only, root_scope=root_scope
        )
        made._runs, made._view = runs, view
        made._paths = storage = Paths(view)
        made._storage = storage  # type: ignore[assignment] # it has no search by vectors
        # `Agent.copy` (as in `kickoff_for_each`) dumps an agent's memory with the schema of
        # `Memory` and would turn it into a plain `Memory`. A value that this schema cannot dump
        # makes pydantic use the serializer below, which returns this object.
        object.__setattr__(made, "default_importance", "each fact has its own")
        return made

    def __init__(self, **_: object) -> None:
        raise TypeError(
            "FactmemMemory is a view of a memory: FactmemMemory.of(memory, user='alice')"
        )

    def model_post_init(self, context: Any, /) -> None:
        """Do not open a storage; CrewAI's would create a LanceDB folder."""

    @model_serializer(mode="plain")
    def _kept(self, info: SerializationInfo) -> Any:
        return None if info.mode_is_json() else self  # no fact in a checkpoint

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> "FactmemMemory":
        return self  # copies of a crew share one memory

    def recall(
        self,
        query: str,
        scope: str | None = None,
        categories: list[str] | None = None,
        limit: int = 10,
        depth: object = "shallow",
        source: str | None = None,
        include_private: bool = False,
    ) -> list[MemoryMatch]:
        """Return the facts that are relevant to a query, best first. No call to a chat model.

        `categories` are concepts, by keyword, and those of notes. The source "hitl" returns the
        lessons, best match first; `include_private` the private notes of any source.
        """
        if not query.strip():
            return []
        self.drain_writes()
        path = join_scope_paths(self.root_scope, scope)
        readers = [source] if source else []  # no reader may see a private note without a source
        asked: dict[str, Any] = {"query": query, "limit": limit, "source_type": _TYPE}
        self._emit(memory_events.MemoryQueryStartedEvent(**asked))
        begun = time.perf_counter()

        async def found() -> list[MemoryMatch]:
            try:
                view = await self._paths.below(path, None if include_private else readers)
                return await self._found(view, query, categories, limit, source)
            except Exception as exc:
                self._emit(memory_events.MemoryQueryFailedEvent(**asked, error=type(exc).__name__))
                raise

        matches = SHARED_PORTAL.call(self._runs.attempt, found)
        if matches is None:
            return [MemoryMatch(record=MemoryRecord(content=UNREACHABLE), score=0.0)]
        spent = (time.perf_counter() - begun) * 1000
        self._emit(
            memory_events.MemoryQueryCompletedEvent(**asked, results=matches, query_time_ms=spent)
        )
        return matches

    async def _found(
        self,
        view: AgentMemory,
        query: str,
        categories: list[str] | None,
        limit: int,
        source: str | None,
    ) -> list[MemoryMatch]:
        is_lesson = source == _LESSON_SOURCE  # all are returned, those that match first
        among: list[PlacedFact[Any]] | None = None
        if is_lesson:
            among = [*await view.contents.records(_MANY, concepts=[lesson_concept()])]
        elif categories is not None:
            among = self._paths.of_categories(await view.contents.records(_MANY), categories)
        if among == []:
            return []
        ids = {each.fact.id for each in among or ()}
        keywords = None if among is None else sorted({e.fact.concept.keyword for e in among})
        most = limit if among is None else _MANY  # other notes of these concepts are left out
        # This method searches a task of many sentences sentence by sentence.
        report = await view.recall_facts_to_agent(
            [], query, limit=max(most, 1), where=RecallFilter(concepts=keywords)
        )
        best = [each for each in report.matches if among is None or each.fact.id in ids]
        found = [self._paths.match(each) for each in best]
        if is_lesson and among:
            shown = {each.fact.id for each in best}
            rest = (self._paths.record(each) for each in among if each.fact.id not in shown)
            found += [MemoryMatch(record=each, score=0.0) for each in rest]
        return found[:limit]

    def _emit(self, event: BaseEvent) -> None:
        with suppress(RuntimeError):  # at the end of a process the bus is closed
            crewai_event_bus.emit(self, event)

    def extract_memories(self, content: str) -> list[str]:
        """Return the text unchanged; nothing if there is no chat model.

        `remember_many` detects the facts, which saves a call to the model.
        """
        return [content] if self._view.chat_model is not None and content.strip() else []

    def remember(
        self,
        content: str,
        scope: str | None = None,
        categories: list[str] | None = None,
        metadata: dict[str, Any] | None = None,
        importance: float | None = None,
        source: str | None = None,
        private: bool = False,
        agent_role: str | None = None,
        root_scope: str | None = None,
    ) -> MemoryRecord | None:
        """Detect facts in a text, or save it verbatim as a note. Returns the first one as a record.

        Each of `categories` selects a note; the first is in its concept, `notes-<category>`.
        `source` is the conversation of the fact's source, or "hitl" for a lesson. A private note
        is in no prompt, and found only by a `recall` with its `source`. `agent_role` is the actor
        of the fact, unless `acting` names another one.

        Raises:
            StorageError: A place could not be read or written.
            ChatModelError: The memory's model failed. The text is kept, to be learnt later, at `/`.
        """
        if self.read_only:
            return None
        path = join_scope_paths(self.root_scope if root_scope is None else root_scope, scope)
        note = (categories, metadata, importance, private)
        records = SHARED_PORTAL.call(self._reported, [content], path, source, note, agent_role)
        return records[0] if records else MemoryRecord(content="no lasting fact", importance=0.0)

    def remember_many(
        self,
        contents: list[str],
        scope: str | None = None,
        categories: list[str] | None = None,
        metadata: dict[str, Any] | None = None,
        importance: float | None = None,
        source: str | None = None,
        private: bool = False,
        agent_role: str | None = None,
        root_scope: str | None = None,
    ) -> list[MemoryRecord]:
        """Save texts as `remember` does, in the background. `drain_writes` waits for it."""
        if not contents or self.read_only:
            return []
        texts, note = list(contents), (categories, metadata, importance, private)
        path = join_scope_paths(self.root_scope if root_scope is None else root_scope, scope)
        work = self._runs.attempt
        self._submit_save(
            lambda: SHARED_PORTAL.call(
                work, lambda: self._reported(texts, path, source, note, agent_role)
            )
        )
        return []

    async def _reported(
        self, texts: list[str], path: str, source: str | None, note: _Note, role: str | None
    ) -> list[MemoryRecord]:
        """Save texts, in the name of an agent, between two events of CrewAI."""
        of: dict[str, Any] = {"metadata": note[1] or {}, "agent_role": role, "source_type": _TYPE}
        value = texts[0] if len(texts) == 1 else f"{len(texts)} texts"
        self._emit(memory_events.MemorySaveStartedEvent(value=value, **of))
        begun = time.perf_counter()
        try:
            with acting_unless_named(role) if role and role.strip() else nullcontext():
                records = await self._save(texts, path, source, note)
        except Exception as exc:
            self._emit(
                memory_events.MemorySaveFailedEvent(value=value, error=type(exc).__name__, **of)
            )
            raise
        spent = (time.perf_counter() - begun) * 1000
        self._emit(memory_events.MemorySaveCompletedEvent(value=value, save_time_ms=spent, **of))
        return records

    async def _save(
        self, texts: list[str], path: str, source: str | None, note: _Note
    ) -> list[MemoryRecord]:
        view, (categories, metadata, importance, private) = self._paths.at(path), note
        by_model = FactSource(SourceKind.ASSISTANT, conversation=source)
        is_lesson = source == _LESSON_SOURCE
        if not (is_lesson or private or categories is not None or view.chat_model is None):
            try:
                report = await view.remember(texts, source=by_model)
            except (ChatModelError, ExtractionError):
                # A worker learns it later: `memory.conversations.learn()`.
                said = {"role": "user", "written_by": by_model.kind.value}
                kept = self._view.conversation(source or _FAILED, learn_after=AT_ONCE)
                await kept.append(*({**said, "content": each} for each in texts))
                raise
            self._runs.on_report(report)
            return [self._paths.record(each) for each in (*report.saved, *report.confirmed)]
        keyword = f"{_NOTES}-{categories[0]}" if categories else _NOTES
        notes = Concept(keyword, "A note of CrewAI", FactType.MULTIPLE, detect=False)
        concept = lesson_concept() if is_lesson else notes
        options: dict[str, Any] = {} if importance is None else {"importance": importance}
        options |= {"source": by_model, "metadata": {**(metadata or {}), **_marks(categories)}}
        words = (each.strip() for each in texts)
        facts = [MultipleFacts(concept, [text], **options) for text in words if text]
        scope = self._paths.scope(path, private=private, source=source)
        place = Place(scope, self._view.places[0].subject)
        await self._view.store.save_many(facts, place.subject, place.scope)
        return [self._paths.record(PlacedFact(place, each)) for each in facts]

    def update(
        self,
        record_id: str,
        content: str | None = None,
        scope: str | None = None,
        categories: list[str] | None = None,
        metadata: dict[str, Any] | None = None,
        importance: float | None = None,
    ) -> MemoryRecord:
        """Change the value, categories, metadata or importance of a record, but not its path.

        The old value stays in its history.

        Raises:
            ValueError: The record does not exist, or is to get another path.
        """

        async def changed(view: AgentMemory) -> PlacedFact[Any] | None:
            placed = await view.contents.get(record_id)
            if placed is None or self.read_only:
                return placed
            if scope is not None and scope != self._paths.record(placed).scope:
                raise InputValueError("A record keeps its path: remember its text there")
            before = dict(placed.fact.metadata)
            named: Any = before.pop(CATEGORIES, None) if categories is None else categories
            new = {**(before if metadata is None else metadata), **_marks(named)}
            given: dict[str, Any] = {"metadata": new, "importance": importance}
            is_single = placed.fact.concept.fact_type is FactType.SINGLE
            if content is not None:
                given |= {"value": content} if is_single else {"values": [content]}
            changes = {name: value for name, value in given.items() if value is not None}
            return await view.contents.update(record_id, **changes)

        placed = self._paths.call("/", changed)
        if placed is None:
            raise ValueError("No current fact has this record_id")
        return self._paths.record(placed)


def _marks(categories: list[str] | None) -> dict[str, Any]:
    return {CATEGORIES: categories} if categories else {}


def lesson_concept() -> Concept[str, MultipleFacts[str]]:
    """Return the concept of lessons from human feedback.

    Declare it with `AgentMemory(concepts=[lesson_concept()])` to prevent other models from adding
    or forgetting lessons.
    """
    about = "What human feedback taught for later tasks"
    return Concept(f"lessons-{_LESSON_SOURCE}", about, FactType.MULTIPLE, detect=False)
