"""Scope paths of CrewAI as scopes, and facts as records.

`/` is the scope of the view, and a path below it the scope with the path behind its name; a path
exists if the store lists a place of it. CrewAI is synchronous, so its methods run in the portal.
Every call makes a view of the paths it names, which cannot reach facts of other users.
`FactmemMemory` adds saves and recalls, which need a chat model or a search.
"""

from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime
from typing import Any, TypeVar

from crewai.memory.types import MemoryMatch, MemoryRecord, ScopeInfo
from crewai.memory.utils import join_scope_paths

from factmem.ledger.resolution import PlacedFact
from factmem.memory.agent_memory import AgentMemory
from factmem.models.facts import Concept, FactType, MultipleFacts
from factmem.models.places import MemoryScope
from factmem.recall.match import prompt_line
from factmem.sync.portal import Portal

T = TypeVar("T")

_NOTES = "notes"
"""The concept of texts that were saved verbatim; that of a category is `notes-<category>`."""

CATEGORIES = "categories"
"""The metadata of a note with several categories."""

PRIVATE = "private"
"""The metadata of a note that only its source recalls."""

_MANY = 1_000_000


class Paths:
    """The methods of CrewAI's `StorageBackend` that need no vector; each path is a scope."""

    def __init__(self, view: AgentMemory, portal: Portal) -> None:
        self._view, self._portal = view, portal
        self._own = list(dict.fromkeys(place.scope for place in view.places))

    def at(self, path: str) -> AgentMemory:
        """Return the memory of one path."""
        return self._view if path == "/" else self._view.view(scopes=[self.scope(path)])

    async def below(self, path: str) -> AgentMemory:
        """Return the memory of a path and of all paths below."""
        scopes = [self.scope(each) for each in await self._stored(path)]
        return self._view.view(scopes=[*self._own, *scopes] if path == "/" else scopes)

    def call(self, path: str | None, work: Callable[[AgentMemory], Awaitable[T]]) -> T:
        """Run a function in the portal with the memory of a path and of all paths below."""

        async def run() -> T:
            return await work(await self.below(join_scope_paths(path, None)))

        return self._portal.call(run)

    def scope(self, path: str) -> MemoryScope:
        """Return the scope of a path."""
        home = self._own[0]
        return home if path == "/" else MemoryScope(home.type, home.name + path)

    def _path(self, scope: MemoryScope) -> str:
        home = self._own[0]
        is_below = scope.type is home.type and scope.name.startswith(f"{home.name}/")
        return scope.name.removeprefix(home.name) if is_below else "/"

    async def _stored(self, path: str) -> list[str]:
        places = await self._view.store.list_places(subjects=self._view.subjects)
        paths = {self._path(each.scope) for each in places} - {"/"}
        return sorted(each for each in paths if f"{each}/".startswith(f"{path.rstrip('/')}/"))

    def record(self, placed: PlacedFact[Any]) -> MemoryRecord:
        """Return a fact as a record."""
        fact, keyword = placed.fact, placed.fact.concept.keyword
        metadata, text = dict(fact.metadata), prompt_line(fact)  # CrewAI prompts with it unescaped
        if is_note := keyword == _NOTES or keyword.startswith(f"{_NOTES}-"):
            text = text.removeprefix(f"{fact.concept.description}: ")[1:-1]
        named = [_category(keyword)] if not is_note or keyword != _NOTES else []
        return MemoryRecord(
            id=fact.id,
            content=text,
            scope=self._path(placed.place.scope),
            categories=metadata.pop(CATEGORIES, None) or named,
            private=bool(metadata.pop(PRIVATE, False)),
            metadata=metadata,
            importance=fact.importance,
            created_at=fact.timestamp.astimezone(UTC).replace(tzinfo=None),
            last_accessed=placed.heard_at.astimezone(UTC).replace(tzinfo=None),
            source=None if fact.source is None else fact.source.conversation,
        )

    def match(self, placed: PlacedFact[Any], score: float) -> MemoryMatch:
        """Return a fact as a match."""
        return MemoryMatch(record=self.record(placed), score=score, match_reasons=["factmem"])

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
        names = None if categories is None else [*categories, *map(keyword_of, categories)]
        concepts = None if names is None else [Concept(each, each) for each in names]

        async def forget(view: AgentMemory) -> int:
            found = await view.contents.records(_MANY, concepts=concepts, metadata=metadata_filter)
            ids = [
                each.fact.id
                for each in found
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
        counts: dict[str, int] = {}
        for each in self.call(scope_prefix, lambda view: view.contents.concepts()):
            name = _category(each.keyword)
            counts[name] = counts.get(name, 0) + each.count
        return counts

    def list_scopes(self, parent: str = "/") -> list[str]:
        """Return the paths directly below a path."""
        first = f"{parent.rstrip('/')}/"
        paths = self._portal.call(self._stored, join_scope_paths(parent, None))
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


def note_concept(categories: Iterable[str] | None) -> Concept[str, MultipleFacts[str]]:
    """Return the concept of a text that is saved verbatim."""
    keyword = next(map(keyword_of, categories or ()), _NOTES)
    return Concept(keyword, "A note of CrewAI", FactType.MULTIPLE, detect=False)


def keyword_of(category: str) -> str:
    """Return the keyword of the notes of a category."""
    return f"{_NOTES}-{category}"


def _category(keyword: str) -> str:
    return keyword.removeprefix(f"{_NOTES}-")
