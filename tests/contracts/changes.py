"""Changes of places since an earlier read."""

from collections.abc import Sequence
from datetime import date
from typing import Any

import anyio
import pytest

from factmem.errors import StoredFactError
from factmem.models.facts import AnyFact, Concept, FactType, SingleFact
from factmem.providers.store import FactStore
from factmem.testing._facts import AGENT, LANGUAGES, USER, languages
from factmem.testing.clock import SettableClock
from tests.contracts.place_changes import CHANGES, begin, by_keyword, change, current, shown
from tests.contracts.steps import DAYS, LENGTH, SEEDS, Steps
from tests.contracts.versions import version_of

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
