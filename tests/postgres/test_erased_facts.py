"""The tests of `tests/regressions/test_erased_facts.py`, with each worker a process of its own.

And races that only a database has: an erasure that is committed while a write waits for its lock.
"""

import anyio
import psycopg
import pytest

from factmem.encryption import Aes256GCMEncryptor
from factmem.testing._facts import AGENT, LANGUAGES, THEME, USER, languages, theme
from tests.postgres.conftest import NewStore
from tests.regressions.test_erased_facts import (  # noqa: F401 - collected here too
    Workers,
    test_a_purged_value_is_not_learned_again,
    test_an_erased_place_stays_erased,
    test_one_that_was_saved_to_again_does_not_take_it,
    test_so_does_one_that_was_empty,
    test_the_erasure_of_another_place_keeps_nothing_away,
)

KEY = Aes256GCMEncryptor.generate_key()


@pytest.fixture(params=["plain", "encrypted"])
def workers(request: pytest.FixtureRequest, new_store: NewStore) -> Workers:
    """Processes that share a store: each has connections and views of its own."""
    encryption = Aes256GCMEncryptor(KEY) if request.param == "encrypted" else None
    return Workers(lambda: new_store(encryption=encryption))


async def test_an_erasure_before_the_first_save_counts(new_store: NewStore, store: str) -> None:
    """The tables are there, the store is not: erasing makes its row, which counts."""
    await new_store(store=f"{store}-other").save(theme("dark"), USER, AGENT)
    learner = new_store()
    since = await learner.moment(USER, AGENT)

    await new_store().erase(USER, AGENT)

    assert (await learner.learn([theme("dark")], USER, AGENT, since=since)).is_erased
    assert await new_store().places() == []


async def test_a_compaction_keeps_nothing_away(new_store: NewStore) -> None:
    """It rewrites the place, and erases nothing that is current."""
    learner = new_store()
    for value in ("one", "two"):
        await learner.save(theme(value), USER, AGENT)
    since = await learner.moment(USER, AGENT)

    assert await new_store().compact(USER, AGENT) > 0

    assert not (await learner.learn([theme("dark")], USER, AGENT, since=since)).is_erased


async def test_a_batch_keeps_what_is_not_too_late(new_store: NewStore) -> None:
    """Saves that share a commit with one that is refused are stored."""
    learner = new_store()
    await learner.save(theme("light"), USER, AGENT)
    since = await learner.moment(USER, AGENT)
    await new_store().forget(USER, AGENT, concept=THEME, purge=True)
    outcomes: list[bool] = []

    async def learn() -> None:
        found = await learner.learn([theme("dark")], USER, AGENT, since=since)
        outcomes.append(found.is_erased)

    async with anyio.create_task_group() as group:
        for number in range(8):
            group.start_soon(learn)
            group.start_soon(learner.save, languages(f"v{number}"), USER, AGENT)

    assert outcomes == [True] * 8
    assert await new_store().load(THEME, USER, AGENT) == []
    assert len(await new_store().load(LANGUAGES, USER, AGENT)) == 8


async def test_an_erasure_under_way_is_waited_for(
    new_store: NewStore, dsn: str, store: str
) -> None:
    """A write that comes while another host erases must see that erasure."""
    learner = new_store()
    await learner.save(theme("light"), USER, AGENT)
    since = await learner.moment(USER, AGENT)
    outcomes: list[bool] = []

    async def learn() -> None:
        found = await learner.learn([theme("dark")], USER, AGENT, since=since)
        outcomes.append(found.is_erased)

    with psycopg.connect(dsn) as erasing:
        mine = "store = (SELECT store FROM factmem.stores WHERE name = %s)"
        erasing.execute(f"SELECT FROM factmem.places WHERE {mine} FOR UPDATE", [store])
        async with anyio.create_task_group() as group:
            group.start_soon(learn)
            await anyio.sleep(0.2)
            assert outcomes == []
            for table in ("entries", "places"):
                erasing.execute(f"DELETE FROM factmem.{table} WHERE {mine}", [store])
            erasing.execute(
                "UPDATE factmem.stores SET erasures = erasures + 1 WHERE name = %s", [store]
            )
            erasing.commit()

    assert outcomes == [True]
    assert await new_store().places() == []
