"""Indexes: bytes that recall stores beside the facts of a place."""

from hashlib import sha256

import anyio
import pytest

from factmem import FactStore, MemoryScope
from factmem.errors import StoreBusyError
from factmem.testing._facts import AGENT, LANGUAGES, PERSON, USER, languages, theme
from factmem.testing.clock import SettableClock
from tests.contracts.changes import version_of
from tests.contracts.place_changes import CHANGES, REMOVALS, begin, change, current

INDEX = b"\x00an index\xff\n"
LARGE = 100_000
WRITERS = 20

BYTES: dict[str, bytes] = {
    "none": b"",
    "each": bytes(range(256)),
    "zeros": bytes(1000),
    "lines": b"\r\n\n{}\n null \x1a",
    "no text": b"\xff\xfe\xed\xa0\x80",
    "a megabyte": bytes(range(256)) * 4096,
}


async def _keep(store: FactStore, index: bytes = INDEX) -> bool:
    """Write an index of the current facts, unless the store is too busy."""
    version = await version_of(store)
    try:
        return await store.write_index(USER, AGENT, index, version=version)
    except StoreBusyError:
        return False


async def _kept(store: FactStore) -> bytes | None:
    return await store.read_index(USER, AGENT)


def _in_short(index: bytes | None) -> str:
    """Return a short name of an index: pytest takes an hour to compare a megabyte."""
    return "none" if index is None else f"{len(index)} bytes, {sha256(index).hexdigest()}"


class Indexes:
    """`read_index` and `write_index`: bytes beside the facts, never of removed facts."""

    @pytest.mark.parametrize("index", BYTES.values(), ids=BYTES)
    async def test_an_index_comes_back(self, provider: FactStore, index: bytes) -> None:
        """It is opaque: any bytes replace the ones before, and are returned unchanged."""
        await begin(provider)
        assert await _kept(provider) is None
        assert await _keep(provider)

        assert await _keep(provider, index)

        assert _in_short(await _kept(provider)) == _in_short(index)

    async def test_an_index_is_no_fact(self, provider: FactStore) -> None:
        """The current facts, the history and the version do not change."""
        await begin(provider)
        facts, entries = await current(provider), await provider.entries(USER, AGENT)
        version = await version_of(provider)

        assert await provider.write_index(USER, AGENT, INDEX, version=version)

        assert await current(provider) == facts
        assert await provider.entries(USER, AGENT) == entries
        assert await provider.version(USER, AGENT) == version
        assert [(info.scope, info.count) for info in await provider.places()] == [(AGENT, 4)]

    async def test_each_place_has_its_own_index(self, provider: FactStore) -> None:
        """Also if their names are similar. After one place is erased, the others keep theirs."""
        scopes = [AGENT, MemoryScope.Product(AGENT.name), MemoryScope.Agent("Painter")]
        subjects = [PERSON.of(name) for name in ("a", "A", "a/b", "a%", "café")]
        places = [(subject, scope) for scope in scopes for subject in subjects]
        for number, place in enumerate(places):
            await provider.save(theme("dark"), *place)
            assert await provider.read_index(*place) is None
            version = await provider.version(*place)
            assert version is not None
            assert await provider.write_index(*place, b"%d" % number, version=version)

        await provider.erase(*places[0])

        found = [await provider.read_index(*place) for place in places]
        assert found == [None, *(b"%d" % number for number in range(1, len(places)))]
        assert await provider.read_index(PERSON.of("cafe\u0301"), AGENT) == b"4"

    async def test_an_index_makes_no_place(self, provider: FactStore) -> None:
        """The store returns whether it keeps it for an empty place. It creates nothing else."""
        version = await provider.version(USER, AGENT)

        is_kept = await provider.write_index(USER, AGENT, INDEX, version=version)

        assert await _kept(provider) == (INDEX if is_kept else None)
        assert await provider.places() == []
        assert await provider.load_all(USER, AGENT) == []

    @pytest.mark.parametrize("what", CHANGES)
    async def test_an_index_of_what_was_before_is_refused(
        self, provider: FactStore, second: FactStore, clock: SettableClock, what: str
    ) -> None:
        """A slow writer is refused. The older index stays, unless a removal deleted it."""
        await begin(second)
        assert await _keep(second, b"before")
        stale = await version_of(provider)
        await change(what, second, clock)

        assert not await provider.write_index(USER, AGENT, INDEX, version=stale)

        assert await _kept(provider) == (None if what in REMOVALS else b"before")
        assert await _kept(second) == await _kept(provider)

    async def test_an_index_of_no_version_is_refused(self, provider: FactStore) -> None:
        """A version that the store never returned, or of a place before it existed."""
        before = await provider.version(USER, AGENT) or ""
        await begin(provider)

        for version in {before, "", "no such version"}:
            assert not await provider.write_index(USER, AGENT, INDEX, version=version)

        assert await _kept(provider) is None

    async def test_after_a_change_an_index_is_written_again(
        self, provider: FactStore, clock: SettableClock
    ) -> None:
        """With the new version."""
        await begin(provider)
        for what in CHANGES:
            await change(what, provider, clock)
            if what not in REMOVALS:
                assert await _keep(provider, what.encode())
                assert await _kept(provider) == what.encode()

    async def test_purging_what_was_forgotten_before_leaves_no_index(
        self, provider: FactStore
    ) -> None:
        """The index was made when the value was current, and may still hold it."""
        await begin(provider)
        assert await _keep(provider)
        await provider.forget(USER, AGENT, concept=LANGUAGES, value="java")
        assert await _kept(provider) == INDEX

        await provider.forget(USER, AGENT, concept=LANGUAGES, value="java", purge=True)

        assert await _kept(provider) is None

    async def test_a_purge_meanwhile_leaves_no_index(self, provider: FactStore) -> None:
        """Purged values do not come back, in either order of purge and write."""
        await provider.save(theme("dark"), USER, AGENT)
        for turn in range(10):
            await provider.save(languages("secret"), USER, AGENT)
            version = await version_of(provider)

            async def write(version: str = version) -> None:
                try:
                    await provider.write_index(USER, AGENT, b"secret", version=version)
                except StoreBusyError:
                    return

            async def purge() -> None:
                await provider.forget(USER, AGENT, concept=LANGUAGES, purge=True)

            async with anyio.create_task_group() as tasks:
                for call in (write, purge) if turn % 2 else (purge, write):
                    tasks.start_soon(call)
                    for _ in range(turn // 2):
                        await anyio.lowlevel.checkpoint()

            assert await _kept(provider) is None

    async def test_concurrent_writers_leave_one_index(
        self, provider: FactStore, second: FactStore
    ) -> None:
        """A whole one. Concurrent reads also get a whole one."""
        await begin(provider)
        wholes = [bytes([number]) * (LARGE + number) for number in range(1, WRITERS)]
        version = {store: await version_of(store) for store in (provider, second)}
        seen: list[bytes | None] = []

        async def write(store: FactStore, index: bytes) -> None:
            try:
                await store.write_index(USER, AGENT, index, version=version[store])
            except StoreBusyError:
                return
            seen.append(await _kept(store))

        async with anyio.create_task_group() as tasks:
            for number, index in enumerate(wholes):
                tasks.start_soon(write, (provider, second)[number % 2], index)
                await anyio.lowlevel.checkpoint()  # so that some end while others begin

        seen.append(await _kept(provider))
        assert [index for index in seen if index not in wholes] == []
        assert seen[-1] == await _kept(second)
