"""Memory for CrewAI: crews, agents and flows, and lessons from human feedback.

    crew = Crew(agents=[agent], tasks=[task], memory=FactmemMemory.of(memory, user="alice"))
    crew.kickoff()

It needs the extra `crewai`. It replaces CrewAI's own memory: there is no vector table, no embedding
per recall and no model call per saved text.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import Future
from datetime import UTC, datetime
from typing import Any, Literal

from crewai.memory.types import MemoryMatch, MemoryRecord, ScopeInfo
from crewai.memory.unified_memory import Memory
from pydantic import PrivateAttr, SerializationInfo, model_serializer

from factmem.detection.report import DetectionReport
from factmem.ledger.resolution import PlacedFact
from factmem.memory.agent_memory import AgentMemory
from factmem.memory.runs import UNREACHABLE, MemoryRuns, Who
from factmem.models.facts import Concept, FactType, MultipleFacts
from factmem.models.recall_filter import RecallFilter
from factmem.models.sources import FactSource, SourceKind
from factmem.prompt._escaping import value_text
from factmem.recall._documents import plain_values
from factmem.recall.match import RecallResult
from factmem.sync.portal import SHARED_PORTAL, Portal

__all__ = ["FactmemMemory", "lesson_concept"]

_LESSON_SOURCE = "hitl"
"""The default `learn_source` of CrewAI's `@human_feedback(learn=True)`."""

_ROOT = (None, "", "/")
_MANY = 1_000_000


class FactmemMemory(Memory):
    """The memory of one user as CrewAI's `Memory`. Create it with `of`.

    Crews, agents, flows and the tools `search_memory` and `save_to_memory` use it. If the
    `AgentMemory` has a chat model, facts in a task and its answer are detected with one call for
    each task, in the background; the crew waits at its end. The source kind is `ASSISTANT`, because
    CrewAI passes task and answer as one string.

    Lessons that CrewAI distills from human feedback are saved verbatim, one fact each, under
    `lesson_concept`. They are those of CrewAI's default `learn_source`, "hitl".

    Scope paths are not supported: the memory has the places of its view. A search in a path other
    than `/` finds nothing, and saving there raises `ValueError`. A failure of the store does not
    end a run: the model reads that the memory cannot be reached. `remember` raises the error,
    because it returns the saved record.
    """

    _view: AgentMemory = PrivateAttr()
    _runs: MemoryRuns[None] = PrivateAttr()
    _portal: Portal = PrivateAttr()
    _saving: set[Future[Any]] = PrivateAttr(default_factory=set)

    @classmethod
    def of(
        cls,
        memory: AgentMemory,
        *,
        user: Who = None,
        read_only: bool = False,
        portal: Portal = SHARED_PORTAL,
        on_report: Callable[[DetectionReport], None] | None = None,
        on_failure: Callable[[Exception], None] | Literal["raise"] | None = None,
    ) -> "FactmemMemory":
        """Return the memory of a user, for the crews, agents and flows of this user.

        Args:
            memory: The memory.
            user: The user; None if the memory is already bound.
            read_only: Whether to prevent saves. Agents then get no tool that saves.
            portal: The portal in which the memory runs.
            on_report: Called with the report of each detection, which includes rejected items.
            on_failure: Called with each error; by default its type is logged. "raise" raises
                it, and CrewAI decides what ends the run.

        Raises:
            UnboundSubjectError: There is no `user`, and a per-entity subject has no entity.
            TypeError: An argument has the wrong type.
            ValueError: The memory has no scope, or no per-entity subject for `user`.
        """
        runs = MemoryRuns[None](
            memory, user=user, tools=False, on_report=on_report, on_failure=on_failure
        )
        view = runs.view(None).view(read_only=read_only)
        made = cls(read_only=view.boundary.is_read_only)
        made._view, made._runs, made._portal = view, runs, portal
        # `Agent.copy` (as in `kickoff_for_each`) dumps an agent's memory with the schema of
        # `Memory` and would turn it into a plain `Memory`. A value that this schema cannot dump
        # makes pydantic use the serializer below, which returns this object.
        object.__setattr__(made, "default_importance", "each fact has its own")
        return made

    def model_post_init(self, context: Any, /) -> None:
        """Do not open a storage; CrewAI's would create a LanceDB folder."""

    @model_serializer(mode="plain")
    def _kept(self, info: SerializationInfo) -> Any:
        return False if info.mode_is_json() else self  # no fact in a checkpoint

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

        Args:
            query: A question or a task.
            scope: A path; only `/` has facts.
            categories: Search only these concepts, by keyword.
            limit: The maximum of matches.
            depth: Ignored.
            source: "hitl" to return the lessons, best match first.
            include_private: Ignored: a view has no private facts.
        """
        if scope not in _ROOT or not query.strip():
            return []
        self.drain_writes()
        if source == _LESSON_SOURCE:
            lessons = self._portal.call(self._runs.attempt, lambda: self._lessons(query))
            return (lessons or [])[:limit]

        async def found() -> RecallResult:
            # This method searches a task of many sentences sentence by sentence.
            wanted = RecallFilter(concepts=categories or None)
            report = await self._view.recall_facts_to_agent([], query, limit=limit, where=wanted)
            return report.matches

        matches = self._portal.call(self._runs.attempt, found)
        if matches is None:
            return [MemoryMatch(record=MemoryRecord(content=UNREACHABLE), score=0.0)]
        return [_match(PlacedFact(each.place, each.fact), score=each.relevance) for each in matches]

    async def _lessons(self, query: str) -> list[MemoryMatch]:
        """Return all lessons: by relevance to the query, then by age."""
        concept = lesson_concept()
        stored = await self._view.contents.records(_MANY, concepts=[concept])
        fitting = await self._view.recall_facts_to_agent(
            [], query, limit=max(len(stored), 1), where=RecallFilter(concepts=[concept])
        )
        scores = {each.fact.id: each.relevance for each in fitting.matches}
        found = [_match(each, score=scores.get(each.fact.id, 0.0)) for each in stored]
        return sorted(found, key=lambda match: -match.score)

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
        """Detect facts in a string and save them. Returns the first one as a record.

        `scope` and `source` have the meaning of `recall`; the other arguments are ignored.

        Raises:
            ValueError: The scope is a path, or the memory has no chat model.
            StorageError: A place could not be read or written.
        """
        if self.read_only:
            return None
        self._check(scope, source)
        records = self._portal.call(self._save_texts, [content], source)
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
        """Detect facts in strings and save them in the background. `drain_writes` waits for it.

        Raises:
            ValueError: The scope is a path, or the memory has no chat model.
        """
        if not contents or self.read_only:
            return []
        self._check(scope, source)
        texts = list(contents)
        saving = self._portal.start(self._runs.attempt, lambda: self._save_texts(texts, source))
        self._saving.add(saving)
        saving.add_done_callback(self._saving.discard)
        return []

    def _check(self, scope: str | None, source: str | None) -> None:
        if scope not in _ROOT:
            raise ValueError(
                "scope must be None or '/', because factmem has no scope paths: pass a view with "
                "the places of the crew"
            )
        if self._view.chat_model is None and source != _LESSON_SOURCE:
            raise ValueError("The memory has no model to detect facts: AgentMemory(chat_model=...)")

    async def _save_texts(self, texts: list[str], source: str | None) -> list[MemoryRecord]:
        if source == _LESSON_SOURCE:
            return await self._save_lessons(texts)
        report = await self._view.remember(
            texts, source=FactSource(SourceKind.ASSISTANT, conversation=source)
        )
        self._runs.on_report(report)
        return [_record(placed) for placed in (*report.saved, *report.confirmed)]

    async def _save_lessons(self, texts: Iterable[str]) -> list[MemoryRecord]:
        place = self._view.places[0]
        by_model = FactSource(SourceKind.ASSISTANT, conversation=_LESSON_SOURCE)
        lessons = [
            MultipleFacts(lesson_concept(), [text.strip()], source=by_model)
            for text in texts
            if text.strip()
        ]
        for lesson in lessons:
            await self._view.store.save(lesson, place.subject, place.scope)
        return [_record(PlacedFact(place, each)) for each in lessons]

    def drain_writes(self) -> None:
        """Wait for the saves of `remember_many`. Their errors are passed to `on_failure`."""
        for saving in list(self._saving):
            saving.exception()

    def close(self) -> None:
        """Same as `drain_writes`. The application closes the store."""
        self.drain_writes()

    def forget(
        self,
        scope: str | None = None,
        categories: list[str] | None = None,
        older_than: datetime | None = None,
        metadata_filter: dict[str, Any] | None = None,
        record_ids: list[str] | None = None,
    ) -> int:
        """Forget the current values that meet all conditions, and return their number.

        Raises:
            ValueError: There is no condition; `reset` erases everything.
        """
        if scope not in _ROOT:
            return 0
        if older_than is not None and older_than.tzinfo is None:
            older_than = older_than.replace(tzinfo=UTC)  # CrewAI's times are naive, in UTC
        concepts = None if categories is None else [Concept(each, each) for each in categories]
        return self._portal.call(
            self._view.contents.forget,
            concepts=concepts,
            older_than=older_than,
            metadata=metadata_filter,
            fact_ids=record_ids,
        )

    def update(
        self,
        record_id: str,
        content: str | None = None,
        scope: str | None = None,
        categories: list[str] | None = None,
        metadata: dict[str, Any] | None = None,
        importance: float | None = None,
    ) -> MemoryRecord:
        """Change the value, metadata or importance of a record. The old value stays in its history.

        Raises:
            ValueError: The record does not exist, or no change was passed.
        """
        contents = self._view.contents
        placed = self._portal.call(contents.get, record_id)
        if placed is not None and not self.read_only:
            given: dict[str, Any] = {"metadata": metadata, "importance": importance}
            is_single = placed.fact.concept.fact_type is FactType.SINGLE
            if content is not None:
                given |= {"value": content} if is_single else {"values": [content]}
            changes = {name: value for name, value in given.items() if value is not None}
            placed = self._portal.call(contents.update, record_id, **changes)
        if placed is None:
            raise ValueError("No current fact has this record_id")
        return _record(placed)

    def reset(self, scope: str | None = None) -> None:
        """Erase all facts of the memory, with their history."""
        if scope in _ROOT:
            self.drain_writes()
            self._portal.call(self._view.contents.reset, confirm=True)

    def reset_all(self) -> None:
        """Erase all facts of the memory, with their history. Other users keep theirs."""
        self.reset()

    def list_records(
        self, scope: str | None = None, limit: int = 200, offset: int = 0
    ) -> list[MemoryRecord]:
        """Return the current facts, last confirmed first."""
        if scope not in _ROOT:
            return []
        found = self._portal.call(self._view.contents.records, limit, offset)
        return [_record(each) for each in found]

    def list_categories(self, path: str | None = None) -> dict[str, int]:
        """Return the concepts with the number of their values."""
        if path not in _ROOT:
            return {}
        concepts = self._portal.call(self._view.contents.concepts)
        return {each.keyword: each.count for each in concepts}

    def list_scopes(self, path: str | None = None) -> list[str]:
        """Return an empty list: there are no paths."""
        return []

    def info(self, path: str | None = None) -> ScopeInfo:
        """Return the number of records, their concepts, and the oldest and newest time."""
        records = self.list_records(path, _MANY)
        times = [each.created_at for each in records]
        return ScopeInfo(
            path=path or "/",
            record_count=len(records),
            categories=sorted({name for each in records for name in each.categories}),
            oldest_record=min(times, default=None),
            newest_record=max(times, default=None),
        )

    def tree(self, path: str | None = None, max_depth: int = 3) -> str:
        """Return the scopes, subjects and concepts of the memory as a tree."""
        return str(self._portal.call(self._view.contents.tree, max_depth))


def lesson_concept() -> Concept[str, MultipleFacts[str]]:
    """Return the concept of lessons from human feedback.

    Declare it with `AgentMemory(concepts=[lesson_concept()])` to prevent other models from adding
    or forgetting lessons.
    """
    return Concept(
        f"lessons-{_LESSON_SOURCE}",
        "What human feedback taught for later tasks",
        FactType.MULTIPLE,
        detect=False,
    )


def _record(placed: PlacedFact[Any]) -> MemoryRecord:
    fact = placed.fact
    values = ", ".join(map(value_text, plain_values(fact)))  # CrewAI adds it to prompts unescaped
    return MemoryRecord(
        id=fact.id,
        content=f"{fact.concept.description}: {values}",
        categories=[fact.concept.keyword],
        metadata=dict(fact.metadata),
        importance=fact.importance,
        created_at=fact.timestamp.astimezone(UTC).replace(tzinfo=None),
        last_accessed=placed.heard_at.astimezone(UTC).replace(tzinfo=None),
        source=None if fact.source is None else fact.source.conversation,
    )


def _match(placed: PlacedFact[Any], *, score: float) -> MemoryMatch:
    return MemoryMatch(record=_record(placed), score=score, match_reasons=["factmem"])
