"""Purging: removal of values from a ledger and from all its history. Pure."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pydantic_core import from_json

from factmem._concurrency.garbage import paused_collection
from factmem.ledger._condition import Condition
from factmem.ledger._quotes import (
    QuotedValues,
    mentioning_facts,
    quoting_facts,
    without_values,
)
from factmem.ledger._related import RelatedEntries
from factmem.ledger._removal import Rest
from factmem.ledger._trace import Life, Trace
from factmem.ledger.entries import Entry, SourceEntry
from factmem.models._values import Canonical, JsonValue


class Purged(NamedTuple):
    """A ledger without purged values."""

    entries: list[Entry | None]
    """For each entry the same object if nothing of it was removed, a changed entry, or None."""
    quoting: tuple[str, ...]
    """The ids of remaining facts whose quotes contain a purged value."""
    mentioning: tuple[str, ...]
    """The ids of remaining facts whose keyword, description or metadata contains a purged value."""
    values: QuotedValues
    """The purged values, to be removed from the messages of conversations too."""


def purged(
    entries: Sequence[Entry], condition: Condition, now: str, *, quotes: bool = False
) -> Purged:
    """Return a ledger without the values that meet a condition and are not current at `now`.

    It removes every such value from the history, and the same value elsewhere in the history of the
    same keyword. It also removes the quotes of their sources, and the `before` of all later sources
    in the same conversations, which may contain the words of a purged fact. Other current values are
    unchanged: forget them first. Reads with `as_of` change only by these values.

    Args:
        entries: The ledger.
        condition: The values.
        now: The time, as a stamp.
        quotes: Whether the values are also removed from the quotes of all other facts.
    """
    with paused_collection(len(entries)):
        related = RelatedEntries(entries)
        now = max(now, related.recorded_at)
        doomed = _Doomed.of(related, condition, now)
        if doomed.sources and condition.names is not None:
            # Later sources in these conversations may quote the purged words: they are checked,
            # too.
            names = condition.names | related.sharing(doomed.sources)
            doomed = _Doomed.of(related, condition, now, names)
        # What stays needs the digests of its forgettings: without them it would be current again.
        known = {(life.keyword, life.key) for life in doomed.trace.lives}
        keys = doomed.keys | (_retracted_alone(condition) - known)
        rest = doomed.rest(related, keys)
        proofs = [quote for source in doomed.sources if (quote := source.get("quote"))]
        values = QuotedValues(map(_value_of, {key for _, key in keys}), proofs)
        quoting = tuple({fact["id"]: None for fact in quoting_facts(rest, values)})
        mentioning = tuple({fact["id"]: None for fact in mentioning_facts(rest, values)})
        if not quotes or not quoting:
            return Purged(rest, quoting, mentioning, values)
        unquoted = [each and without_values(each, values) for each in rest]
        return Purged(unquoted, (), mentioning, values)


class _Doomed(NamedTuple):
    """The lives that a purge removes, among the entries that it must check."""

    numbers: Sequence[int]
    """The numbers of these entries."""
    trace: Trace
    gone: set[Life]
    current: list[Life]
    keys: set[tuple[str, Canonical]]
    """The purged values, each with its keyword."""
    sources: list[SourceEntry]
    """The sources that stated them."""

    @classmethod
    def of(
        cls,
        related: RelatedEntries,
        condition: Condition,
        now: str,
        names: frozenset[str] | None = None,
    ) -> "_Doomed":
        """Return what a condition removes; `names` limits the checked entries, if given."""
        names = condition.names if names is None else names
        numbers = range(len(related.recorded)) if names is None else related.to(names).numbers
        trace = Trace(related.at(numbers))
        trace.advance(now)
        dead = [life for life in trace.lives if life.is_dead(now)]
        keys = {
            (life.keyword, life.key)
            for life in dead
            if condition.is_met_by(life.keyword, life.key, life.item)
        }
        gone = {life for life in dead if (life.keyword, life.key) in keys}
        sources = [
            saved.fact["source"]
            for saves in trace.saved
            for saved in saves
            if "source" in saved.fact and any(value.life in gone for value in saved.values)
        ]
        current = [life for life in trace.lives if not life.is_dead(now)]
        return cls(numbers, trace, gone, current, keys, sources)

    def rest(
        self, related: RelatedEntries, keys: Iterable[tuple[str, Canonical]]
    ) -> list[Entry | None]:
        """Return all entries without the removed values."""
        rest = Rest(
            self.trace, self.gone, sources=self.sources, current=self.current, nameless=keys
        )
        after: list[Entry | None] = list(related.at(range(len(related.recorded))))
        entries = related.at(self.numbers)
        for number, entry in zip(self.numbers, rest.of(entries), strict=True):
            after[number] = entry
        return after


def _value_of(key: Canonical) -> JsonValue:
    value: JsonValue = key if isinstance(key, str) else from_json(key)
    return value


def _retracted_alone(condition: Condition) -> set[tuple[str, Canonical]]:
    """Return the value of a condition; it may have been retracted and never saved."""
    if condition.key is None:
        return set()
    named = condition.keywords if condition.keyword is None else [condition.keyword]
    return {(keyword, condition.key) for keyword in named or ()}
