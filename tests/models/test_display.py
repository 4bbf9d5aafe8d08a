"""Tables in notebooks and in `rich`, and rows for data frames."""

import io
from datetime import UTC, datetime
from html.parser import HTMLParser
from typing import Any

import pandas
import polars
from rich.console import Console

from factmem import (
    AgentMemory,
    Concept,
    FactSource,
    FactType,
    InMemoryProvider,
    MemoryScope,
    MemoryScopesProfile,
    MemorySubject,
    MultipleFacts,
    SingleFact,
    SourceKind,
)
from factmem.models._display import Displayed, one_kind
from tests.tables import table

EVIL = "<script>alert(1)</script> [red]x[/] \x1b[2J \u202eabc"
WHEN = datetime(2026, 3, 1, 12, tzinfo=UTC)
USER = MemorySubject("user", "", 1, per_entity=True)
APP = MemoryScope.Product("app")
NOTE = Concept("note", "A note")
PETS = Concept("pets", "The user's pets", FactType.MULTIPLE)


class _Tags(HTMLParser):
    """Collects the tags and the text of HTML."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        """Record a tag."""
        del attrs
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        """Record text."""
        self.text += data


def _html(displayed: Displayed) -> str:
    parser = _Tags()
    parser.feed(displayed._repr_html_())
    assert parser.tags <= {"table", "caption", "thead", "tbody", "tr", "th", "td"}
    return parser.text


def _rich(displayed: Displayed) -> str:
    console = Console(file=io.StringIO(), width=200, force_terminal=False)
    with console.capture() as captured:
        console.print(displayed)
    return captured.get()


async def _memory() -> AgentMemory:
    store = InMemoryProvider()
    alice = USER.of("alice")
    source = FactSource(SourceKind.USER, "chat-7", 3, "so she said")
    await store.save(SingleFact(NOTE, "old", timestamp=WHEN), alice, APP)
    await store.save(SingleFact(NOTE, EVIL, timestamp=WHEN, source=source), alice, APP)
    await store.save(MultipleFacts(PETS, ["Miso", "Rex"], timestamp=WHEN), alice, APP)
    return AgentMemory(store, scopes=MemoryScopesProfile(product="app"), subjects=[alice])


async def test_markup_in_values_is_escaped_everywhere() -> None:
    """This holds for facts, records, histories, matches, reports and trees, in HTML and in rich."""
    memory = await _memory()
    records = await memory.contents.records()
    [note] = [each for each in records if each.fact.concept == NOTE]
    shown: list[Displayed] = [
        note,
        note.fact,
        records,
        await memory.contents.history(note.fact.id),
        await memory.recall("note"),
        (await memory.recall("note"))[0],
        await memory.contents.tree(),
    ]

    for each in shown[:6]:
        for text in (_html(each), _rich(each)):
            assert "<script>alert(1)</script> [red]x[/]" in text, type(each).__name__
            assert not set(text) & set("\x1b\u202e")
    assert "user" in _html(shown[6])
    assert "alice" in _rich(shown[6])


async def test_reports_show_their_fields() -> None:
    """They show counts and facts, and not the fields that the repr leaves out."""
    memory = await _memory()
    report = await memory.load_facts_to_agent([{"role": "user", "content": "hello"}])
    [info] = await memory.contents.places()

    assert "left_out" in _html(report)
    assert "product/app" in _html(info)
    assert "count" in _rich(info)


async def test_rows_are_valid_for_data_frames() -> None:
    """Records, histories and matches each need one call."""
    memory = await _memory()
    records = await memory.contents.records()
    [note] = [each for each in records if each.fact.concept == NOTE]
    history = await memory.store.history(NOTE, USER.of("alice"), APP)
    matches = await memory.recall("pets")

    for rows in (records.to_rows(), history.to_rows(), matches.to_rows()):
        frame, other = pandas.DataFrame(rows), polars.DataFrame(rows)
        assert len(frame) == len(other) == len(rows)
        assert list(frame.columns) == other.columns
    frame = pandas.DataFrame(records.to_rows())
    assert sorted(frame["value"]) == sorted(["Miso", "Rex", EVIL])
    assert frame["said"].dt.year.tolist() == [2026] * 3
    assert pandas.DataFrame(history.to_rows())["action"].tolist() == ["saved", "saved"]
    assert [row["id"] for row in history.to_rows()][-1] == note.fact.id


@table(
    ("values", "expected"),
    [
        (["a", None], ["a", None]),
        ([1, 2], [1, 2]),
        ([1, 2.5], [1.0, 2.5]),
        ([True, None], [True, None]),
        ([1, "a"], ["1", '"a"']),
        ([{"x": 1}, None], ['{"x": 1}', None]),
        ([True, 1], ["true", "1"]),
    ],
)
def test_a_column_has_one_type(values: list[Any], expected: list[Any]) -> None:
    """Values of several types become JSON."""
    rows = one_kind({"value": each} for each in values)

    assert [row["value"] for row in rows] == expected
    assert [type(row["value"]) for row in rows] == [type(each) for each in expected]
    assert polars.DataFrame(rows)["value"].to_list() == expected
