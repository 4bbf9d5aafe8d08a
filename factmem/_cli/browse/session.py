"""BrowserSession: the reads, searches, edits and undos of the browser, without its display.

A row is one value of a fact. Every change compares the stored value with that of the row first, as
another process may have changed it since the screen was drawn. An undo is a function on a stack,
and is refused in the same case.
"""

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from anyio.to_thread import run_sync

from factmem._cli.exits import CommandError
from factmem._cli.opening import Store
from factmem._cli.options import Options
from factmem._cli.place_names import place_name
from factmem._cli.targets import target_of
from factmem.embedding.base import Embedder
from factmem.ledger.resolution import PlacedFact
from factmem.memory._records import RecordUpdate, update_record
from factmem.memory.origin import FactOrigin, origin_of
from factmem.models._display import shown
from factmem.models.facts import AnyFact, SingleFact
from factmem.models.places import Place
from factmem.models.sources import FactSource, SourceKind
from factmem.providers.local_file import LocalFileMemoryProvider

if TYPE_CHECKING:
    from factmem.memory.agent_memory import AgentMemory

__all__ = ["BrowserSession", "Row", "editable"]

_FOUND = 200
"""The maximum of matches of a search: more than anyone reads, and fast to rank."""


@dataclass(frozen=True, slots=True)
class Row:
    """One current value: the fact that saved it, and its position among the fact's values."""

    place: Place
    fact: AnyFact
    position: int = 0
    relevance: float | None = None
    """The relevance to the search that found it; None outside of a search."""

    @property
    def value(self) -> Any:
        """The value, as plain JSON."""
        return self.fact.values[self.position]


def editable(value: object) -> str:
    """Return a value for an editor: JSON, or a string unchanged.

    A string with control characters is shown as JSON, because they would control the terminal.
    """
    if isinstance(value, str) and shown(value.replace("\n", "")) == value.replace("\n", ""):
        return value
    if isinstance(value, str):
        return shown(json.dumps(value))
    return json.dumps(value, ensure_ascii=False, indent=2)


def _rows_of(place: Place, facts: Sequence[AnyFact]) -> list[Row]:
    """Return the values of facts in the order of their keywords, so that an edit moves no row."""
    return [
        Row(place, fact, position)
        for fact in sorted(facts, key=lambda each: each.concept.keyword)
        for position in range(len(fact.values))
    ]


class BrowserSession:
    """A store that is open for browsing.

    Args:
        store: The open store.
        options: The options before the command.
        embedder: The embedder with which `search` also compares meanings.
    """

    def __init__(
        self,
        store: Store,
        options: Options,
        *,
        embedder: Embedder | None = None,
    ) -> None:
        self._store = store
        self._options = options
        self._embedder = embedder
        self._memory: AgentMemory | None = None
        self._undo: list[tuple[str, Callable[[], Awaitable[bool]]]] = []
        self._followed: tuple[Place, str] | None = None
        """The place that is shown, and its version."""
        self.title = options.location if not options.is_database else "PostgreSQL"
        self.is_local = isinstance(store, LocalFileMemoryProvider)

    async def places(self) -> list[Place]:
        """Return all places, sorted."""
        found = await self._store.list_places()
        return sorted(found, key=lambda place: tuple(map(str, place.identity)))

    def stamp_of_places(self) -> int | None:
        """Return a number that changes with the store, also by other processes; None if unknown."""
        if not self.is_local:
            return None
        folder = Path(self._options.location)
        found = (folder / name for name in ("facts.db", "facts.db-wal"))
        return sum(path.stat().st_mtime_ns for path in found if path.exists())

    async def rows(self, place: Place) -> Sequence[Row]:
        """Return the current values of a place, in the order of their keywords."""
        version = await self._store.version(place.subject, place.scope)
        facts = await self._store.load_all(place.subject, place.scope)
        self._followed = place, version
        # In a thread: sorting 100,000 facts would block the screen for too long.
        return await run_sync(_rows_of, place, facts)

    async def changed_rows(self, place: Place) -> Sequence[Row] | None:
        """Return the new rows if the place has changed since the last call; otherwise None."""
        if self._followed is None or self._followed[0] != place:
            return None
        if self._followed[1] == await self._store.version(place.subject, place.scope):
            return None
        return await self.rows(place)

    async def search(self, question: str) -> list[Row]:
        """Return the values of the whole store that are relevant to a question, best first."""
        # Imported here, because the import takes a fifth of the time to the first screen.
        from factmem.memory.agent_memory import AgentMemory

        if self._memory is None:
            self._memory = AgentMemory(self._store, embedder=self._embedder)
        view = self._memory.view(places=await self.places())
        found = await view.recall(question, limit=_FOUND)
        return [
            Row(match.place, match.fact, position, match.relevance)
            for match in found
            for position in range(len(match.fact.values))
        ]

    async def origin(self, row: Row) -> FactOrigin | None:
        """Return the sources of a value and the history of its keyword."""
        return await origin_of(row.fact, [row.place], self._store)

    async def edit(self, row: Row, text: str) -> str:
        """Replace a value with a typed one, and return a message for the user.

        Raises:
            CommandError: The new value does not have the kind of the keyword's values, or the old
                value is no longer current.
        """
        new = self._parse_typed(row, text)
        source = FactSource(SourceKind.CODE, conversation="factmem browse")
        changed = _with_value(row.fact, row.position, new)
        if not await self._update(row.place, row.fact, changed, source):
            raise CommandError("The value was changed or forgotten in the meantime")
        keyword = row.fact.concept.keyword
        self._undo.append(
            (
                f"Restored {keyword}",
                lambda: self._update(row.place, changed, row.fact, row.fact.source),
            )
        )
        return f"Saved {keyword}"

    def _parse_typed(self, row: Row, text: str) -> Any:
        keyword = row.fact.concept.keyword
        is_escaped = isinstance(row.value, str) and editable(row.value) != row.value
        if is_escaped and text.startswith('"'):
            try:
                text = json.loads(text)
            except ValueError:
                raise CommandError("The value must be a JSON string") from None
        target = target_of(self._options, keyword, [row.fact])
        value = target.value(text)
        return target.concept.codec.dump(value, keyword) if target.is_own else value

    async def _update(
        self, place: Place, before: AnyFact, after: AnyFact, source: FactSource | None
    ) -> bool:
        """Replace the values of a fact if they are still those of `before`."""
        current = await self._current(place, before)
        if current is None or current.values != before.values:
            return False
        given: dict[str, Any] = {"source": source}
        if isinstance(after, SingleFact):
            given["value"] = after.value
        else:
            given["values"] = after.values
        return await update_record(self._store, PlacedFact(place, current), RecordUpdate(**given))

    async def _current(self, place: Place, fact: AnyFact) -> AnyFact | None:
        held: list[AnyFact] = await self._store.load(fact.concept, place.subject, place.scope)
        return next((each for each in held if each.id == fact.id), None)

    async def forget(self, row: Row) -> str:
        """Forget a value and return a message for the user. History keeps the value.

        Raises:
            CommandError: The value is no longer current.
        """
        place, fact = row.place, row.fact
        count = await self._store.forget(
            place.subject, place.scope, concept=fact.concept, value=row.value, fact_id=fact.id
        )
        if count == 0:
            raise CommandError("The value was changed or forgotten in the meantime")
        keyword = fact.concept.keyword
        self._undo.append((f"Restored {keyword}", lambda: self._bring_back(row)))
        return f"Forgot {keyword}"

    async def _bring_back(self, row: Row) -> bool:
        """Save a forgotten value again; return False if a newer one has replaced it."""
        place, fact = row.place, row.fact
        if isinstance(fact, SingleFact):
            if await self._store.load(fact.concept, place.subject, place.scope):
                return False
            changed: Any = replace(fact, id=token_hex(16))
        else:
            lone: Any = fact
            changed = replace(lone, values=(row.value,), id=token_hex(16))
        await self._store.save(changed, place.subject, place.scope)
        return True

    async def undo(self) -> str:
        """Undo the last edit or deletion of this session, and return a message for the user.

        Raises:
            CommandError: There is nothing to undo, or the value has changed since.
        """
        if not self._undo:
            raise CommandError("There is nothing to undo in this session")
        done, action = self._undo.pop()
        if not await action():
            raise CommandError("The value has changed since; nothing was undone")
        return done

    def place_title(self, place: Place) -> str:
        """Return the name of a place, without characters that control a terminal."""
        return shown(place_name(place))


def _with_value(fact: AnyFact, position: int, value: Any) -> AnyFact:
    changed: Any = fact
    if isinstance(fact, SingleFact):
        updated: AnyFact = replace(changed, value=value)
    else:
        values = [*fact.values]
        values[position] = value
        updated = replace(changed, values=tuple(values))
    return updated
