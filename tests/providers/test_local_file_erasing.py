"""Erasure in local stores: its extent, and the remaining bytes on disk."""

# ruff: noqa: ASYNC240 - the tests look at the disk themselves

import json
import shutil
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path

import anyio
import pytest

from factmem.errors import CorruptJournalError, TamperedError
from factmem.models.sources import FactSource, SourceKind
from factmem.providers import _recent_places
from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.providers.results import ErasureReceipt
from factmem.providers.storages import SimpleStorage, Storage
from factmem.testing.clock import START, SettableClock
from factmem.testing.facts import (
    AGENT,
    LANGUAGES,
    PERSON,
    THEME,
    languages,
    theme,
)
from tests.providers.local_stores import ALICE, BOB, current, disk, journal_of, journals

DAY = timedelta(days=1)
SECRET = "the-secret-\u00fc-\U0001f95d"


def holds(root: Path, value: str) -> list[str]:
    """Return the files that contain a value, as UTF-8 or as JSON escapes."""
    spellings = {value.encode(), value.encode("unicode_escape"), value[:10].encode()}
    return [name for name, data in disk(root).items() if any(text in data for text in spellings)]


def flip(path: Path, line: int) -> None:
    """Change one byte in the middle of a line; the first line is 1."""
    lines = path.read_bytes().split(b"\n")
    middle = len(lines[line - 1]) // 2
    old = lines[line - 1]
    lines[line - 1] = old[:middle] + bytes([old[middle] ^ 1]) + old[middle + 1 :]
    path.write_bytes(b"\n".join(lines))


Step = Callable[[LocalFileMemoryProvider], Awaitable[object]]

STEPS: dict[str, list[Step]] = {
    "current": [lambda store: store.save(theme(SECRET), ALICE, AGENT)],
    "replaced": [
        lambda store: store.save(theme(SECRET), ALICE, AGENT),
        lambda store: store.save(theme("dark"), ALICE, AGENT),
    ],
    "forgotten": [
        lambda store: store.save(theme(SECRET), ALICE, AGENT),
        lambda store: store.forget(ALICE, AGENT, concept=THEME),
    ],
    "confirmed": [
        lambda store: store.save(theme(SECRET), ALICE, AGENT),
        lambda store: store.save(theme(SECRET), ALICE, AGENT),
    ],
    "compacted": [
        lambda store: store.save(theme("light"), ALICE, AGENT),
        lambda store: store.save(theme(SECRET), ALICE, AGENT),
        lambda store: store.compact(ALICE, AGENT),
    ],
}


@pytest.mark.parametrize("steps", STEPS)
async def test_a_purged_value_is_not_on_disk(root: Path, steps: str) -> None:
    """For any earlier change of it, no file of the store contains a byte of it."""
    store = LocalFileMemoryProvider(root)
    await store.save(languages("java"), ALICE, AGENT)
    for step in STEPS[steps]:
        await step(store)
    assert holds(root, SECRET)

    await store.forget(ALICE, AGENT, concept=THEME, value=SECRET, purge=True)

    assert holds(root, SECRET) == []
    assert "java" in await current(LocalFileMemoryProvider(root))


@pytest.mark.parametrize("length", range(8, 20))
async def test_a_value_can_be_purged_from_a_fact_of_many(root: Path, length: int) -> None:
    """It may be as long as the text that then names the positions of the others."""
    store, secret = LocalFileMemoryProvider(root), "0123456789abcdefghij"[:length]
    await store.save(languages("java", secret, "rust"), ALICE, AGENT)

    assert await store.forget(ALICE, AGENT, concept=LANGUAGES, value=secret, purge=True) == 1

    assert holds(root, secret) == []
    assert await current(LocalFileMemoryProvider(root)) == ["java", "rust"]


async def test_purging_a_source_removes_its_quotes(root: Path) -> None:
    """The quote is removed with the value."""
    store = LocalFileMemoryProvider(root)
    source = FactSource(SourceKind.USER, "chat-1", 3, f"I said {SECRET}")
    await store.save(theme("dark", source=source), ALICE, AGENT)

    await store.forget(ALICE, AGENT, source=FactSource(SourceKind.USER, "chat-1"), purge=True)

    assert holds(root, SECRET) == []
    assert holds(root, "dark") == []


async def test_a_purge_includes_copies_and_leftovers(root: Path) -> None:
    """Files of a salvage and of a killed compaction belong to the store too."""
    store = LocalFileMemoryProvider(root)
    await store.save(theme(SECRET), ALICE, AGENT)
    await store.save(languages("java"), ALICE, AGENT)
    await store.save(languages("rust"), ALICE, AGENT)
    flip(journal_of(root), 3)
    await store.salvage(ALICE, AGENT)
    leftover = root / "journals" / f"{journals(root)[0].name}.tmp"
    shutil.copy(journals(root)[0], leftover)
    assert len(holds(root, SECRET)) == 3

    await store.forget(ALICE, AGENT, concept=THEME, purge=True)

    assert holds(root, SECRET) == []
    assert await current(store) == ["rust"]


async def test_an_erased_place_leaves_nothing(root: Path, storage: Storage) -> None:
    """No file, copy or leftover remains; the receipt has the erased size."""
    store = LocalFileMemoryProvider(root, storage=storage)
    await store.save(theme("dark"), BOB, AGENT)
    before = disk(root)
    await store.save_many([theme(SECRET), languages("java", "c")], ALICE, AGENT)
    await store.save(languages("rust"), ALICE, AGENT)
    (journal,) = [path for path in journals(root) if str(path.relative_to(root)) not in before]
    flip(journal, len(journal.read_bytes().splitlines()) - 1)
    await store.salvage(ALICE, AGENT)
    shutil.copy(journal, f"{journal}.tmp")
    freed = sum(len(data) for name, data in disk(root).items() if name not in before)

    receipt = await store.erase(ALICE, AGENT)

    left = disk(root)
    assert json.loads(left.pop("factmem.json"))["erased"] == 1
    assert left == {name: data for name, data in before.items() if name != "factmem.json"}
    assert receipt == ErasureReceipt(
        scope=AGENT,
        subject=ALICE,
        erased_at=receipt.erased_at,
        count=1,
        bytes=freed,
        key_destroyed=not isinstance(storage, SimpleStorage),
    )
    assert await current(store) == []
    assert await current(store, BOB) == ["dark"]


async def test_compaction_removes_history(
    root: Path, storage: Storage, clock: SettableClock
) -> None:
    """It keeps the requested span, and everything current."""
    store = LocalFileMemoryProvider(root, storage=storage, clock=clock)
    for value in ("light", "dim", "dark"):
        await store.save(theme(value), ALICE, AGENT)
        clock.advance(DAY)
    await store.save(languages("java"), ALICE, AGENT)
    size = journal_of(root).stat().st_size

    freed = await store.compact(ALICE, AGENT, keep_history=2 * DAY)

    assert freed > 0
    assert journal_of(root).stat().st_size < size
    assert await current(store) == ["dark", "java"]
    told = await store.history(THEME, ALICE, AGENT)
    assert [entry.fact.values for entry in told if entry.fact] == [("dim",), ("dark",)]
    (dim,) = await store.load(THEME, ALICE, AGENT, as_of=START + DAY)
    assert dim.value == "dim"
    assert await store.compact(ALICE, AGENT) > 0
    assert await store.compact(ALICE, AGENT) == 0
    assert await current(LocalFileMemoryProvider(root, storage=storage)) == ["dark", "java"]


@pytest.fixture
def clock() -> SettableClock:
    return SettableClock()


async def test_old_history_is_compacted_automatically(root: Path, storage: Storage) -> None:
    """With `keep_history` saves do it; without it, they never do."""
    keeping = LocalFileMemoryProvider(root / "keeping", storage=storage)
    thrifty = LocalFileMemoryProvider(root / "thrifty", storage=storage, keep_history=timedelta(0))

    for store in (keeping, thrifty):
        await store.save(languages("java"), ALICE, AGENT)
        for batch in range(10):
            async with anyio.create_task_group() as tasks:
                for number in range(100):
                    fact = theme(f"theme {batch} {number}")
                    tasks.start_soon(store.save, fact, ALICE, AGENT)
        await store.save(theme("dark"), ALICE, AGENT)

    assert len(await keeping.entries(ALICE, AGENT)) == 1002
    assert len(await thrifty.entries(ALICE, AGENT)) < 600
    for store in (keeping, thrifty):
        assert await current(store) == ["dark", "java"]


async def test_what_is_known_of_places_without_old_history_is_bounded(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process may save to millions of places with `keep_history` and compact none of them."""
    monkeypatch.setattr(_recent_places, "_MOST", 3)
    store = LocalFileMemoryProvider(root, keep_history=DAY)
    for number in range(12):
        await store.save(theme("dark"), PERSON.of(f"user-{number}"), AGENT)

    assert len(store._backend.blocking._checked) <= 3  # type: ignore[attr-defined]


async def test_history_can_be_kept_for_the_longest_timedelta(root: Path) -> None:
    """It removes nothing, and fails no save."""
    store = LocalFileMemoryProvider(root, keep_history=timedelta.max)

    async with anyio.create_task_group() as tasks:
        for number in range(300):
            tasks.start_soon(store.save, theme(f"v{number}"), ALICE, AGENT)

    assert await store.compact(ALICE, AGENT, keep_history=timedelta.max) == 0
    assert len(await store.history(THEME, ALICE, AGENT)) == 300


def test_a_negative_keep_history_raises(root: Path) -> None:
    """It would remove the future."""
    with pytest.raises(ValueError, match="must be a timedelta of at least 0"):
        LocalFileMemoryProvider(root, keep_history=-DAY)


async def test_a_negative_keep_history_of_compact_raises(root: Path) -> None:
    """Nothing is rewritten."""
    store = LocalFileMemoryProvider(root)
    await store.save(theme("dark"), ALICE, AGENT)

    with pytest.raises(ValueError, match="must be a timedelta of at least 0"):
        await store.compact(ALICE, AGENT, keep_history=-DAY)


async def test_damage_is_reported_until_it_is_salvaged(root: Path, storage: Storage) -> None:
    """Reads and saves raise and change nothing; salvage keeps a copy and repairs the journal."""
    store = LocalFileMemoryProvider(root, storage=storage)
    for value in ("a", "b", "c"):
        await store.save(languages(value), ALICE, AGENT)
    flip(journal_of(root), len(journal_of(root).read_bytes().splitlines()) - 1)
    before = disk(root)
    store = LocalFileMemoryProvider(root, storage=storage)

    for act in (
        lambda: store.load(LANGUAGES, ALICE, AGENT),
        lambda: store.load_all(ALICE, AGENT),
        lambda: store.history(LANGUAGES, ALICE, AGENT),
        lambda: store.save(languages("d"), ALICE, AGENT),
        lambda: store.forget(ALICE, AGENT, concept=LANGUAGES),
        lambda: store.compact(ALICE, AGENT),
        store.anchor,
    ):
        with pytest.raises(CorruptJournalError, match=str(journal_of(root))):
            await act()
    assert disk(root) == before

    salvaged = await store.salvage(ALICE, AGENT)

    assert (salvaged.kept, salvaged.missing) == (2, 1)
    copy = Path(salvaged.copy)
    assert copy.parent == root / "journals"
    assert copy.read_bytes() in before.values()
    assert await current(store) == ["a", "c"]
    await store.save(languages("d"), ALICE, AGENT)
    assert await current(LocalFileMemoryProvider(root, storage=storage)) == ["a", "c", "d"]


async def test_damage_affects_no_other_place(root: Path, storage: Storage) -> None:
    """Damage is the affair of one place."""
    store = LocalFileMemoryProvider(root, storage=storage)
    await store.save(theme("dark"), ALICE, AGENT)
    flip(journal_of(root), 1)
    await store.save(theme("light"), BOB, AGENT)

    with pytest.raises((CorruptJournalError, TamperedError)):
        await LocalFileMemoryProvider(root, storage=storage).load(THEME, ALICE, AGENT)

    assert await current(LocalFileMemoryProvider(root, storage=storage), BOB) == ["light"]


async def _grown(root: Path, storage: Storage) -> LocalFileMemoryProvider:
    store = LocalFileMemoryProvider(root, storage=storage)
    for value in ("light", "dark"):
        await store.save(theme(value), ALICE, AGENT)
        await store.save(languages(value), BOB, AGENT)
    return store


async def test_an_anchor_stays_valid(root: Path, storage: Storage) -> None:
    """Saves, forgetting and compaction do not matter, nor does time."""
    empty = await LocalFileMemoryProvider(root, storage=storage).anchor()
    store = await _grown(root, storage)
    anchor = await store.anchor()

    await store.verify(anchor)
    await store.save(theme("dim"), ALICE, AGENT)
    await store.forget(BOB, AGENT, concept=LANGUAGES)
    await store.verify(anchor)
    await store.compact(ALICE, AGENT)
    await store.compact(BOB, AGENT)
    await store.verify(anchor)

    await LocalFileMemoryProvider(root, storage=storage).verify(anchor)
    await store.verify(empty)


@pytest.mark.parametrize("change", ["store", "place", "end", "gone", "erased", "other"])
async def test_an_anchor_detects_what_was_put_back(
    root: Path, storage: Storage, change: str
) -> None:
    """The whole store or a file was put back, cut at a line's end, or is gone."""
    store = await _grown(root, storage)
    shutil.copytree(root, root.with_name("copy"))
    before = disk(root)
    await store.save(theme("dim"), ALICE, AGENT)
    anchor = await store.anchor()
    changed = [name for name, data in disk(root).items() if before[name] != data]
    (name,) = [
        name for name in changed if name != "factmem.json"
    ]  # taking an anchor writes its counter there
    match change:
        case "store":
            shutil.rmtree(root)
            shutil.copytree(root.with_name("copy"), root)
        case "place":
            shutil.copy(root.with_name("copy") / name, root / name)
        case "end":
            lines = (root / name).read_bytes().splitlines(keepends=True)
            (root / name).write_bytes(b"".join(lines[:-1]))
        case "gone":
            (root / name).unlink()
        case "erased":
            await store.erase(ALICE, AGENT)
        case "other":
            shutil.rmtree(root)
            await _grown(root, storage)

    error = CorruptJournalError if isinstance(storage, SimpleStorage) else TamperedError
    with pytest.raises(error, match=r"anchor|had come to"):
        await LocalFileMemoryProvider(root, storage=storage).verify(anchor)


async def test_verify_without_an_anchor_reads_every_journal(root: Path, storage: Storage) -> None:
    """Damage is found in a place that is never loaded; an empty folder passes."""
    assert await LocalFileMemoryProvider(root, storage=storage).verify() == []
    store = await _grown(root, storage)
    seen: list[tuple[int, int]] = []

    assert await store.verify(progress=lambda done, total: seen.append((done, total))) == []
    assert seen == [(1, 2), (2, 2)]
    await store.aclose()
    flip(journals(root)[1], 2)

    with pytest.raises(CorruptJournalError, match="is damaged"):
        await LocalFileMemoryProvider(root, storage=storage).verify()


@pytest.mark.parametrize("text", ["", "nonsense", "e30=", "\u00fc", "eyJhbmNob3IiOjJ9"])
async def test_an_invalid_anchor_raises(root: Path, text: str) -> None:
    """The error says what to pass."""
    store = LocalFileMemoryProvider(root)
    await store.save(theme("dark"), ALICE, AGENT)

    with pytest.raises(ValueError, match=r"pass the string that anchor\(\) returned"):
        await store.verify(text)


async def test_a_corrected_clock_loses_nothing(root: Path, clock: SettableClock) -> None:
    """A compaction does not use the times of earlier reads."""
    store = LocalFileMemoryProvider(root, clock=clock)
    await store.save(theme("dark", expires_at=START + timedelta(days=9)), ALICE, AGENT)
    clock.now = START + timedelta(days=36500)
    assert await current(store) == []
    clock.now = START + timedelta(days=1)

    assert await store.compact(ALICE, AGENT) == 0

    assert await current(LocalFileMemoryProvider(root, clock=clock)) == ["dark"]
