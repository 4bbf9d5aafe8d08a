"""Changes that depend on the current facts."""

from collections.abc import Iterable, Sequence
from itertools import count
from typing import Any

import anyio
import pytest

from factmem import FactStore, MemoryScope
from factmem.ledger._items import Condition
from factmem.ledger.entries import Amendment, Entry, stored
from factmem.ledger.ledger import Ledger
from factmem.models.when import stamp
from factmem.testing._facts import AGENT, LANGUAGES, USER, languages
from factmem.testing.clock import SettableClock

OTHER = MemoryScope.Product("gallery")

WRITERS = 20


def instead(value: str) -> Amendment:
    """Return a change that replaces all current languages by one value."""

    def change(entries: Sequence[Entry], now: str) -> Iterable[Entry]:
        names = Ledger(entries).matching(Condition(keyword=LANGUAGES.keyword), now)
        yield {"at": now, "facts": [stored(languages(value))], "forget": names}

    return change


class Amending:
    """`amend` appends the entries that a function derives from a ledger, with no write between."""

    async def test_a_change_sees_the_ledger_and_is_kept(
        self, provider: FactStore, clock: SettableClock
    ) -> None:
        """All saves and forgettings of an entry apply together, at the time the function gets."""
        await provider.save(languages("java"), USER, AGENT)
        clock.advance()
        given: list[tuple[list[Entry], str]] = []

        def change(entries: Sequence[Entry], now: str) -> Iterable[Entry]:
            given.append((list(entries), now))
            return instead("kotlin")(entries, now)

        assert await provider.amend(change, USER, AGENT) == 1

        assert [fact.values for fact in await provider.load(LANGUAGES, USER, AGENT)] == [
            ("kotlin",)
        ]
        *before, added = await provider.entries(USER, AGENT)
        assert given == [(before, stamp(clock()))]
        assert added["at"] == stamp(clock())
        assert [entry.action for entry in await provider.history(LANGUAGES, USER, AGENT)] == [
            "saved",
            "saved",
            "forgotten",
        ]

    async def test_a_change_of_what_is_current(self, provider: FactStore) -> None:
        """The first entry creates the place, the next one sees it, None changes nothing."""
        seen: list[list[object]] = []

        def change(ledger: Ledger, now: str) -> Entry:
            seen.append([each.value for each in ledger.items(LANGUAGES.keyword, now).values()])
            (entry,) = instead("kotlin")([], now)
            return entry

        def bad(ledger: Ledger, now: str) -> Any:
            return {"at": now, "facts": [{}]}

        assert await provider.amend_current(lambda ledger, now: None, USER, AGENT) == 0
        assert await provider.places() == []
        assert await provider.amend_current(change, USER, AGENT) == 1
        assert await provider.amend_current(change, USER, AGENT) == 1
        assert await provider.amend_current(lambda ledger, now: None, USER, AGENT) == 0

        assert (seen[0], seen[-1]) == ([], ["kotlin"])
        assert len(await provider.entries(USER, AGENT)) == 2
        with pytest.raises(ValueError, match="cannot be recorded"):
            await provider.amend_current(bad, USER, AGENT)
        assert len(await provider.entries(USER, AGENT)) == 2

    async def test_what_a_change_raises_is_raised(self, provider: FactStore) -> None:
        """Nothing is stored then."""
        await provider.save(languages("java"), USER, AGENT)
        before = await provider.entries(USER, AGENT)

        def change(entries: Sequence[Entry], now: str) -> Iterable[Entry]:
            raise LookupError("mine")

        with pytest.raises(LookupError, match="mine"):
            await provider.amend(change, USER, AGENT)

        assert await provider.entries(USER, AGENT) == before
        await provider.save(languages("kotlin"), USER, AGENT)

    async def test_an_invalid_entry_is_refused(self, provider: FactStore) -> None:
        """Together with all others of the call. The error quotes none of them."""
        await provider.save(languages("java"), USER, AGENT)
        before = await provider.entries(USER, AGENT)

        def change(entries: Sequence[Entry], now: str) -> Any:
            good = {"at": now, "facts": [stored(languages("kotlin"))]}
            return [good, {"at": now, "facts": [{"keyword": "languages", "value": "PIN 1234"}]}]

        with pytest.raises(ValueError, match="Entry 1 cannot be recorded") as caught:
            await provider.amend(change, USER, AGENT)

        assert "1234" not in str(caught.value)
        assert await provider.entries(USER, AGENT) == before

    async def test_amendments_at_once_all_see_each_other(self, provider: FactStore) -> None:
        """After many concurrent replacements exactly one value is current, and none is lost."""
        await provider.save(languages("java"), USER, AGENT)
        numbers = count()

        def change(entries: Sequence[Entry], now: str) -> Iterable[Entry]:
            return instead(f"language {next(numbers)}")(entries, now)

        async with anyio.create_task_group() as tasks:
            for _ in range(WRITERS):
                tasks.start_soon(provider.amend, change, USER, AGENT)

        (left,) = await provider.load(LANGUAGES, USER, AGENT)
        assert left.values[0].startswith("language")
        entries = await provider.entries(USER, AGENT)
        assert len(entries) == 1 + WRITERS
        assert [len(entry.get("forget", ())) for entry in entries] == [0] + [1] * WRITERS
