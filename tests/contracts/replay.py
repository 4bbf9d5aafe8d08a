"""Moving the ledger of a place into another."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from factmem import FactStore, MemoryScope
from factmem.testing._facts import AGENT, LANGUAGES, THEME, USER, languages, theme
from factmem.testing.clock import START, SettableClock

OTHER = MemoryScope.Product("gallery")
SECOND = timedelta(seconds=1)


def _saved(value: object, **changes: object) -> Any:
    return {
        "id": "one",
        "keyword": "ide-theme",
        "description": "A theme",
        "type": "SINGLE",
        "timestamp": "1999-12-31T23:59:59.000000Z",
        "value": value,
        **changes,
    }


def _entry(*facts: Any, **changes: object) -> Any:
    return {"at": "2001-02-03T04:05:06.000000Z", "facts": list(facts), **changes}


PIN = "PIN 1234"
NONSENSE: dict[str, Any] = {
    "no time": {"facts": [_saved(PIN)]},
    "not a number": _entry(_saved(float("nan"))),
    "a lone surrogate": _entry(_saved("\ud800")),
    "a value that is not JSON": _entry(_saved((PIN,))),
    "a forgetting of nothing": _entry(_saved("x"), forget=[["ide-theme"]]),
}
"""The transfer of bundles, which are such entries, has a longer list."""


class Replay:
    """`entries` of one place and `replay` into another."""

    async def _fill(self, provider: FactStore, clock: SettableClock) -> None:
        """All kinds of entries, and one fact that is saved again with its id."""
        java = languages("java", "rust")
        await provider.save(theme("dark"), USER, AGENT)
        await provider.save_many([java, theme("light")], USER, AGENT)
        clock.advance()
        await provider.save(java, USER, AGENT)
        await provider.forget(USER, AGENT, concept=LANGUAGES, value="java")
        clock.advance()
        await provider.save(replace(java, timestamp=clock.now), USER, AGENT)
        await provider.save(languages("c", expires_at=START + timedelta(9)), USER, AGENT)
        await provider.forget(USER, AGENT, concept=THEME)
        clock.advance()

    async def test_a_replayed_ledger_is_the_same(
        self, provider: FactStore, clock: SettableClock
    ) -> None:
        """Current facts, history, every moment of the past, and the entries themselves."""
        await self._fill(provider, clock)
        entries = await provider.entries(USER, AGENT)

        assert await provider.replay(entries, USER, OTHER) == len(entries) == 7

        assert await provider.entries(USER, OTHER) == entries
        assert await provider.load_all(USER, OTHER) == await provider.load_all(USER, AGENT)
        for concept in (THEME, LANGUAGES):
            assert await provider.history(concept, USER, OTHER) == await provider.history(
                concept, USER, AGENT
            )
        for second in range(4):
            then = START + timedelta(seconds=second)
            assert await provider.load_all(USER, OTHER, as_of=then) == await provider.load_all(
                USER, AGENT, as_of=then
            )

    async def test_a_replay_can_be_repeated(
        self, provider: FactStore, clock: SettableClock
    ) -> None:
        """The second time nothing is new, and nothing changes in either place."""
        await self._fill(provider, clock)
        entries = await provider.entries(USER, AGENT)
        await provider.replay(entries[:4], USER, OTHER)

        assert await provider.replay(entries, USER, OTHER) == 3
        assert await provider.replay(entries, USER, OTHER) == 0
        assert await provider.replay(entries, USER, AGENT) == 0

        assert await provider.entries(USER, OTHER) == entries
        assert await provider.entries(USER, AGENT) == entries

    async def test_a_replay_is_merged(self, provider: FactStore, clock: SettableClock) -> None:
        """Replayed entries keep the time at which they were first recorded."""
        future = START + timedelta(days=999)
        await provider.save(theme("dark", timestamp=future), USER, AGENT)
        clock.advance()
        await provider.save(languages("c"), USER, OTHER)

        await provider.replay(await provider.entries(USER, AGENT), USER, OTHER)

        (fact,) = await provider.load(THEME, USER, OTHER)
        assert (fact.value, fact.confirmed_at) == ("dark", START)
        for place in (AGENT, OTHER):  # said when it was first recorded, in both places
            await provider.save(theme("grey", timestamp=START), USER, place)
            await provider.save(theme("light", timestamp=START + SECOND / 2), USER, place)
            (fact,) = await provider.load(THEME, USER, place)
            assert fact.value == "light"

    async def test_known_facts_of_an_entry_are_left_out(self, provider: FactStore) -> None:
        """Half of a batch may be stored already."""
        dark, java = theme("dark"), languages("java")
        await provider.save_many([dark, java], USER, AGENT)
        await provider.save(dark, USER, OTHER)
        await provider.save(theme("light"), USER, OTHER)

        assert await provider.replay(await provider.entries(USER, AGENT), USER, OTHER) == 1

        loaded = await provider.load_all(USER, OTHER)
        assert sorted(fact.values for fact in loaded) == [("java",), ("light",)]

    async def test_entries_of_a_later_version_are_kept(self, provider: FactStore) -> None:
        """A store preserves entries that it does not know."""
        later: Any = {"at": "2001-02-03T04:05:06.000000Z", "link": ["a", {"b": 2**70}]}

        assert await provider.replay([later], USER, AGENT) == 1
        assert await provider.replay([later], USER, AGENT) == 0

        assert await provider.entries(USER, AGENT) == [later]
        assert await provider.load_all(USER, AGENT) == []

    @pytest.mark.parametrize("kind", NONSENSE)
    async def test_nonsense_is_refused(self, provider: FactStore, kind: str) -> None:
        """All entries: an unreadable one would make the place unreadable."""
        entries: Any = [_entry(_saved("dark")), NONSENSE[kind]]

        with pytest.raises(ValueError, match="Entry 1 cannot be recorded") as caught:
            await provider.replay(entries, USER, AGENT)

        assert "1234" not in str(caught.value)
        assert await provider.places() == []
