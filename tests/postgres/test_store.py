"""What a store in PostgreSQL promises beyond the contract."""

import os
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta

import anyio
import psycopg
import pytest

from factmem import AgentMemory, Concept, MemoryScopesProfile, SingleFact, StorageError
from factmem.errors import StoreBusyError, UnreachableError
from factmem.models.places import identity_of
from factmem.providers._postgres import schema
from factmem.providers.postgres import PostgresMemoryProvider
from factmem.testing._facts import AGENT, LANGUAGES, PERSON, THEME, USER, languages, theme
from tests.postgres.cluster import Cluster, free_port
from tests.postgres.conftest import NewStore


@pytest.fixture
def database(cluster: Cluster, store: str) -> str:
    """Return the connection string of a new, empty database."""
    with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{store}"')
    return cluster.dsn(database=store)


def _schemas(dsn: str) -> int:
    with psycopg.connect(dsn) as connection:
        found = connection.execute("SELECT FROM pg_namespace WHERE nspname = 'factmem'")
        return len(found.fetchall())


async def test_nothing_is_created_before_the_first_write(
    database: str, new_store: NewStore
) -> None:
    """Reads of a database without tables find nothing, and a read-only role could do them."""
    provider = new_store(dsn=database)

    assert await provider.load_all(USER, AGENT) == []
    assert await provider.places() == []
    assert await provider.entries(USER, AGENT) == []
    assert await provider.forget(USER, AGENT, concept=THEME, purge=True) == 0
    assert (await provider.erase(USER, AGENT)).count == 0
    assert _schemas(database) == 0

    await provider.save(theme("dark"), USER, AGENT)
    assert _schemas(database) == 1


async def test_migrate_creates_the_tables_and_is_idempotent(
    database: str, new_store: NewStore
) -> None:
    """A deployment step may run it again and again."""
    provider = new_store(dsn=database)

    await provider.migrate()
    await provider.migrate()

    assert _schemas(database) == 1
    await provider.save(theme("dark"), USER, AGENT)


async def test_eight_instances_make_the_tables_at_once(database: str, new_store: NewStore) -> None:
    """One of them migrates, and all saves are stored."""
    stores = [new_store(dsn=database) for _ in range(8)]

    async with anyio.create_task_group() as group:
        for number, each in enumerate(stores):
            group.start_soon(each.save, languages(f"v{number}"), USER, AGENT)

    assert len(await stores[0].load(LANGUAGES, USER, AGENT)) == 8


async def test_tables_of_a_later_version_are_refused(database: str, new_store: NewStore) -> None:
    """Before anything is read or written."""
    await new_store(dsn=database).save(theme("dark"), USER, AGENT)
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("UPDATE factmem.format SET version = %s", [schema.VERSION + 1])

    later = new_store(dsn=database)

    with pytest.raises(StorageError, match="update factmem"):
        await later.load_all(USER, AGENT)
    with pytest.raises(StorageError, match="update factmem"):
        await later.save(theme("light"), USER, AGENT)
    with pytest.raises(StorageError, match="update factmem"):
        await later.migrate()


async def test_reads_ask_the_database_unless_staleness_is_allowed(new_store: NewStore) -> None:
    """Another process's save is seen at once, or when what was read is too old."""
    writer, strict = new_store(), new_store()
    stale = new_store(max_staleness=timedelta(minutes=1))
    await writer.save(theme("one"), USER, AGENT)
    for reader in (strict, stale):
        assert [fact.value for fact in await reader.load(THEME, USER, AGENT)] == ["one"]

    await writer.save(theme("two"), USER, AGENT)

    assert [fact.value for fact in await strict.load(THEME, USER, AGENT)] == ["two"]
    assert [fact.value for fact in await stale.load(THEME, USER, AGENT)] == ["one"]


async def test_own_writes_are_seen_however_stale(new_store: NewStore) -> None:
    """Also where another instance wrote in between, so that they do not follow what was read."""
    minute = timedelta(minutes=1)
    first, second = new_store(max_staleness=minute), new_store(max_staleness=minute)
    await first.save(languages("a"), USER, AGENT)
    for own, other, value in [(first, second, "b"), (second, first, "c"), (first, second, "d")]:
        await own.load(LANGUAGES, USER, AGENT)
        await other.save(languages(f"other {value}"), USER, AGENT)

        await own.save(languages(value), USER, AGENT)
        assert value in {v for fact in await own.load(LANGUAGES, USER, AGENT) for v in fact.values}

        await own.forget(USER, AGENT, concept=LANGUAGES, value=value)
        assert value not in {
            v for fact in await own.load(LANGUAGES, USER, AGENT) for v in fact.values
        }


async def test_the_servers_clock_is_the_default(new_store: NewStore, dsn: str) -> None:
    """Hosts with different clocks record times of one clock."""
    provider = new_store()
    await provider.save(theme("dark"), USER, AGENT)

    (entry,) = await provider.entries(USER, AGENT)

    assert abs(datetime.fromisoformat(entry["at"]) - datetime.now(UTC)) < timedelta(seconds=5)


async def test_a_locked_place_is_busy_for_writers_only(new_store: NewStore, dsn: str) -> None:
    """Another client that holds the row keeps saves waiting; reads go on."""
    provider = new_store(lock_timeout=0.2)
    await provider.save(theme("dark"), USER, AGENT)
    with psycopg.connect(dsn) as connection:
        connection.execute("SELECT FROM factmem.places FOR UPDATE")

        with pytest.raises(StoreBusyError):
            await provider.save(theme("light"), USER, AGENT)

        assert [fact.value for fact in await provider.load(THEME, USER, AGENT)] == ["dark"]
    await provider.save(theme("light"), USER, AGENT)


async def test_an_unreachable_server_is_an_error_by_the_deadline(new_store: NewStore) -> None:
    """Not sooner: it may be starting."""
    provider = new_store(dsn=f"host=127.0.0.1 port={free_port()} user=postgres", timeout=0.5)

    with anyio.fail_after(60), pytest.raises(UnreachableError, match="not reached") as caught:
        await provider.save(theme("dark"), USER, AGENT)

    assert "refused" in str(caught.value.__cause__)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # a fork of a process with threads
async def test_parent_and_child_go_on_after_a_fork(new_store: NewStore) -> None:
    """The child opens connections of its own and leaves those of its parent alone."""
    provider = new_store()
    await provider.save(languages("before"), USER, AGENT)

    pid = os.fork()
    if pid == 0:
        thread = threading.Thread(
            target=anyio.run, args=(provider.save, languages("child"), USER, AGENT)
        )
        thread.start()
        thread.join()
        os._exit(0)
    _, status = await anyio.to_thread.run_sync(os.waitpid, pid, 0)

    assert status == 0
    await provider.save(languages("parent"), USER, AGENT)
    values = {v for fact in await provider.load(LANGUAGES, USER, AGENT) for v in fact.values}
    assert values == {"before", "child", "parent"}


async def test_no_value_is_in_an_error(new_store: NewStore, dsn: str) -> None:
    """PostgreSQL quotes rows in its messages."""
    provider = new_store()
    await provider.save(theme("dark"), USER, AGENT)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(
            "ALTER TABLE factmem.entries ADD CONSTRAINT small CHECK (length(line) < 500) NOT VALID"
        )
    try:
        with pytest.raises(StorageError, match=r"refused.*23514: entries small") as caught:
            await provider.save(theme("secret " * 100), USER, AGENT)
    finally:
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("ALTER TABLE factmem.entries DROP CONSTRAINT small")

    assert isinstance(caught.value.__cause__, psycopg.errors.CheckViolation)
    error: BaseException | None = caught.value
    while error is not None:
        assert "secret" not in str(error)
        error = error.__cause__


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"dsn_or_pool": 5}, TypeError),
        ({"dsn_or_pool": "host=a ="}, ValueError),
        ({"store": ""}, ValueError),
        ({"store": 7}, TypeError),
        ({"encryption": "key"}, TypeError),
        ({"max_staleness": 5}, TypeError),
        ({"role": ""}, ValueError),
        ({"keep_history": 5}, TypeError),
        ({"clock": datetime(2024, 1, 1, tzinfo=UTC)}, TypeError),
        ({"timeout": 0}, ValueError),
        ({"max_connections": "4"}, TypeError),
    ],
    ids=str,
)
def test_wrong_arguments_raise(arguments: dict[str, object], error: type[Exception]) -> None:
    """At once, without looking for a server."""
    with pytest.raises(error):
        PostgresMemoryProvider(**{"dsn_or_pool": "host=127.0.0.1", **arguments})  # type: ignore[arg-type]


PROGRAM = """
import anyio, sys
from factmem.providers.postgres import PostgresMemoryProvider
from factmem.testing._facts import AGENT, USER, theme

store = PostgresMemoryProvider(sys.argv[1])
anyio.run(store.save, theme("dark"), USER, AGENT)
"""


@pytest.mark.postgres
def test_a_program_may_end_without_closing(dsn: str) -> None:
    """Nothing is printed: the server notices by itself."""
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-c", PROGRAM, dsn],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")


def test_its_repr_has_no_password() -> None:
    """The connection string may hold one."""
    assert "hunter2" not in repr(PostgresMemoryProvider("host=a password=hunter2"))


async def test_own_saves_are_folded_at_the_next_read(
    new_store: NewStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few are kept for the next read, and many are read back; the reader sees all of them."""
    monkeypatch.setattr("factmem.providers._sql.places._MOST_UNREAD", 3)
    provider = new_store(max_staleness=timedelta(minutes=1))
    await provider.load_all(USER, AGENT)
    view = provider._places.known(identity_of(USER, AGENT))
    assert view is not None

    for number in range(1, 9):
        await provider.save(languages(f"v{number}"), USER, AGENT)
        assert len(view._ledger) == 0
        assert len(view) <= 3

    found = await provider.load(LANGUAGES, USER, AGENT)
    assert [fact.values for fact in found] == [(f"v{number}",) for number in range(1, 9)]


ALICE = PERSON.of("alice")


CITY = Concept("home-city", "The city where the user lives", value_type=str)


DESK = MemoryScopesProfile(agent=AGENT.name)


async def test_messages_of_another_host_are_found(new_store: NewStore) -> None:
    """In one text with facts, from places that PostgreSQL searches and from those read whole."""
    async with new_store(search_from=None) as here, new_store(search_from=1) as there:
        first = AgentMemory(here, subjects=[ALICE], scopes=DESK)
        second = AgentMemory(there, subjects=[ALICE], scopes=DESK)
        chat = first.conversation("chat")
        for memory in (first, second):
            assert (await memory.recall("When does the ferry leave?")).turns == []
        (said,) = await chat.append({"role": "user", "content": "My ferry to Busan leaves at six"})
        await here.save(SingleFact(CITY, "Busan"), ALICE, AGENT)

        for memory in (first, second):
            text = await memory.text("When does the ferry leave for the city?", max_tokens=300)
            assert '"My ferry to Busan leaves at six" (user, ' in text
            assert '"Busan" (' in text
        await chat.remove(said.id)
        assert (await second.recall("When does the ferry leave?")).turns == []
        await chat.append({"role": "user", "content": "The ferry is full"})
        assert len((await second.recall("ferry?")).turns) == 1
        await here.erase(ALICE, AGENT)
        assert (await second.recall("ferry?")).turns == []
