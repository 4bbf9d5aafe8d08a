"""Tests of the order of statements: the later one is current, in any order of recording."""

from datetime import datetime, timedelta

import pytest

from factmem import FactStore, SingleFact
from factmem.ledger.history import HistoryAction
from factmem.providers.results import Learned, RetractedFact
from factmem.testing._facts import AGENT, LANGUAGES, THEME, USER, languages, theme
from factmem.testing.clock import START, SettableClock
from tests.contracts.instances import NewStores


def said(second: int) -> datetime:
    """Return a moment before the test's clock began, `second` seconds after an hour before."""
    return START - timedelta(hours=1) + timedelta(seconds=second)


async def themes(provider: FactStore) -> list[str]:
    """Return the current theme."""
    return [fact.value for fact in await provider.load(THEME, USER, AGENT)]


async def known(provider: FactStore) -> list[str]:
    """Return the current languages."""
    return [value for fact in await provider.load(LANGUAGES, USER, AGENT) for value in fact.values]


async def stated(provider: FactStore, *facts: SingleFact[str]) -> list[str]:
    """Record themes one by one, and return the superseded values."""
    late: list[str] = []
    for fact in facts:
        learned = await provider.learn([fact], USER, AGENT)
        late += [fact.value] if fact.id in learned.superseded else []
    return late


class Statements(NewStores):
    """Statements are compared by their times."""

    @pytest.mark.parametrize(
        ("red", "green", "result"),
        [(1, 2, ([], ["green"])), (2, 1, (["green"], ["red"])), (1, 1, ([], ["green"]))],
        ids=["later_replaces", "earlier_does_not", "equal_by_order"],
    )
    async def test_the_later_statement_is_current(
        self, provider: FactStore, red: int, green: int, result: tuple[list[str], list[str]]
    ) -> None:
        """Of two workers, the slower may write last; of equal times, the last one recorded."""
        late = await stated(
            provider, theme("red", timestamp=said(red)), theme("green", timestamp=said(green))
        )

        assert (late, await themes(provider)) == result

    async def test_a_superseded_statement_is_history(
        self, provider: FactStore, clock: SettableClock
    ) -> None:
        """With its own time, and the time of its record, which `as_of` uses."""
        await stated(provider, theme("green", timestamp=said(2)))
        written = clock.now
        clock.advance()
        await stated(provider, theme("red", timestamp=said(1)))

        events = await provider.history(THEME, USER, AGENT)

        assert [(each.action, each.fact and each.fact.timestamp) for each in events] == [
            (HistoryAction.SAVED, said(2)),
            (HistoryAction.SUPERSEDED, said(1)),
        ]
        assert [each.recorded_at for each in events] == [written, written + timedelta(seconds=1)]
        past = await provider.load(THEME, USER, AGENT, as_of=written)
        assert [fact.value for fact in past] == ["green"]
        assert await provider.load(THEME, USER, AGENT, as_of=said(3)) == []

    async def test_what_was_retracted_later_does_not_come_back(self, provider: FactStore) -> None:
        """A statement after the retraction is accepted."""
        early, late = languages("java", timestamp=said(1)), languages("java", timestamp=said(3))
        gone = RetractedFact(LANGUAGES, "java", said(2))
        await provider.learn([early], USER, AGENT)
        await provider.learn([], USER, AGENT, retracted=[gone])
        again = languages("java", "rust", timestamp=said(1))
        learned = await provider.learn([again, early], USER, AGENT)

        assert learned.superseded == {early.id}
        assert await known(provider) == ["rust"]
        assert not (await provider.learn([late], USER, AGENT)).superseded
        assert await known(provider) == ["rust", "java"]

    async def test_an_earlier_retraction_ends_nothing(self, provider: FactStore) -> None:
        """It is refused, and is in the history."""
        gone = RetractedFact(THEME, "green", said(1))
        await stated(provider, theme("green", timestamp=said(2)))

        learned = await provider.learn([], USER, AGENT, retracted=[gone])

        assert (learned, await themes(provider)) == (Learned(refused=(gone,)), ["green"])
        events = await provider.history(THEME, USER, AGENT)
        assert [each.action for each in events] == [HistoryAction.SAVED, HistoryAction.SUPERSEDED]
