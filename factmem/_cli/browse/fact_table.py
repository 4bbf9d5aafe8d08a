"""FactTable: a table that draws only visible rows; 100,000 rows scroll as fast as ten.

textual's own `DataTable` keeps a cell for each value and measures all of them. This table accesses
a row when its line is drawn: `render_line` asks for one line of the screen, `_widths` shares the
width among the columns, and `_fitted` cuts a string to its cells.
"""

import re
from collections.abc import Callable, Sequence
from typing import ClassVar
from unicodedata import bidirectional

from rich.cells import set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip

from factmem._cli.browse.session import Row
from factmem._cli.output import time
from factmem._cli.place_names import place_name
from factmem._cli.records import value_words
from factmem.models._display import shown

__all__ = ["FactTable"]

_LONGEST = 400
"""The maximum of characters of a value in a cell; no screen shows more."""


def _value(row: Row) -> str:
    return shown(value_words([row.value])[:_LONGEST])


_PLACED: dict[str, tuple[int, Callable[[Row], str]]] = {
    "keyword": (24, lambda row: shown(row.fact.concept.keyword)),
    "value": (0, _value),
    "said": (17, lambda row: time(row.fact.timestamp)),
    "confirmed": (17, lambda row: time(row.fact.confirmed_at)),
    "expires": (17, lambda row: time(row.fact.expires_at)),
}
_FOUND: dict[str, tuple[int, Callable[[Row], str]]] = {
    "match": (5, lambda row: f"{row.relevance or 0:.2f}"),
    "place": (32, lambda row: shown(place_name(row.place))),
    "keyword": _PLACED["keyword"],
    "value": _PLACED["value"],
    "said": _PLACED["said"],
}
_NARROW = 40
"""The minimum width of the value, in cells; the columns on the right are hidden first."""

_JOINED_EMOJI = re.compile("(?<=[\u2600-\u27bf\ufe0f\U0001f000-\U0001faff])\u200d")
_RIGHT_TO_LEFT = frozenset({"R", "AL"})


def _fitted(text: str, cells: int) -> str:
    """Return a string that fills a cell exactly and does not affect its neighbours."""
    if not text.isascii():
        # A joined emoji such as a family has 2 cells in some terminals and 6 in others.
        text = _JOINED_EMOJI.sub("", text)
    fitted = set_cell_size(text, cells)
    if not fitted.isascii() and any(bidirectional(each) in _RIGHT_TO_LEFT for each in fitted):
        # A terminal that reorders Hebrew and Arabic would also move the dates after them.
        return f"{fitted}\N{LEFT-TO-RIGHT MARK}"
    return fitted


class FactTable(ScrollView, can_focus=True):
    """A table of values with a cursor for keyboard and mouse."""

    DEFAULT_CSS = """
    FactTable { background: $surface; }
    FactTable > .fact-table--header { background: $panel; color: $foreground; text-style: bold; }
    FactTable > .fact-table--cursor { background: $primary-darken-2; color: $foreground; }
    FactTable:focus > .fact-table--cursor { background: $primary; color: $text; }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {"fact-table--header", "fact-table--cursor"}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "Open"),
        Binding("up", "move(-1)", "Up", show=False),
        Binding("down", "move(1)", "Down", show=False),
        Binding("pageup", "page(-1)", "Page up", show=False),
        Binding("pagedown", "page(1)", "Page down", show=False),
        Binding("home", "edge(0)", "First", show=False),
        Binding("end", "edge(1)", "Last", show=False),
    ]
    cursor: reactive[int] = reactive(0)

    class Opened(Message):
        """A row was opened with Enter or a second click."""

        def __init__(self, row: Row) -> None:
            super().__init__()
            self.row = row

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - textual's name
        super().__init__(id=id)
        self._rows: Sequence[Row] = ()
        self._columns = _PLACED

    @property
    def rows(self) -> Sequence[Row]:
        """The rows of the table."""
        return self._rows

    @property
    def row(self) -> Row | None:
        """The row under the cursor."""
        return self._rows[self.cursor] if self.cursor < len(self._rows) else None

    def show(self, rows: Sequence[Row], *, keep_cursor: bool = False) -> None:
        """Show other rows; with `keep_cursor` the cursor stays on its value if it is among them."""
        stays = self._position_of(self.row, rows) if keep_cursor else 0
        self._rows = rows
        is_search = bool(rows) and rows[0].relevance is not None
        self._columns = _FOUND if is_search else _PLACED
        self.virtual_size = Size(0, len(rows) + 1)
        self.cursor = stays
        if not keep_cursor:
            self.scroll_to(0, 0, animate=False)
        self.refresh()

    def _position_of(self, row: Row | None, rows: Sequence[Row]) -> int:
        """Return the index of a value among other rows, checking the cursor's position first."""
        if row is None or not rows:
            return 0
        near: int = min(self.cursor, len(rows) - 1)
        wanted = (row.fact.id, row.position)
        candidates: list[int] = [near, *range(len(rows))]
        return next(
            (at for at in candidates if (rows[at].fact.id, rows[at].position) == wanted), near
        )

    def render_line(self, y: int) -> Strip:
        """Draw a line: the header, a row, or a blank line."""
        width = self.scrollable_content_region.width
        if y == 0:
            style = self.get_component_rich_style("fact-table--header")
            return self._line(lambda name: name, style, width)
        index = y - 1 + int(self.scroll_offset.y)
        if index >= len(self._rows):
            return Strip.blank(width, self.rich_style)
        is_cursor = index == self.cursor
        style = (
            self.get_component_rich_style("fact-table--cursor") if is_cursor else self.rich_style
        )
        row = self._rows[index]
        return self._line(lambda column: self._columns[column][1](row), style, width)

    def _line(self, cell: Callable[[str], str], style: Style, width: int) -> Strip:
        segments = [
            Segment(f"{_fitted(cell(column), cells)} ", style)
            for column, cells in self._widths(width)
        ]
        return Strip(segments).adjust_cell_length(width, style)

    def _widths(self, width: int) -> list[tuple[str, int]]:
        """Return the columns that fit, with their widths; the value gets the remaining width."""
        names = [*self._columns]
        while True:
            fixed = sum(self._columns[name][0] + 1 for name in names)
            if width - fixed >= _NARROW or len(names) <= 2:
                left = max(width - fixed, 8)
                return [(name, self._columns[name][0] or left) for name in names]
            names.remove([name for name in names if name != "value"][-1])

    def watch_cursor(self) -> None:
        """Scroll to the row of the cursor."""
        self.scroll_to_region(
            Region(0, self.cursor, 1, 2), animate=False, force=True, immediate=True
        )
        self.refresh()

    def _move_to(self, index: int) -> None:
        self.cursor = max(0, min(index, len(self._rows) - 1))

    def action_move(self, by: int) -> None:
        """Move the cursor by some rows."""
        self._move_to(self.cursor + by)

    def action_page(self, by: int) -> None:
        """Move the cursor by some pages."""
        self._move_to(self.cursor + by * max(1, self.size.height - 2))

    def action_edge(self, end: int) -> None:
        """Move the cursor to the first or the last row."""
        self._move_to(len(self._rows) - 1 if end else 0)

    def action_open(self) -> None:
        """Open the row under the cursor."""
        if (row := self.row) is not None:
            self.post_message(self.Opened(row))

    def on_click(self, event: events.Click) -> None:
        """Select a row; open it with the second click."""
        index = event.y - 1 + int(self.scroll_offset.y)
        if event.y > 0 and index < len(self._rows):
            is_second = index == self.cursor and event.chain > 1
            self._move_to(index)
            if is_second:
                self.action_open()

    def on_resize(self) -> None:
        """Adjust the columns to the new width."""
        self.virtual_size = Size(0, len(self._rows) + 1)
