"""Versions of places, which change with their content."""

import anyio

from factmem import FactStore, MemoryScope
from factmem.testing._facts import AGENT, LANGUAGES, PERSON, THEME, USER, languages, theme
from factmem.testing.clock import SettableClock
from tests.contracts.place_changes import ELSEWHERE, begin, current


async def version_of(store: FactStore) -> str:
    """Return the version of the place."""
    version = await store.version(USER, AGENT)
    assert isinstance(version, str), "the store returned no version"
    return version


class Versions:
    """`version`: a new string whenever the result of `load_all` may have changed."""

    async def test_reading_changes_no_version(
        self, provider: FactStore, clock: SettableClock
    ) -> None:
        """Neither does time alone, if nothing expires."""
        await begin(provider)
        before = await version_of(provider)

        await provider.load(THEME, USER, AGENT)
        await provider.load_all(USER, AGENT)
        await provider.load_by_description("theme", USER, AGENT)
        await provider.history(LANGUAGES, USER, AGENT)
        await provider.entries(USER, AGENT)
        await provider.places()
        clock.advance()

        assert await provider.version(USER, AGENT) == before

    async def test_what_changes_nothing_changes_no_version(self, provider: FactStore) -> None:
        """A writing call that found nothing to write."""
        await begin(provider)
        before = await version_of(provider)

        await provider.save_many([], USER, AGENT)
        assert await provider.forget(USER, AGENT, concept=LANGUAGES, value="cobol") == 0
        assert await provider.replay(await provider.entries(USER, AGENT), USER, AGENT) == 0
        assert await provider.amend(lambda entries, now: [], USER, AGENT) == 0

        assert await provider.version(USER, AGENT) == before

    async def test_other_places_change_no_version(self, provider: FactStore) -> None:
        """Also if their names are similar."""
        await begin(provider)
        before = await version_of(provider)

        for scope in (ELSEWHERE, MemoryScope.Product(AGENT.name), MemoryScope.Agent("Painter")):
            await provider.save(theme("light"), USER, scope)
            await provider.erase(USER, scope)
        await provider.save(theme("light"), PERSON.of(USER.name), AGENT)

        assert await provider.version(USER, AGENT) == before

    async def test_a_place_that_is_not_there_has_a_version_too(self, provider: FactStore) -> None:
        """It may be None. It changes with the first save, and the call creates no place."""
        before = await provider.version(USER, AGENT)
        assert await provider.places() == []

        await provider.save(theme("dark"), USER, AGENT)

        assert await version_of(provider) != before

    async def test_a_place_made_again_has_another_version(self, provider: FactStore) -> None:
        """Even with as many entries of the same concept as before."""
        versions: list[str] = []
        for value in ("dark", "dark", "light"):
            await provider.save(theme(value), USER, AGENT)
            versions.append(await version_of(provider))
            await provider.erase(USER, AGENT)
        for value in ("dark", "light"):
            await provider.save(theme(value), USER, AGENT)
            versions.append(await version_of(provider))
            await provider.forget(USER, AGENT, concept=THEME, purge=True)

        assert len(set(versions)) == len(versions)
        assert await provider.version(USER, AGENT) not in versions

    async def test_a_version_holds_while_others_save(self, provider: FactStore) -> None:
        """Facts read between two equal versions belong to that version."""
        seen = dict[str, object]()

        async def read() -> None:
            for _ in range(20):
                before, held = await provider.version(USER, AGENT), await current(provider)
                if before == await provider.version(USER, AGENT):
                    assert seen.setdefault(before, held) == held
                await anyio.lowlevel.checkpoint()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            for number in range(20):
                tasks.start_soon(provider.save, languages(f"v{number}"), USER, AGENT)
            tasks.start_soon(read)

        await read()
        assert await version_of(provider) in seen
