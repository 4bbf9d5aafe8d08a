"""Versions of places, and changes since an earlier read."""

from collections.abc import Sequence
from datetime import date
from typing import Any

import anyio
import pytest

from factmem import FactStore, MemoryScope
from factmem.errors import StoredFactError
from factmem.models.facts import AnyFact, Concept, FactType, SingleFact
from factmem.testing._facts import AGENT, LANGUAGES, PERSON, THEME, USER, languages, theme
from factmem.testing.clock import SettableClock
from tests.contracts.place_changes import (
    CHANGES,
    ELSEWHERE,
    begin,
    by_keyword,
    change,
    current,
    shown,
)
from tests.contracts.steps import DAYS, LENGTH, SEEDS, Steps

KNOWN: Sequence[Sequence[Concept[Any, Any]]] = [
    [],
    [Concept(DAYS, "As the application says", FactType.MULTIPLE, value_type=date)],
    [Concept(DAYS, "As the application says", value_type=date)],
]
"""The declared concepts of a reader: none, a MULTIPLE one, a SINGLE one."""


class _Follower:
    """A reader that applies reported changes, and reads the whole place only if it must.

    Args:
        store: The store that it reads.
        concepts: Its declared concepts.
    """

    def __init__(self, store: FactStore, concepts: Sequence[Concept[Any, Any]] = ()) -> None:
        self._store = store
        self._concepts = concepts
        self._version: str | None = None
        self._known: dict[str, list[AnyFact]] = {}

    async def catch_up(self) -> None:
        """Apply all changes up to now."""
        changes = self._version and await self._store.changes(
            USER, AGENT, since=self._version, concepts=self._concepts
        )
        if not changes:
            self._version = await self._store.version(USER, AGENT)
            facts = await self._store.load_all(USER, AGENT, concepts=self._concepts)
            self._known = by_keyword(facts)
            return
        for keyword, found in changes.facts.items():
            before = {fact.id: fact for fact in self._known.pop(keyword, [])}
            ids = {each for each in found if isinstance(each, str)}
            assert ids <= before.keys(), "an id alone is that of a fact that was there before"
            if found:
                self._known[keyword] = [
                    before[each] if isinstance(each, str) else each for each in found
                ]
        self._version = changes.version

    async def check(self, done: object = "") -> None:
        """Catch up and compare with the store, while nothing writes."""
        await self.catch_up()
        assert shown(self._known) == await current(self._store, self._concepts), done
        assert self._version == await self._store.version(USER, AGENT), done


class Changes:
    """`changes`: applied to an earlier result of `load_all`, they give the present one."""

    @pytest.mark.parametrize("what", CHANGES)
    async def test_a_change_is_another_version_and_leads_to_what_is_there(
        self, provider: FactStore, second: FactStore, clock: SettableClock, what: str
    ) -> None:
        """Also through another instance, and expiry. Of unknown changes the place is read."""
        await begin(second)
        follower = _Follower(provider)
        await follower.check()
        before, held = await version_of(provider), await current(provider)

        await change(what, second, clock)

        assert await provider.version(USER, AGENT) != before
        assert await current(provider) != held
        await follower.check()

    @pytest.mark.parametrize("seed", SEEDS)
    async def test_following_gives_what_reading_gives(
        self, provider: FactStore, second: FactStore, clock: SettableClock, seed: int
    ) -> None:
        """After any sequence of calls, for readers of all, some or few changes, with any types.

        One version shows one content.
        """
        steps, seen = Steps([provider, second], clock, seed), dict[str, object]()
        followers = [
            (every, _Follower(provider, concepts)) for every in (1, 3, 10) for concepts in KNOWN
        ]
        for number in range(LENGTH):
            await steps.take()
            version, held = await provider.version(USER, AGENT), await current(provider)
            if version is not None:
                assert seen.setdefault(version, held) == held, steps
                assert await provider.version(USER, AGENT) == version, steps
            for every, follower in followers:
                if number % every == 0:
                    await follower.check(steps)

    async def test_a_save_is_reported(self, provider: FactStore) -> None:
        """Otherwise the method is useless: after one new value the whole place would be read."""
        await begin(provider)
        since = await version_of(provider)
        await provider.save(languages("go"), USER, AGENT)

        changes = await provider.changes(USER, AGENT, since=since)

        assert changes is not None
        *_, added = changes.facts[LANGUAGES.keyword]
        assert not isinstance(added, str)
        assert added.values == ("go",)
        assert changes.version == await provider.version(USER, AGENT) != since

    async def test_no_change_is_reported_as_none(self, provider: FactStore) -> None:
        """Or as unknown."""
        await begin(provider)
        since = await version_of(provider)

        changes = await provider.changes(USER, AGENT, since=since)

        assert changes is None or (changes.version, changes.facts) == (since, {})

    async def test_changes_while_others_save_lose_none(self, provider: FactStore) -> None:
        """The returned version is that of the changes, not a later one."""
        await begin(provider)
        follower = _Follower(provider)

        async def follow() -> None:
            for _ in range(20):
                await follower.catch_up()
                await anyio.lowlevel.checkpoint()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(follow)
            for number in range(20):
                tasks.start_soon(provider.save, languages(f"v{number}"), USER, AGENT)
                await anyio.lowlevel.checkpoint()

        await follower.check()

    async def test_a_changed_value_that_does_not_fit_is_an_error(self, provider: FactStore) -> None:
        """The error names the concept, not the value. Once it is forgotten, changes are known."""
        day: Concept[Any, Any] = Concept(DAYS, "A day", value_type=date)
        await begin(provider)
        typed, plain = _Follower(provider, [day]), _Follower(provider)
        await typed.check()
        await plain.check()
        await provider.save(SingleFact(Concept(DAYS, "A day"), "PIN 1234"), USER, AGENT)

        with pytest.raises(StoredFactError, match=repr(DAYS)) as caught:
            await typed.catch_up()

        assert "1234" not in str(caught.value)
        await plain.check()
        await provider.forget(USER, AGENT, concept=day)
        await typed.check()


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
