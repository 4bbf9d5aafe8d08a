"""Forgetting: how a `forget` changes the ledger of a place."""

from collections.abc import Callable, Sequence
from typing import Any

from factmem.ledger._items import Condition
from factmem.ledger.entries import Entry, ForgottenItem, untimed
from factmem.ledger.ledger import Ledger
from factmem.models.places import present_actor
from factmem.providers._backend import Change
from factmem.providers.results import Purge, check_purge


class Forgetting:
    """One call of `forget`; its functions may be called again if a transaction is repeated."""

    def __init__(self, condition_at: Callable[[str], Condition], purge: Purge) -> None:
        check_purge(purge)
        self._condition_at = condition_at
        self._purge = purge
        self._by = present_actor()
        self.left: list[tuple[str, ...]] = []
        """The facts and messages that still contain purged values; see `Forgotten`."""
        self.is_over = False
        """Whether nothing is current, but the keywords have ended values."""
        self.former = 0
        """How many ended values `end_former` found."""

    def decide(self, ledger: Ledger, now: str) -> Change:
        condition, purge = self._condition_at(now), self._purge
        forgotten = ledger.matching(condition, now)
        self.is_over = not (forgotten or purge) and ledger.knows(condition.names or ())
        if not purge:
            return Change(self._entry(forgotten, whole=condition.is_of_keywords))
        from factmem.ledger._purging import (  # slow to import
            QuotedValues,
            message_with,
            purged,
            turn_without,
        )

        values = QuotedValues(())

        def edit(entries: Sequence[Entry]) -> Sequence[Entry | None]:
            nonlocal values
            found = purged(entries, condition, now, quotes=purge == "quotes")
            self.left[:] = [found.quoting, found.mentioning, ()]
            values = found.values
            return found.entries

        def turns(entries: Sequence[Entry]) -> Sequence[Entry]:
            rest = [turn_without(each, values) for each in entries]
            found = [name for each in rest if (name := message_with(each, values)) is not None]
            self.left[-1] += tuple(found)
            return rest

        return Change(self._entry(forgotten), edit, turns)

    def _entry(self, forget: list[ForgottenItem], *, whole: bool = False) -> dict[str, Any] | None:
        return untimed(forget=forget, whole=whole, by=self._by) if forget else None

    def end_former(self, entries: Sequence[Entry], now: str) -> list[Entry]:
        """Forget the values that held before, if none is current."""
        from factmem.ledger.history import former_values  # few forgettings find no value

        forgotten = former_values(entries, self._condition_at(now), now)
        self.former = len(forgotten)
        return [{"at": now, "forget": forgotten}] if forgotten else []
