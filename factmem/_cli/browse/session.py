"""BrowserSession: the reads, searches, changes and undos of the browser, without its display."""

from collections.abc import Sequence
from getpass import getuser

from anyio.to_thread import run_sync

from factmem._cli.desk import DONE, Desk
from factmem._cli.exits import CommandError
from factmem._cli.opening import Store
from factmem._cli.options import Options
from factmem._cli.place_names import place_name
from factmem._cli.readings import Row, rows_of
from factmem.embedding.base import Embedder
from factmem.memory.listing import FactOrigin, origin_of
from factmem.models._display import shown
from factmem.models.actors import acting
from factmem.models.facts import AnyFact
from factmem.models.places import Place

FOUND = 200
"""The maximum of matches of a search: more than anyone reads, and fast to rank."""


def _sorted(place: Place, facts: Sequence[AnyFact]) -> list[Row]:
    """Return the values of facts in the order of their keywords, so that an edit moves no row."""
    return rows_of(place, sorted(facts, key=lambda each: each.concept.keyword))


class BrowserSession(Desk):
    """A desk for one person in the terminal."""

    def __init__(
        self,
        store: Store,
        options: Options,
        *,
        embedder: Embedder | None = None,
        actor: str | None = None,
        reason: str = "",
    ) -> None:
        super().__init__(store, options, embedder=embedder)
        self.actor, self.reason = actor, reason
        self._undo: list[tuple[Place, str]] = []
        self._followed: tuple[Place, str | None] | None = None
        """The place that is shown, and its version."""
        self.title = options.title

    async def places(self) -> list[Place]:
        """Return all places, sorted."""
        found = await self.store.list_places()
        return sorted(found, key=lambda place: tuple(map(str, place.identity)))

    async def rows(self, place: Place) -> Sequence[Row]:
        """Return the current values of a place, in the order of their keywords."""
        version = await self.store.version(place.subject, place.scope)
        facts = await self.store.load_all(place.subject, place.scope)
        self._followed = place, version
        # In a thread: sorting 100,000 facts would block the screen for too long.
        return await run_sync(_sorted, place, facts)

    async def changed_rows(self, place: Place) -> Sequence[Row] | None:
        """Return the new rows if the place has changed since the last call; otherwise None."""
        if self._followed is None or self._followed[0] != place:
            return None
        if self._followed[1] == await self.store.version(place.subject, place.scope):
            return None
        return await self.rows(place)

    async def origin(self, row: Row) -> FactOrigin | None:
        """Return the sources of a value and the history of its keyword."""
        return await origin_of(row.fact, [row.place], self.store)

    async def change(self, what: str, row: Row, text: str = "") -> str:
        """Change a value as `decide` does, and return a message for the user."""
        with acting(self.actor or getuser(), reason=self.reason or None):
            made = await self.decide(what, row, text)
        self._undo.append((row.place, made))
        return f"{DONE[what]} {row.fact.concept.keyword}"

    async def undo_last(self) -> str:
        """Undo the last change of this session, and return a message for the user."""
        if not self._undo:
            raise CommandError("There is nothing to undo in this session")
        with acting(self.actor or getuser()):
            await self.undo(*self._undo.pop())
        return "Undone"

    def place_title(self, place: Place) -> str:
        """Return the name of a place, without characters that control a terminal."""
        return shown(place_name(place))
