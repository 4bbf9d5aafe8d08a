"""FactTable: the table of values, with who said each of them."""

import re
from collections.abc import Callable, Sequence
from typing import ClassVar
from unicodedata import bidirectional

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.widgets import DataTable

from factmem._cli.place_names import place_name
from factmem._cli.readings import Row, speaker, value_words
from factmem._cli.times import ago
from factmem.models._display import shown
from factmem.models.facts import FactSource
from factmem.models.places import Place

MOST_ROWS = 1_000
"""The most rows of the table: more than anyone reads, and drawn at once. The filter finds
others."""
_LONGEST = 400
"""The maximum of characters of a value in a cell; no screen shows more."""
_LEAST = 16
"""The least width of a value."""
_WIDE = 100
"""The width of a screen from which on the table shows who said a value, and its quote."""

_NARROW = 90
"""The width of a screen up to which the value needs the room of the dates."""

_JOINED_EMOJI = re.compile("(?<=[\u2600-\u27bf\ufe0f\U0001f000-\U0001faff])\u200d")
_RIGHT_TO_LEFT = frozenset({"R", "AL"})


def _cell(text: str) -> Text:
    """Return the text of a cell, which does not affect its neighbours."""
    text = shown(text)
    if not text.isascii():
        # A joined emoji such as a family has 2 cells in some terminals and 6 in others.
        text = _JOINED_EMOJI.sub("", text)
        if any(bidirectional(each) in _RIGHT_TO_LEFT for each in text):
            # A terminal that reorders Hebrew and Arabic would also move the dates after them.
            text += "\N{LEFT-TO-RIGHT MARK}"
    return Text(text, no_wrap=True, overflow="ellipsis")


_SIGNS = {"contradiction": "?", "proposed": "?", "doubtful": "!", "new": "+", "confirmed": "✓"}


def _sign(row: Row) -> str:
    return _SIGNS.get(row.fact.state.value if row.item is None else row.item.kind, " ")


_Columns = dict[str, tuple[int, Callable[[Row], str]]]
_VALUE: _Columns = {" ": (1, _sign), "value": (0, lambda row: value_words([row.value])[:_LONGEST])}
_BY: _Columns = {"said by": (0, lambda row: _words(row.fact.source))}
_KEYWORD: _Columns = {"keyword": (18, lambda row: row.fact.concept.keyword)}
_PLACE: _Columns = {"of": (12, lambda row: _entity(row.place))}
_KEYWORD_SHORT: _Columns = {"keyword": (11, lambda row: row.fact.concept.keyword)}
_PLACE_SHORT: _Columns = {"of": (8, lambda row: _entity(row.place))}
_SAID: _Columns = {"said": (10, lambda row: ago(row.fact.timestamp))}


def _entity(place: Place) -> str:
    return "/".join(place.subject.levels) or place_name(place)


def _words(source: FactSource | None) -> str:
    """Return who said something, with the quote first, as a cell shows only its beginning."""
    if source is None or source.quote is None:
        return speaker(source)
    return f'{source.kind.value}: "{source.quote}" {source.conversation or ""}'.rstrip()


class FactTable(DataTable[Text]):
    """A table of values with a cursor for keyboard and mouse."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j,n", "cursor_down", "Down", show=False),
        Binding("k,N", "cursor_up", "Up", show=False),
        Binding("g,home", "scroll_top", "First", show=False),
        Binding("G,end", "scroll_bottom", "Last", show=False),
    ]

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - textual's name
        super().__init__(id=id, cursor_type="row", zebra_stripes=True)
        self.shown: Sequence[Row] = ()
        """The rows of the table."""

    @property
    def row(self) -> Row | None:
        """The row under the cursor."""
        return self.shown[self.cursor_row] if self.cursor_row < len(self.shown) else None

    def show(self, rows: Sequence[Row], *, keep_cursor: bool = False) -> None:
        """Show other rows; with `keep_cursor` the cursor stays on its value if it is among them."""
        stays = self._position_of(self.row, rows) if keep_cursor else 0
        self.shown = rows[:MOST_ROWS]
        has_places = any(row.item is not None or row.relevance is not None for row in rows)
        width = self.size.width or self.app.size.width
        is_wide = self.app.size.width >= _WIDE
        columns = _VALUE | (_BY if is_wide else {}) | _KEYWORD
        columns |= (_PLACE if has_places else {}) | _SAID
        if self.app.size.width < _NARROW:
            columns = _VALUE | _KEYWORD_SHORT | (_PLACE_SHORT if has_places else _SAID)
        used = sum(cells + 2 for cells, _ in columns.values()) + 2
        share = max((width - used) // (2 if is_wide else 1), _LEAST)
        self.clear(columns=True)
        for name, (cells, _) in columns.items():
            self.add_column(name, width=cells or share)
        self.add_rows([[_cell(words(row)) for _, words in columns.values()] for row in self.shown])
        self.move_cursor(row=stays)

    def _position_of(self, row: Row | None, rows: Sequence[Row]) -> int:
        """Return the index of a value among other rows, or the cursor's."""
        if row is None:
            return 0
        wanted = (row.fact.id, row.position)
        found = (at for at, each in enumerate(rows) if (each.fact.id, each.position) == wanted)
        return next(found, self.cursor_row)

    def on_resize(self) -> None:
        self.show(self.shown, keep_cursor=True)
