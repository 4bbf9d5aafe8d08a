"""Tests of expiry, wrong clocks and `as_of`."""

from datetime import datetime, timedelta

from factmem.models.facts import FactState, SingleFact
from factmem.providers.store import FactStore
from factmem.testing._facts import AGENT, THEME, USER, languages, theme
from factmem.testing.clock import START, SettableClock

HOUR = timedelta(hours=1)


async def themes(provider: FactStore, as_of: datetime | None = None) -> list[str]:
    """Return the current theme, or the theme at a time, as a list of at most one value."""
    return [fact.value for fact in await provider.load(THEME, USER, AGENT, as_of=as_of)]


class Expiry:
    """A value past its `expires_at` is gone, by the store's clock."""

    async def test_a_fact_expires_at_its_time(
        self, provider: FactStore, clock: SettableClock
    ) -> None:
        """Exactly from that time on, in every read."""
        await provider.save(theme("dark", expires_at=START + HOUR), USER, AGENT)
        clock.now = START + HOUR - timedelta(microseconds=1)
        assert await themes(provider) == ["dark"]

        clock.now = START + HOUR

        assert await themes(provider) == []
        assert await provider.load_all(USER, AGENT) == []
        assert await provider.load_by_description("theme", USER, AGENT) == []
        assert [info.count for info in await provider.places()] == [0]
        assert await provider.forget(USER, AGENT, concept=THEME) == 0

    async def test_a_proposal_expires(self, provider: FactStore, clock: SettableClock) -> None:
        proposal = SingleFact(
            THEME, "red", state=FactState.PROPOSED, expires_at=START + HOUR, timestamp=START
        )
        await provider.save(theme("light"), USER, AGENT)
        await provider.save(proposal, USER, AGENT)
        assert len(await provider.proposals(USER, AGENT)) == 1

        clock.now = START + HOUR

        assert await provider.proposals(USER, AGENT) == []

    async def test_what_expired_does_not_come_back(
        self, provider: FactStore, clock: SettableClock
    ) -> None:
        """Neither the value that it replaced, nor the expired value after the clock is set back."""
        await provider.save(theme("light"), USER, AGENT)
        await provider.save(theme("dark", expires_at=START + HOUR), USER, AGENT)
        clock.now = START + HOUR
        assert await themes(provider) == []

        clock.now = START

        assert await themes(provider) == []
        assert await provider.load_all(USER, AGENT) == []


class Clocks:
    """The times of recording are the store's and never decrease."""

    async def test_a_clock_set_back_changes_nothing(
        self, provider: FactStore, clock: SettableClock
    ) -> None:
        """The last save is current, and is never recorded before the previous one."""
        await provider.save(theme("dark"), USER, AGENT)
        clock.advance(-HOUR)

        await provider.save(theme("light"), USER, AGENT)

        (fact,) = await provider.load(THEME, USER, AGENT)
        assert fact.value == "light"
        assert fact.confirmed_at == START
        assert [entry["at"] for entry in await provider.entries(USER, AGENT)] == [
            "2001-02-03T04:05:06.000000Z"
        ] * 2

    async def test_a_clock_that_was_put_right_spoils_no_later_save(
        self, provider: FactStore, clock: SettableClock
    ) -> None:
        """The time of a wrong clock during reads is never recorded."""
        await provider.save(languages("java", expires_at=START + 1000 * HOUR), USER, AGENT)
        clock.now = START + 1_000_000 * HOUR
        await provider.load_all(USER, AGENT)
        await provider.places()
        clock.now = START + HOUR

        await provider.save(theme("dark"), USER, AGENT)
        await provider.forget(USER, AGENT, concept=THEME)

        times = [entry["at"] for entry in await provider.entries(USER, AGENT)]
        assert times == ["2001-02-03T04:05:06.000000Z"] + ["2001-02-03T05:05:06.000000Z"] * 2


class LookingBack:
    """`as_of` returns the facts that were current at a time."""

    async def test_each_moment_has_its_facts(
        self, provider: FactStore, clock: SettableClock
    ) -> None:
        """Saved, replaced, forgotten, saved again: from the recorded moment on."""
        await provider.save(theme("dark"), USER, AGENT)
        replaced = clock.advance(HOUR)
        await provider.save(theme("light"), USER, AGENT)
        forgotten = clock.advance(HOUR)
        await provider.forget(USER, AGENT, concept=THEME)
        again = clock.advance(HOUR)
        await provider.save(theme("dark", timestamp=again), USER, AGENT)
        clock.advance(HOUR)

        blink = timedelta(microseconds=1)
        assert await themes(provider, START - blink) == []
        assert await themes(provider, START) == ["dark"]
        assert await themes(provider, replaced - blink) == ["dark"]
        assert await themes(provider, replaced) == ["light"]
        assert await themes(provider, forgotten) == []
        assert await themes(provider, again) == ["dark"]
        assert await themes(provider) == ["dark"]
        (fact,) = await provider.load_all(USER, AGENT, as_of=replaced)
        assert fact.values == ("light",)
