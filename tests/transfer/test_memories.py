"""Stores of mem0 and CrewAI: memories are imported once, with time and user; no code is run."""

import json
import os
import pickle
import shutil
import sqlite3
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from factmem.errors import MissingExtraError, UnboundSubjectError
from factmem.models.facts import AnyFact, Concept
from factmem.models.places import MemoryScope, MemorySubject
from factmem.providers.base import FactStore
from factmem.providers.in_memory import InMemoryProvider
from factmem.transfer._memory_files import library_of
from factmem.transfer.memories import import_crewai, import_mem0
from tests.world import USER

MEM0 = Path(__file__).parent.parent / "data" / "mem0"
APP = MemoryScope.Product("my-app")
DESK = MemoryScope.Agent("desk")
ALICE, BOB = USER.of("alice"), USER.of("bob")


@pytest.fixture
def store() -> InMemoryProvider:
    return InMemoryProvider()


async def texts(
    store: FactStore, subject: MemorySubject = ALICE, scope: MemoryScope = APP
) -> dict[str, list[Any]]:
    """Return a place's current values by keyword."""
    found: dict[str, list[Any]] = {}
    for fact in await store.load_all(subject, scope):
        found.setdefault(fact.concept.keyword, []).extend(fact.values)
    return found


async def fact_of(store: FactStore, subject: MemorySubject = ALICE) -> AnyFact:
    [fact] = await store.load_all(subject, APP)
    return fact


def json_file(folder: Path, memories: Sequence[dict[str, Any]], *, results: bool = True) -> Path:
    file = folder / "memories.json"
    file.write_text(json.dumps({"results": memories} if results else memories))
    return file


def memory(text: str = "Lives in Busan", **fields: Any) -> dict[str, Any]:
    """Return a memory as mem0's get_all() does."""
    return {
        "id": "m1",
        "memory": text,
        "hash": "f1",
        "metadata": None,
        "created_at": "2026-03-01T09:30:00+00:00",
        "updated_at": None,
        "user_id": "alice",
        **fields,
    }


def record(text: str = "Lives in Busan", **fields: Any) -> dict[str, Any]:
    """Return a record as CrewAI's model_dump(mode="json") does."""
    return {
        "id": "r1",
        "content": text,
        "scope": "/home/alice",
        "categories": [],
        "metadata": {},
        "importance": 0.5,
        "created_at": "2026-03-01T09:30:00",
        "last_accessed": "2026-03-01T09:30:00",
        "source": None,
        "private": False,
        **fields,
    }


class TestQdrant:
    """A folder that mem0 wrote, checked in."""

    async def test_memories_go_to_their_users_and_agents_once(self, store: FactStore) -> None:
        """Updated values are current, deleted ones gone, and a second import changes nothing."""
        report = await import_mem0(MEM0, store, scope=APP, subject=USER)

        assert (report.new, report.known, report.problems) == (3, 0, ())
        assert await texts(store) == {"preferences": ["Prefers Kotlin to Java"]}
        assert await texts(store, BOB) == {"notes": ["Speaks 한국어 [bold]"]}
        assert await texts(store, ALICE, DESK) == {"notes": ["Lives in Seoul"]}
        [fact] = await store.load_all(ALICE, DESK)
        assert fact.timestamp == datetime(2026, 11, 22, 21, 47, 40, 862468, UTC)
        assert fact.source is not None
        assert fact.source.conversation == "17"
        assert dict(fact.metadata) == {"role": "user"}
        before = await store.entries(ALICE, APP)
        again = await import_mem0(MEM0, store, scope=APP, subject=USER)
        assert (again.new, again.known) == (0, 3)
        assert await store.entries(ALICE, APP) == before

    async def test_one_subject_gets_all_memories(self, store: FactStore) -> None:
        """The application says that the store belongs to one person."""
        await import_mem0(MEM0, store, scope=APP, subject=ALICE)

        assert await texts(store, BOB) == {}
        assert len(await store.load_all(ALICE, APP)) == 2

    async def test_the_folder_is_not_changed(self, store: FactStore, tmp_path: Path) -> None:
        """SQLite leaves no journal files either."""
        shutil.copytree(MEM0, tmp_path / "mem0")
        files = _files(tmp_path)

        await import_mem0(tmp_path, store, scope=APP, subject=USER)

        assert _files(tmp_path) == files

    async def test_a_history_file_has_values_without_users(
        self, store: FactStore, tmp_path: Path
    ) -> None:
        """The rest of the data if the vectors were on a server."""
        shutil.copy(MEM0 / "history.db", tmp_path)

        report = await import_mem0(tmp_path, store, scope=APP, subject=ALICE)

        assert report.new == 3
        assert set((await texts(store))["notes"]) == {
            "Lives in Seoul",
            "Prefers Kotlin to Java",
            "Speaks 한국어 [bold]",
        }

    async def test_a_pickle_with_code_is_rejected_and_not_run(
        self, store: FactStore, tmp_path: Path
    ) -> None:
        """The other points are still imported."""
        shutil.copytree(MEM0, tmp_path / "mem0")
        canary = tmp_path / "canary"
        with sqlite3.connect(tmp_path / "mem0/collection/mem0/storage.sqlite") as database:
            for number, bad in enumerate((_Harmful(canary), {"id": 1}, print, b"")):
                data = pickle.dumps(bad)[: None if bad != b"" else 3]
                database.execute("INSERT INTO points VALUES (?, ?)", (f"x{number}", data))
        database.close()

        report = await import_mem0(tmp_path, store, scope=APP, subject=USER)

        assert report.new == 3
        assert [each.reason for each in report.problems] == ["cannot be read"] * 4
        assert not canary.exists()


def _files(folder: Path) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}


class _Harmful:
    """Creates a file if its pickle is loaded."""

    def __init__(self, canary: Path) -> None:
        self._canary = canary

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self._canary),)


class TestMem0Export:
    """The result of `get_all()`, as JSON."""

    async def test_fields_become_those_of_facts(self, store: FactStore, tmp_path: Path) -> None:
        """Metadata are imported; ids of users, agents and runs are not."""
        given = memory(
            categories=["residence", "travel"],
            metadata={"team": "blue"},
            run_id="17",
            expiration_date="2099-12-31",
            actor_id="al",
        )

        await import_mem0(json_file(tmp_path, [given]), store, scope=APP, subject=USER)

        fact = await fact_of(store)
        assert (fact.concept.keyword, fact.values, fact.id) == (
            "residence",
            ("Lives in Busan",),
            "m1",
        )
        assert fact.expires_at == datetime(2100, 1, 1, tzinfo=UTC)
        assert dict(fact.metadata) == {
            "team": "blue",
            "actor_id": "al",
            "categories": ["residence", "travel"],
        }

    async def test_an_updated_memory_replaces_its_old_value(
        self, store: FactStore, tmp_path: Path
    ) -> None:
        """Every update of mem0 is in the history."""
        for day, text in enumerate(("Lives in Busan", "Lives in Seoul", "Lives in Daegu"), 1):
            given = memory(text, updated_at=f"2026-04-0{day}T00:00:00+00:00")
            for new in (1, 0):
                file = json_file(tmp_path, [given], results=False)
                report = await import_mem0(file, store, scope=APP, subject=USER)
                assert report.new == new
            assert await texts(store) == {"notes": [text]}

    async def test_the_newest_value_wins_in_any_order(
        self, store: FactStore, tmp_path: Path
    ) -> None:
        """This holds after an earlier import and within a concept of the application, too."""
        home = Concept("residence", "Where the user lives")
        newer = memory("Seoul", id="m2", categories=["residence"], created_at="2026-05-01T00:00:00")
        older = memory("Busan", id="m1", categories=["residence"])
        oldest = memory("Jeju", id="m0", categories=["residence"], created_at="2020-01-01T00:00:00")
        for group in ([newer, older], [oldest]):
            await import_mem0(
                json_file(tmp_path, group), store, scope=APP, subject=USER, concepts=[home]
            )

        [fact] = await store.load(home, ALICE, APP)
        assert fact.value == "Seoul"

    async def test_a_forgotten_or_edited_memory_does_not_return(
        self, store: FactStore, tmp_path: Path
    ) -> None:
        """The application's change wins over mem0's old value."""
        file = json_file(tmp_path, [memory()])
        await import_mem0(file, store, scope=APP, subject=USER)
        await store.forget(ALICE, APP, fact_id="m1")

        assert (await import_mem0(file, store, scope=APP, subject=USER)).known == 1
        assert await texts(store) == {}

    async def test_an_unusable_memory_is_reported_and_stops_nothing(
        self, store: FactStore, tmp_path: Path
    ) -> None:
        """Reasons name fields and quote nothing."""
        given = [
            memory(id="none", created_at=None),
            memory(id="empty", memory=" "),
            memory(id="large", metadata={"x": "PIN 1234" * 1000}),
            memory(id="named", user_id="a" * 300),
            memory(id="expiry", expiration_date="soon"),
            memory(id="good"),
        ]

        report = await import_mem0(json_file(tmp_path, given), store, scope=APP, subject=USER)

        assert report.new == 1
        assert {each.item for each in report.problems} == {each["id"] for each in given} - {"good"}
        assert "1234" not in str(report)

    async def test_a_memory_without_a_user_has_no_subject(
        self, store: FactStore, tmp_path: Path
    ) -> None:
        """Such memories belong to an agent."""
        file = json_file(tmp_path, [memory(user_id=None, agent_id="desk")])

        await import_mem0(file, store, scope=APP, subject=USER)

        assert await texts(store, MemorySubject.EVERYTHING, DESK) == {"notes": ["Lives in Busan"]}


class TestCrewAI:
    """Records as JSON, and the files of versions before the unified memory."""

    async def test_fields_become_those_of_facts(self, store: FactStore, tmp_path: Path) -> None:
        """The scope is a path, whose last part may be the user."""
        given = record(
            categories=["residence"], importance=0.8, source="chat", private=True, metadata={"k": 1}
        )
        file = json_file(tmp_path, [given], results=False)
        assert library_of(file) == "crewai"

        await import_crewai(file, store, scope=APP, subject=USER, user_field="scope")

        fact = await fact_of(store)
        assert (fact.concept.keyword, fact.importance) == ("residence", 0.8)
        assert dict(fact.metadata) == {
            "k": 1,
            "scope": "/home/alice",
            "source": "chat",
            "private": True,
        }
        assert fact.timestamp == datetime(2026, 3, 1, 9, 30, tzinfo=UTC)

    async def test_older_versions_kept_chroma_and_sqlite(
        self, store: FactStore, tmp_path: Path
    ) -> None:
        """Each kind of memory becomes a concept."""
        _chroma(tmp_path / "short_term" / "Researcher", "short_term", "Busan has a port")
        _chroma(tmp_path / "entities" / "Researcher", "entities", "Busan(City): a port")
        with sqlite3.connect(tmp_path / "long_term_memory_storage.db") as database:
            database.execute(
                "CREATE TABLE long_term_memories (id INTEGER PRIMARY KEY AUTOINCREMENT,"
                " task_description TEXT, metadata TEXT, datetime TEXT, score REAL)"
            )
            database.execute(
                "INSERT INTO long_term_memories VALUES (1, 'Find ports', ?, '1772357400.5', 8.0)",
                (json.dumps({"suggestions": ["Ask twice"], "agent": "Researcher"}),),
            )
        database.close()
        assert library_of(tmp_path) == "crewai"

        for new in (3, 0):
            report = await import_crewai(tmp_path, store, scope=APP, subject=ALICE)
            assert (report.new, report.problems) == (new, ())

        assert await texts(store) == {
            "short_term": ["Busan has a port"],
            "entities": ["Busan(City): a port"],
            "long_term": ["Find ports"],
        }
        [task] = [each for each in await store.load_all(ALICE, APP) if "score" in each.metadata]
        assert task.metadata["suggestions"] == ["Ask twice"]
        assert task.timestamp.date().isoformat() == "2026-03-01"

    async def test_a_table_of_lancedb_names_the_package_that_reads_it(
        self, store: FactStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """CrewAI is not installed."""
        (tmp_path / "memory" / "memories.lance").mkdir(parents=True)
        monkeypatch.setitem(sys.modules, "lancedb", None)
        assert library_of(tmp_path) == "crewai"

        with pytest.raises(MissingExtraError, match=r"pip install 'factmem\[lancedb\]'"):
            await import_crewai(tmp_path, store, scope=APP, subject=ALICE)

    async def test_users_must_be_named(self, store: FactStore, tmp_path: Path) -> None:
        """The subject names them, or a field does."""
        with pytest.raises(UnboundSubjectError):
            await import_crewai(tmp_path, store, scope=APP, subject=USER)


def _chroma(folder: Path, collection: str, document: str) -> None:
    """Write a database with those tables of Chroma 1.5 that contain memories."""
    folder.mkdir(parents=True)
    with sqlite3.connect(folder / "chroma.sqlite3") as database:
        database.executescript(
            "CREATE TABLE collections (id TEXT PRIMARY KEY, name TEXT NOT NULL);"
            "CREATE TABLE segments (id TEXT PRIMARY KEY, type TEXT, scope TEXT, collection TEXT);"
            "CREATE TABLE embeddings (id INTEGER PRIMARY KEY, segment_id TEXT NOT NULL,"
            " embedding_id TEXT NOT NULL, seq_id BLOB NOT NULL,"
            " created_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP);"
            "CREATE TABLE embedding_metadata (id INTEGER, key TEXT NOT NULL, string_value TEXT,"
            " int_value INTEGER, float_value REAL, bool_value INTEGER, PRIMARY KEY (id, key));"
        )
        database.execute("INSERT INTO collections VALUES ('c', ?)", (collection,))
        database.execute("INSERT INTO segments VALUES ('s', 'metadata', 'METADATA', 'c')")
        database.execute(
            "INSERT INTO embeddings VALUES (1, 's', ?, 1, '2026-03-01 09:30:00')", (collection,)
        )
        cells = [
            ("chroma:document", document, None, None, None),
            ("agent", "Researcher", None, None, None),
            ("turn", None, 3, None, None),
            ("useful", None, None, None, 1),
        ]
        database.executemany("INSERT INTO embedding_metadata VALUES (1, ?, ?, ?, ?, ?)", cells)
    database.close()


async def test_chroma_of_mem0(store: FactStore, tmp_path: Path) -> None:
    """The string is in a cell of its own; numbers and flags keep their types."""
    _chroma(tmp_path / "vectors", "mem0", "")
    with sqlite3.connect(tmp_path / "vectors" / "chroma.sqlite3") as database:
        database.executemany(
            "INSERT INTO embedding_metadata (id, key, string_value) VALUES (1, ?, ?)",
            [
                ("data", "Lives in Busan"),
                ("user_id", "alice"),
                ("created_at", "2026-03-01T09:30:00"),
            ],
        )
    database.close()
    assert library_of(tmp_path) == "mem0"

    await import_mem0(tmp_path, store, scope=APP, subject=USER)

    fact = await fact_of(store)
    assert fact.values == ("Lives in Busan",)
    assert dict(fact.metadata) == {"agent": "Researcher", "turn": 3, "useful": True}


@pytest.mark.parametrize("read", [import_mem0, import_crewai])
async def test_a_path_without_memories_is_an_error(
    store: FactStore, tmp_path: Path, read: Any
) -> None:
    """An empty folder, a missing file, and a file of another program."""
    (tmp_path / "other.db").write_bytes(b"no database")
    (tmp_path / "other.json").write_text('"text"')

    for name in ("", "missing", "other.db", "other.json"):
        with pytest.raises(ValueError, match=r"contains no|does not exist|cannot be read"):
            await read(tmp_path / name, store, scope=APP, subject=ALICE)
