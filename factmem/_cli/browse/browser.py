"""Browser: the application of `factmem browse`.

It connects three parts of the screen (`PlacesTree`, `FactTable`, `FactPage`) with a
`BrowserSession`, which reads and writes the store. Reading runs in workers of textual: a group runs
one at a time, and opening another place cancels the reading of the last one. `_follow` looks for
changes of other processes.
"""

import sys
import traceback
from collections.abc import Awaitable, Callable, Sequence
from getpass import getuser
from typing import Any, ClassVar

from anyio.to_thread import run_sync
from rich.segment import Segment, Segments
from rich.text import Text
from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import Screen
from textual.timer import Timer
from textual.widgets import Footer, Input, Static
from textual.widgets.tree import TreeNode

from factmem._cli.browse.widgets import (
    MOST_ROWS,
    ConfirmDialog,
    EditDialog,
    FactPage,
    FactTable,
    FormerDialog,
    KeysDialog,
    NameDialog,
    PlacesTree,
)
from factmem._cli.desk import DONE, Desk
from factmem._cli.opening import Store
from factmem._cli.options import Options
from factmem._cli.output import CommandError, counted, message_of
from factmem._cli.readings import Row, rows_of, value_words
from factmem._cli.targets import place_name
from factmem.embedding.base import Embedder
from factmem.errors import FactmemError
from factmem.memory.listing import FactOrigin, origin_of
from factmem.models._display import shown
from factmem.models.facts import AnyFact
from factmem.models.places import Place, acting

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


_ERRORS = (CommandError, FactmemError, ValueError, OSError)
"""What a read or a change may raise. All others are errors of the browser."""
_LOCAL_INTERVAL = 0.5
_DATABASE_INTERVAL = 3.0
"""Seconds between checks for changes. A local store answers in microseconds, a database with a
query."""
_PAUSE = 0.15
"""Seconds without a key press before the filter runs. Keys within a word are typed faster."""


class Browser(App[None]):
    """The application: places on the left, values on the right, and a search field."""

    TITLE = "factmem"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #left { width: 25%; min-width: 20; max-width: 50; }
    #places { height: 1fr; background: $surface; }
    #where { height: 1; padding: 0 1; background: $panel; color: $foreground; }
    FactTable { height: 1fr; }
    Input { height: 3; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "focus('search')", "Search"),
        Binding("p", "focus('filter')", "Find place"),
        Binding("i", "inbox", "Inbox"),
        Binding("y", "change('accept')", "Accept"),
        Binding("e", "change('correct')", "Correct"),
        Binding("f", "change('reject')", "Reject"),
        Binding("h", "change('restore')", "Restore", show=False),
        Binding("u", "undo", "Undo"),
        Binding("s", "sort", "Sort"),
        Binding("r", "reload", "Reload", show=False),
        Binding("question_mark", "push_screen('keys')", "Keys"),
        Binding("escape", "back", "Back", show=False),
        Binding("q", "quit", "Quit"),
    ]
    SCREENS: ClassVar[dict[str, Callable[[], Screen[Any]]]] = {"keys": KeysDialog}
    _ORDERS: ClassVar[tuple[str, ...]] = ("by keyword", "newest first")

    def __init__(self, session: BrowserSession) -> None:
        super().__init__()
        self.session = session
        self._place: Place | None = None
        self._all: Sequence[Row] = ()
        self._texts: list[str] | None = None
        self._question: str | None = None
        self._order = 0
        self._places: list[Place] = []
        self._stamp: int | None = None
        self._inbox = -1
        """The version of the inbox that is shown; -1 while another list is."""
        self._is_read = False
        """Whether the inbox was shown after all places had been read."""
        self._typing: Timer | None = None

    def compose(self) -> ComposeResult:
        with Horizontal():
            with Vertical(id="left"):
                yield Input(placeholder="Find a place", id="filter")
                yield PlacesTree(id="places")
            with Vertical():
                yield Input(
                    placeholder="Filter this place; Enter searches the whole store", id="search"
                )
                yield Static(id="where")
                yield FactTable(id="facts")
        yield Footer()

    async def on_mount(self) -> None:
        """Show the places and follow their changes."""
        await self._load_places()
        self.query_one(FactTable).focus()
        self._set_status(
            f"Reading {counted(len(self._places), 'place')} of {self.session.title} ..."
        )
        self.run_worker(self.session.recent.follow())
        self._inbox = 0
        is_local = self.session.stamp() is not None
        self.set_interval(_LOCAL_INTERVAL if is_local else _DATABASE_INTERVAL, self._follow)

    def _set_status(self, words: str) -> None:
        self.query_one("#where", Static).update(Text(shown(words), no_wrap=True))

    async def _load_places(self) -> None:
        self._stamp = self.session.stamp()
        self._places = await self.session.places()
        self.query_one(PlacesTree).show(self._places, self.query_one("#filter", Input).value)

    async def _follow(self) -> None:
        """Show the changes of other processes."""
        try:
            stamp = self.session.stamp()
            if stamp is not None and stamp != self._stamp:
                places = await self.session.places()
                self._stamp = stamp
                if places != self._places:
                    await self._load_places()
            if self._inbox not in (-1, self.session.recent.version):
                await self._show_inbox()
            if self._place is not None:
                rows = await self.session.changed_rows(self._place)
                if rows is not None:
                    self._show_new_rows(rows)
                    await self._refresh_page()
        except (FactmemError, OSError) as exc:
            self._report(exc)

    async def _show_inbox(self) -> None:
        recent = self.session.recent
        self._inbox, self._place, self._question = recent.version, None, None
        shown = recent.version
        rows = await self.session.inbox(most=FOUND)
        if self._inbox != shown:  # another list was opened meanwhile
            return
        self._all, self._texts = rows, None
        table = self.query_one(FactTable)
        # What is read first is not what stands first: the cursor waits there until it is moved.
        table.show(rows, keep_cursor=self._is_read or table.cursor_row > 0)
        self._is_read = recent.is_complete
        more = "" if recent.is_complete else "; the store is still being read"
        if recent.unreadable:
            more += f"; {counted(recent.unreadable, 'place')} cannot be read: see `verify`"
        self._set_status(f"Inbox: {counted(recent.count(), 'value')} to review{more}")

    def _show_new_rows(self, rows: Sequence[Row]) -> None:
        """Show new rows of the open place, unless search results are shown."""
        self._all, self._texts = rows, None
        if self._question is None:
            self._show(keep_cursor=True)

    async def _refresh_page(self) -> None:
        """Update the open value; leave the page unchanged if the value no longer exists."""
        page = self.screen
        if isinstance(page, FactPage):
            for row in self._all:
                if (row.fact.id, row.position) == (page.row.fact.id, page.row.position):
                    page.show(row, await self.session.origin(row))
                    return

    def _fatal_error(self) -> None:
        """End after an error of the browser. Textual's traceback would show values of the store."""
        _, error, trace = sys.exc_info()
        error = error or self._exception
        frames = traceback.extract_tb(trace or getattr(error, "__traceback__", None))
        lines = [f"  {each.filename}:{each.lineno} in {each.name}" for each in frames[-8:]]
        name = type(error).__name__
        words = "\n".join([f"factmem: The browser failed ({name}), please report it:", *lines])
        self._exit_renderables.append(Segments([Segment(f"{words}\n")]))
        self._close_messages_no_wait()

    def _report(self, exc: Exception) -> None:
        self.notify(shown(message_of(exc)), severity="error", markup=False)

    async def _do(self, action: Awaitable[str]) -> None:
        """Run a change, report its result or error, and show the new state."""
        try:
            self.notify(shown(await action), markup=False)
        except _ERRORS as exc:
            self._report(exc)
        if self._question is not None:
            await self._search(self._question)
        if self._place is not None:
            self._show_new_rows(await self.session.rows(self._place))
        elif self._inbox >= 0:
            await self._show_inbox()

    # Rows of the open place, with its filter and order.

    @work(exclusive=True, group="open")
    async def _open_place(self, place: Place) -> None:
        self._set_status(f"Reading {self.session.place_title(place)} ...")
        try:
            rows = await self.session.rows(place)
        except (FactmemError, OSError) as exc:
            self._set_status("")
            self._report(exc)
            return
        self._place, self._question, self._inbox = place, None, -1
        self._all, self._texts = rows, None
        self._show()
        self.query_one(FactTable).focus()

    def _show(self, *, keep_cursor: bool = False) -> None:
        rows = self._filtered(self.query_one("#search", Input).value)
        if self._order == 1:
            rows = sorted(rows, key=lambda row: row.fact.timestamp, reverse=True)
        self.query_one(FactTable).show(rows, keep_cursor=keep_cursor)
        if self._place is not None:
            among = "" if len(rows) == len(self._all) else f" of {len(self._all):,}"
            where = self.session.place_title(self._place)
            count = f"{len(rows):,}{among} value{'' if len(rows) == 1 else 's'}"
            first = f", the first {MOST_ROWS:,} shown" if len(rows) > MOST_ROWS else ""
            self._set_status(f"{where}  {count}, {self._ORDERS[self._order]}{first}")

    def _filtered(self, typed: str) -> Sequence[Row]:
        words = typed.casefold().split()
        if not words:
            return self._all
        if self._texts is None:
            self._texts = [
                f"{row.fact.concept.keyword} {value_words([row.value])}".casefold()
                for row in self._all
            ]
        return [
            row
            for row, text in zip(self._all, self._texts, strict=True)
            if all(word in text for word in words)
        ]

    async def _search(self, question: str) -> None:
        self._set_status("Searching ...")
        try:
            found = await self.session.search(question, most=FOUND)
        except _ERRORS as exc:
            self._report(exc)
            return
        self._question = question
        self.query_one(FactTable).show(found)
        self._set_status(
            f"{counted(len(found), 'match', 'matches')} in the whole store; Esc goes back"
        )

    # Keys, mouse, input.

    def on_tree_node_selected(self, event: PlacesTree.NodeSelected[Any]) -> None:
        node: TreeNode[Any] = event.node
        if isinstance(node.data, Place):
            with self.prevent(Input.Changed):
                self.query_one("#search", Input).value = ""
            self._open_place(node.data)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter after a pause in typing."""
        if self._typing is not None:
            self._typing.stop()
        self._typing = self.set_timer(_PAUSE, lambda: self._filter(event.input))

    def _filter(self, typed: Input) -> None:
        if not typed.is_attached:  # the browser is closing
            return
        if typed.id == "filter":
            self.query_one(PlacesTree).show(self._places, typed.value)
        elif self._question != typed.value:
            self._question = None
            self._show()

    async def on_input_submitted(self, event: Input.Submitted) -> None:
        """Search the whole store, or move the focus to the places that were found."""
        if self._typing is not None:
            self._typing.stop()
        if event.input.id == "filter":
            self._filter(event.input)
            self.query_one(PlacesTree).focus()
        elif event.value.strip():
            self._search_later(event.value)

    @work(exclusive=True, group="open")
    async def _search_later(self, question: str) -> None:
        await self._search(question)
        self.query_one(FactTable).focus()

    @work(exclusive=True, group="page")
    async def _open_page(self, row: Row) -> None:
        table = self.query_one(FactTable)
        try:
            page = FactPage(row, await self.session.origin(row))
        except _ERRORS as exc:
            self._report(exc)
            return
        chosen = await self.push_screen_wait(page)
        if chosen in {"next", "previous"}:
            table.move_cursor(row=table.cursor_row + (1 if chosen == "next" else -1))
            if table.row is not None:
                self._open_page(table.row)
        elif chosen == "undo":
            await self._do(self.session.undo_last())
        elif chosen == "quit":
            self.exit()
        elif chosen:
            await self._change(chosen, page.row)

    def on_data_table_row_selected(self, _: FactTable.RowSelected) -> None:
        if (row := self.query_one(FactTable).row) is not None:
            self._open_page(row)

    async def _change(self, what: str, row: Row) -> None:
        """Change a value in the name of a person, who is asked for it once."""
        if self.session.actor is None:
            named = await self.push_screen_wait(NameDialog(getuser()))
            if named is None:
                return
            self.session.actor, self.session.reason = named
        typed = ""
        if what == "correct":
            text = await self.push_screen_wait(EditDialog(row))
            if text is None:
                return
            typed = text
        elif what == "reject":
            keyword = row.fact.concept.keyword
            place = self.session.place_title(row.place)
            question = f"Reject this value of {keyword} in {place}? History keeps it."
            if not await self.push_screen_wait(ConfirmDialog(question)):
                return
        elif what == "restore":
            try:
                reading = await self.session.reading(row.place)
            except _ERRORS as exc:
                self._report(exc)
                return
            rows = reading.former(row.fact.concept.keyword)
            if not rows:
                self.notify("It had no other value", markup=False)
                return
            former = await self.push_screen_wait(FormerDialog(rows))
            if former is None:
                return
            row = former
        await self._do(self.session.change(what, row, typed))

    @work(exclusive=True, group="page")
    async def action_change(self, what: str) -> None:
        """Accept, correct, reject or restore the value under the cursor."""
        if (row := self.query_one(FactTable).row) is not None:
            await self._change(what, row)

    async def action_inbox(self) -> None:
        try:
            await self._show_inbox()
        except _ERRORS as exc:
            self._report(exc)
        self.query_one(FactTable).focus()

    async def action_undo(self) -> None:
        await self._do(self.session.undo_last())

    def action_sort(self) -> None:
        self._order = (self._order + 1) % len(self._ORDERS)
        if self._question is None:
            self._show()

    async def action_reload(self) -> None:
        try:
            await self._load_places()
        except _ERRORS as exc:
            self._report(exc)
        if self._place is not None:
            self._open_place(self._place)

    async def action_back(self) -> None:
        """Close the search or leave an input field."""
        search = self.query_one("#search", Input)
        if search.value or self._question is not None:
            with self.prevent(Input.Changed):
                search.value = ""
            self._question = None
            self._show()
            self.query_one(FactTable).focus()
        else:
            self.query_one(PlacesTree).focus()
