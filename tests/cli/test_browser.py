"""`factmem browse` by the keyboard and the mouse, over real stores."""

import json
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from textual.pilot import Pilot
from textual.widgets import Input, Static, TextArea
from typer.testing import CliRunner

from factmem import (
    CallableEmbedder,
    Concept,
    FactSource,
    FactType,
    LocalFileMemoryProvider,
    MemoryScope,
    MemorySubject,
    MultipleFacts,
    Place,
    SingleFact,
    SourceKind,
)
from factmem._cli.application import app
from factmem._cli.browse.browser import Browser, BrowserSession
from factmem._cli.browse.widgets import (
    ConfirmDialog,
    EditDialog,
    FactPage,
    FactTable,
    FormerDialog,
    KeysDialog,
    NameDialog,
    PlacesTree,
    page_text,
)
from factmem._cli.desk import editable
from factmem._cli.opening import storage_of
from factmem._cli.options import Options
from factmem._cli.output import CommandError, ExitCode
from factmem._cli.readings import Row
from factmem.models import FactState

USER = MemorySubject("user", "", 1, per_entity=True)
APP = MemoryScope.Product("my-app")
ALICE, BOB = USER.of("alice"), USER.of("bob")
EVIL = "\x1b[31m[bold red]x[/] \x9b2J \u202eabc 👨\u200d👩 한국 مرحبا"
THEME = Concept("theme", "The IDE theme")
PETS = Concept("pets", "The user's pets", FactType.MULTIPLE)
QUOTED = FactSource(SourceKind.USER, "chat-7", 3, "I like it \x1b[2Jdark [b]really[/b]")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # the loop of textual


async def _fill(store: LocalFileMemoryProvider) -> None:
    await store.save(SingleFact(THEME, "light"), ALICE, APP)
    await store.save(SingleFact(THEME, "dark", source=QUOTED), ALICE, APP)
    await store.save(SingleFact(THEME, "dark"), ALICE, APP)
    await store.save(MultipleFacts(PETS, ["Miso", "Rex"]), ALICE, APP)
    await store.save(SingleFact(Concept("note", ""), EVIL), ALICE, APP)
    await store.save(SingleFact(Concept("age", "", value_type=int), 36), BOB, APP)


async def _open_first_place(
    browser: Browser, pilot: Pilot[None], *, lines: int, facts: int
) -> None:
    """Open the place two lines below the root, in a tree with so many lines; wait for its facts."""
    tree = browser.query_one(PlacesTree)
    await _until(pilot, lambda: tree.last_line >= lines and tree.cursor_line == 0)
    await _until(pilot, lambda: browser.query_one(FactTable).has_focus)
    tree.focus()
    await pilot.press("down", "down", "enter")
    await _until(pilot, lambda: len(browser.query_one(FactTable).shown) == facts)


@asynccontextmanager
async def _browsing(
    folder: Path, embedder: CallableEmbedder | None = None
) -> AsyncGenerator[tuple[Browser, Pilot[None]]]:
    """A browser over Alice's and Bob's facts, with Alice's place open."""
    options = Options(str(folder))
    storage = storage_of(options, is_new=True)
    async with LocalFileMemoryProvider(folder, storage=storage) as store:
        await _fill(store)
        session = BrowserSession(store, options, embedder=embedder, actor="jane")
        browser = Browser(session)
        async with browser.run_test(size=(200, 30)) as pilot:
            await _open_first_place(browser, pilot, lines=3, facts=4)
            yield browser, pilot


async def _until(pilot: Pilot[None], is_so: Callable[[], bool]) -> None:
    with anyio.fail_after(60):
        while not is_so():
            await pilot.pause(0.01)


def _shown(browser: Browser) -> str:
    table = browser.screen.query_one(FactTable)
    return "\n".join(str(cell) for n in range(table.row_count) for cell in table.get_row_at(n))


def _values(browser: Browser) -> list[Any]:
    return [row.value for row in browser.query_one(FactTable).shown]


async def test_places_values_and_a_value(tmp_path: Path) -> None:
    """The tree, table and page escape markup and control characters in values."""
    async with _browsing(tmp_path) as (browser, pilot):
        assert _values(browser) == [EVIL, "Miso", "Rex", "dark"]
        drawn = _shown(browser)
        assert not set(drawn) & set("\x1b\x9b\u202e")
        assert "\\x1b[31m[bold red]x[/]" in drawn
        assert 'user: "I like it \\x1b[2Jdark [b]really[/b]" chat-7' in drawn
        assert "👨👩 한국 مرحبا" in drawn

        await pilot.press("end", "enter")
        await _until(pilot, lambda: isinstance(browser.screen, FactPage))
        page = str(browser.screen.query_one(Static).render())
        assert "chat-7, message 3" in page
        assert "I like it \\x1b[2Jdark [b]really[/b]" in page
        assert "Said again once" in page
        assert page.index("light") < page.rindex("dark")
        await pilot.press("escape")
        await _until(pilot, lambda: not isinstance(browser.screen, FactPage))


@pytest.mark.storm
async def test_edit_forget_undo(tmp_path: Path) -> None:
    """Each change is in the store at once; undo reverts them from the newest to the oldest."""
    async with _browsing(tmp_path) as (browser, pilot):
        await pilot.press("end", "e")
        await _until(pilot, lambda: isinstance(browser.screen, EditDialog))
        browser.screen.query_one(TextArea).text = "solarized"
        await pilot.press("ctrl+s")
        await _until(pilot, lambda: _values(browser)[-1] == "solarized")

        await pilot.press("home", "down", "f")
        await _until(pilot, lambda: isinstance(browser.screen, ConfirmDialog))
        await pilot.press("enter")  # the default is no
        await _until(pilot, lambda: not isinstance(browser.screen, ConfirmDialog))
        await pilot.press("f")
        await _until(pilot, lambda: isinstance(browser.screen, ConfirmDialog))
        assert "Miso" in _values(browser)
        await pilot.press("y")
        await _until(pilot, lambda: "Miso" not in _values(browser))
        async with LocalFileMemoryProvider(tmp_path) as other:
            [pets] = await other.load(PETS, ALICE, APP)
            assert pets.values == ("Rex",)

        await pilot.press("u")
        await _until(pilot, lambda: "Miso" in _values(browser))
        await pilot.press("u")
        await _until(pilot, lambda: _values(browser)[-1] == "dark")
        await pilot.press("u")  # nothing left to undo
        await pilot.pause()
        assert _values(browser)[-1] == "dark"


@pytest.mark.storm
async def test_the_inbox_is_the_first_list(tmp_path: Path) -> None:
    """It has what models learnt; a person keeps it, after giving a name and a reason once."""
    async with LocalFileMemoryProvider(tmp_path) as store:
        await _fill(store)
        session = BrowserSession(store, Options(str(tmp_path)))
        browser = Browser(session)
        async with browser.run_test(size=(120, 30)) as pilot:
            await _until(pilot, lambda: _values(browser) == ["dark"])
            assert "alice" in _shown(browser)
            assert "I like it" in _shown(browser)
            await pilot.press("slash", *"nothing")
            await _until(pilot, lambda: _values(browser) == [])
            await pilot.press("escape")
            await _until(pilot, lambda: _values(browser) == ["dark"])

            await pilot.press("y")
            await _until(pilot, lambda: isinstance(browser.screen, NameDialog))
            browser.screen.query_one("#actor", Input).value = "jane"
            await pilot.press("enter", *"checked", "enter")
            await _until(pilot, lambda: _values(browser) == [])
            [theme] = await store.load(THEME, ALICE, APP)
            assert (theme.state, theme.actor) == (FactState.CONFIRMED, "jane")
            assert theme.reason == "checked"
            await pilot.press("u")
            await _until(pilot, lambda: _values(browser) == ["dark"])


async def test_the_inbox_begins_at_its_top(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While places are read, later ones come first. Afterwards the cursor is on its value."""
    async with LocalFileMemoryProvider(tmp_path) as store:
        for name in "abcd":
            await store.save(SingleFact(THEME, name, source=QUOTED), USER.of(name), APP)
        session = BrowserSession(store, Options(str(tmp_path)))
        recent, browser = session.recent, Browser(session)
        monkeypatch.setattr(recent, "follow", anyio.sleep_forever)

        def is_shown(values: list[str]) -> bool:
            return _values(browser) == values

        async with browser.run_test(size=(120, 30)) as pilot:
            for name, shown in (("a", ["a"]), ("c", ["c", "a"]), ("b", ["c", "b", "a"])):
                await recent.reread(Place(APP, USER.of(name)))
                await _until(pilot, partial(is_shown, shown))
            table, status = browser.query_one(FactTable), browser.query_one("#where", Static)
            assert table.cursor_row == 0
            assert "still being read" in str(status.render())
            await recent.refresh()
            await _until(pilot, lambda: "still being read" not in str(status.render()))
            assert (_values(browser)[0], table.cursor_row) == ("d", 0)

            await store.save(SingleFact(THEME, "e", source=QUOTED), USER.of("e"), APP)
            await recent.refresh()
            await _until(pilot, lambda: _values(browser)[0] == "e")
            assert table.cursor_row == 1


@pytest.mark.storm
async def test_a_former_value_is_restored(tmp_path: Path) -> None:
    """From the list of the values that the keyword had."""
    async with _browsing(tmp_path) as (browser, pilot):
        await pilot.press("end", "enter")
        await _until(pilot, lambda: isinstance(browser.screen, FactPage))
        await pilot.press("h")
        await _until(pilot, lambda: isinstance(browser.screen, FormerDialog))
        await pilot.press("enter")
        await _until(pilot, lambda: _values(browser)[-1] == "light")
        await pilot.press("h")
        await _until(pilot, lambda: isinstance(browser.screen, FormerDialog))
        await pilot.press("escape")
        await _until(pilot, lambda: not isinstance(browser.screen, FormerDialog))
        assert _values(browser)[-1] == "light"


@pytest.mark.storm
async def test_keys_are_shown_and_pages_follow_each_other(tmp_path: Path) -> None:
    """`?` lists the keys; n and N open the next and the previous page."""
    async with _browsing(tmp_path) as (browser, pilot):
        await pilot.press("question_mark")
        await _until(pilot, lambda: isinstance(browser.screen, KeysDialog))
        await pilot.press("escape")
        await _until(pilot, lambda: not isinstance(browser.screen, KeysDialog))

        def open_value() -> Any:
            page = browser.screen
            return page.row.value if isinstance(page, FactPage) else None

        await pilot.press("home", "enter")
        await _until(pilot, lambda: open_value() == EVIL)
        await pilot.press("n")
        await _until(pilot, lambda: open_value() == "Miso")
        await pilot.press("N")
        await _until(pilot, lambda: open_value() == EVIL)


@pytest.mark.storm
async def test_filter_and_search(tmp_path: Path) -> None:
    """Typing filters the place, Enter searches the whole store, Escape returns."""
    ages = re.compile(r"\b(age|old)\b")  # not in "[bold red]"
    meanings = CallableEmbedder(
        lambda texts: [[float(bool(ages.search(each))), 0.1] for each in texts], model="m"
    )

    async with _browsing(tmp_path, meanings) as (browser, pilot):
        await pilot.press("slash", *"rex")
        await _until(pilot, lambda: _values(browser) == ["Rex"])
        browser.query_one("#search", Input).value = "how old"
        await pilot.press("enter")
        await _until(pilot, lambda: _values(browser)[:1] == [36])
        assert "bob" in _shown(browser)
        await pilot.press("escape")
        await _until(pilot, lambda: len(_values(browser)) == 4)
        await pilot.press("s")
        await _until(pilot, lambda: _values(browser)[0] == EVIL)  # saved last
        await pilot.press("p", *"bob")
        await _until(pilot, lambda: browser.query_one(PlacesTree).last_line == 2)


@pytest.mark.storm
async def test_closing_while_a_filter_waits_is_no_failure(tmp_path: Path) -> None:
    """The pause after the last key ends when the fields are gone."""
    async with _browsing(tmp_path) as (browser, pilot):
        await pilot.press("slash", "a")
        field = browser.query_one("#search", Input)
        assert field.value == "a"
        await field.remove()
        await pilot.pause(0.4)

    assert browser.return_code is None  # of a test; a failure is raised above


async def test_another_process_writes(tmp_path: Path) -> None:
    """The table, an open page and the tree show it; an edit of an outdated value is refused."""
    async with _browsing(tmp_path) as (browser, pilot):
        session = browser.session
        [*_, row] = browser.query_one(FactTable).shown
        async with LocalFileMemoryProvider(tmp_path) as other:
            await other.save(SingleFact(THEME, "high contrast"), ALICE, APP)
            await other.save(SingleFact(THEME, "dark"), USER.of("carol"), APP)
            await _until(pilot, lambda: _values(browser)[-1] == "high contrast")
            await _until(pilot, lambda: browser.query_one(PlacesTree).last_line == 4)
            with pytest.raises(CommandError, match="in the meantime"):
                await session.change("correct", row, "blue")
            with pytest.raises(CommandError, match="in the meantime"):
                await session.change("reject", row)

            [*_, now] = browser.query_one(FactTable).shown
            await session.change("correct", now, "green")
            await other.save(SingleFact(THEME, "black"), ALICE, APP)
            with pytest.raises(ValueError, match="rests on"):
                await session.undo_last()


@pytest.mark.storm
async def test_the_mouse_selects_and_opens(tmp_path: Path) -> None:
    """A click selects and a double click opens."""
    async with _browsing(tmp_path) as (browser, pilot):
        await pilot.click(FactTable, offset=(2, 3))
        await _until(pilot, lambda: browser.query_one(FactTable).cursor_row == 2)
        await pilot.click(FactTable, offset=(2, 3), times=2)
        await _until(pilot, lambda: isinstance(browser.screen, FactPage))


async def test_an_edit_keeps_the_kind(tmp_path: Path) -> None:
    """A keyword with integers rejects words; a value with escapes is edited as JSON."""
    options = Options(str(tmp_path))

    async with LocalFileMemoryProvider(tmp_path) as store:
        await _fill(store)
        session = BrowserSession(store, options)
        [age] = await session.rows(Place(APP, BOB))
        with pytest.raises(CommandError, match="has integer values"):
            await session.change("correct", age, "old")
        await session.change("correct", age, "37")
        note = (await session.rows(Place(APP, ALICE)))[0]
        assert not set(editable(note.value)) & set("\x1b\x9b\u202e")
        typed = editable(note.value).replace("abc", "xyz")
        await session.change("correct", note, typed)
        changed = (await session.rows(Place(APP, ALICE)))[0]
        assert changed.value == EVIL.replace("abc", "xyz")


@pytest.mark.storm
async def test_a_hundred_thousand_rows_are_shown_in_part(tmp_path: Path) -> None:
    """The table has a thousand of them; the filter searches all."""
    async with LocalFileMemoryProvider(tmp_path) as store:
        facts = [SingleFact(Concept(f"k{number:05}", ""), "dark") for number in range(3_000)]
        await store.save_many(facts, ALICE, APP)
        browser = Browser(BrowserSession(store, Options(str(tmp_path))))
        async with browser.run_test(size=(120, 30)) as pilot:
            await _open_first_place(browser, pilot, lines=2, facts=1_000)
            table = browser.query_one(FactTable)
            assert "the first 1,000 shown" in str(browser.query_one("#where", Static).render())
            await pilot.press("G")
            await _until(pilot, lambda: table.cursor_row == 999)
            await pilot.press("slash", *"k02999")
            await _until(pilot, lambda: len(table.shown) == 1)


def test_the_page_of_a_value_without_history() -> None:
    """With a provider that keeps no history, the page shows only the value and its fields."""
    row = Row(Place(APP, ALICE), SingleFact(Concept("home", "", value_type=dict), {"city": "Ulm"}))

    page = page_text(row, None).plain

    assert json.dumps({"city": "Ulm"}, indent=2) in page
    assert "No source was recorded" in page


def test_browse_without_a_terminal_names_other_commands(tmp_path: Path) -> None:
    """Nothing is read."""
    done = CliRunner().invoke(app, ["--store", str(tmp_path / "none"), "browse"])

    assert done.exit_code == ExitCode.REFUSED
    assert "needs a terminal: use `show`" in done.output
