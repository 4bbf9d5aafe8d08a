"""Desk: what waits in a store for a person, and the decisions of the person about it.

The terminal browser and the page work on a desk.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from secrets import token_hex
from typing import Any

from factmem._cli.exits import CommandError, ExitCode
from factmem._cli.opening import Store
from factmem._cli.options import Options
from factmem._cli.readings import Reading, Row, rows_of
from factmem._cli.targets import typed_value
from factmem._cli.waiting import Recent
from factmem.embedding.base import Embedder
from factmem.ledger.resolution import PlacedFact
from factmem.memory.agent_memory import AgentMemory
from factmem.memory.review import MemoryReview
from factmem.models.actors import FactState, acting
from factmem.models.places import Place
from factmem.providers.base import FactStore
from factmem.providers.local_file import LocalFileMemoryProvider


class Desk:
    """A store that is open for review.

    Args:
        store: The open store.
        options: The options before the command.
        embedder: The embedder with which searches also compare meanings.
        days: For how many days a value that a model learnt is new.
    """

    def __init__(
        self, store: Store, options: Options, *, embedder: Embedder | None = None, days: int = 7
    ) -> None:
        self.store = store
        self.embedder = embedder
        self._options = options
        self.recent = Recent(store, days=days, stamp=self.stamp)

    def stamp(self) -> int | None:
        """Return a number that changes with the store, also by other processes; None if unknown."""
        if not isinstance(self.store, LocalFileMemoryProvider):
            return None
        folder = Path(self._options.location)
        found = (folder / name for name in ("facts.db", "facts.db-wal"))
        return sum(path.stat().st_mtime_ns for path in found if path.exists())

    async def reading(self, place: Place) -> Reading:
        """Read a place.

        Raises:
            CommandError: There is no such place.
        """
        entries = await self.store.entries(place.subject, place.scope)
        if not entries:
            raise CommandError("There is no such user, or all facts were erased", ExitCode.NOTHING)
        return Reading(place, entries)

    async def inbox(
        self, place: Place | None = None, kind: str | None = None, *, skip: int = 0, most: int
    ) -> list[Row]:
        """Return values that wait for a person, the most urgent first; see `Recent.waiting`."""
        readings: dict[Place, Reading] = {}
        found: list[Row] = []
        for each in self.recent.waiting(place, kind)[skip : skip + most]:
            if each.place not in readings:
                entries = await self.store.entries(each.place.subject, each.place.scope)
                readings[each.place] = Reading(each.place, entries)
            row = readings[each.place].row(each.fact_id, each.position)
            if row is not None and row.item is not None:
                found.append(row)
        return found

    async def recalled(
        self, question: str, places: Sequence[Place], *, most: int, store: FactStore | None = None
    ) -> list[Row]:
        """Return the values that answer a question, best first, by the recall of the agents."""
        memory = AgentMemory(store or self.store, embedder=self.embedder)
        found = await memory.view(places=places).recall(question, limit=most)
        return [
            row
            for match in found
            for row in rows_of(match.place, [match.fact], relevance=match.relevance)
        ]

    async def decide(
        self, what: str, row: Row, *, actor: str, reason: str = "", text: str = ""
    ) -> str:
        """Keep, correct, forget or restore a value, and return the id of the change.

        Args:
            what: "keep", "correct", "forget" or "restore".
            row: The value.
            actor: The name of the person.
            reason: Why; may be empty.
            text: The right value, as it was typed.

        Raises:
            CommandError: The value was changed or forgotten in the meantime, or the right one is not
                of the kind of the keyword's values.
        """
        place = row.place
        review = self._review(place)
        with acting(actor, reason=reason or None):
            if what == "keep":
                made = await review.keep(await self._current(row))
            elif what == "correct":
                value = typed_value(self._options, row, text)
                made = await review.correct(await self._current(row), value)
            elif what == "forget":
                made = await review.forget(await self._current(row))
            else:
                fact: Any = replace(row.alone, id=token_hex(16), state=FactState.CONFIRMED)
                await self.store.save(fact, place.subject, place.scope)
                made = (await self.reading(place)).changes[-1].id
        await self.recent.reread(place)
        return made

    async def undo(self, place: Place, change: str, *, actor: str) -> str:
        """Undo a change of a place, and return the id of the change that does so.

        Raises:
            ValueError: A later change rests on it, or the place has no such change.
        """
        with acting(actor):
            made = await self._review(place).undo(change)
        await self.recent.reread(place)
        return made

    def _review(self, place: Place) -> MemoryReview:
        return AgentMemory(self.store).view(places=[place]).review

    async def _current(self, row: Row) -> PlacedFact:
        """Return a value as it is now.

        Raises:
            CommandError: Another one has replaced it, or it was forgotten.
        """
        now = (await self.reading(row.place)).row(row.fact.id, row.position)
        if now is None or now.fact.values != row.fact.values:
            raise CommandError("The value was changed or forgotten in the meantime")
        return PlacedFact(row.place, row.alone)
