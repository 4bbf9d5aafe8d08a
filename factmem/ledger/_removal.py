"""Removal of history from ledgers: compaction, tidying and purging.

Pure functions on entries. A changed entry keeps its position and its time, so that a store can
rewrite it alone.

Each function traces the entries, chooses the lives of values to remove, and lets `Rest` write the
entries without them. What other entries depend on stays: the stub of a save that replaced something,
the floor of a retraction, the mark of a superseded value.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pydantic_core import from_json

from factmem._concurrency.garbage import paused_collection
from factmem.ledger._condition import Condition
from factmem.ledger._items import values_of
from factmem.ledger._quotes import (
    QuotedValues,
    mentioning_facts,
    quoting_facts,
    without_values,
)
from factmem.ledger._related import KINDS, RelatedEntries
from factmem.ledger._statements import NEVER, digest_of
from factmem.ledger._trace import Life, SavedFact, Trace
from factmem.ledger.entries import (
    Entry,
    ForgottenItem,
    RetractedValue,
    SourceEntry,
    StoredFact,
)
from factmem.models._values import Canonical, JsonValue

__all__ = ["Purged", "Rest", "compacted", "purged", "tidied"]


def compacted(entries: Sequence[Entry], cutoff: str | None) -> list[Entry | None]:
    """Return a ledger's entries without values that ended by `cutoff`, a stamp; None keeps all.

    Values that were replaced, forgotten or expired by that time are removed, with their saves and
    forgettings unless these contain something else. All later reads, now or as of any moment from
    `cutoff` on, are unchanged.

    Returns:
        For each entry the same object if nothing of it was removed, a changed entry, or None if all of
        it was. Entries of unknown kinds are unchanged.
    """
    if cutoff is None:
        return list(entries)
    trace = Trace(entries)
    gone = {life for life in trace.lives if life.is_dead(cutoff)}
    return Rest(trace, gone, cutoff=cutoff).of(entries)


def tidied(entries: Sequence[Entry], now: str, *, expired: bool, cutoff: str) -> list[Entry | None]:
    """Return a ledger's entries without values that ended by `cutoff` or expired before `now`.

    Returns:
        The same as `compacted`. An empty `cutoff` keeps replaced and forgotten values.
    """
    trace = Trace(entries)
    now = max(now, trace.recorded_at)
    gone = {
        life
        for life in trace.lives
        if life.is_dead(cutoff) or (expired and life.has_expired and life.is_dead(now))
    }
    return Rest(trace, gone, cutoff=cutoff).of(entries)


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
            names = condition.names | related.sharing(doomed.sources)
            doomed = _Doomed.of(related, condition, now, names)
        keys = doomed.keys | _retracted_alone(condition)
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


class Rest:
    """A ledger without some of its lives."""

    def __init__(
        self,
        trace: Trace,
        gone: set[Life],
        *,
        cutoff: str = "",
        sources: Iterable[SourceEntry] = (),
        current: Iterable[Life] = (),
        nameless: Iterable[tuple[str, Canonical]] = (),
    ) -> None:
        self._trace = trace
        self._gone = gone
        self._cutoff = cutoff
        self._quotes: set[str] = set()
        """The quotes of purged values."""
        self._first: dict[str | None, int] = {}
        """The first message of each conversation that stated one of them."""
        for source in sources:
            if "quote" in source:
                self._quotes.add(source["quote"])
            talk, message = source.get("conversation"), source.get("message", 0)
            self._first[talk] = min(self._first.get(talk, message), message)
        self._current = frozenset(current)
        self._nameless = {(keyword, digest_of(key)) for keyword, key in nameless}
        """The values whose retractions lose their digests: they are purged."""
        proposed = [life for life in trace.lives if life.item.state == "proposed"]
        self._waiting = {life.keyword for life in proposed if life not in gone}
        """The keywords with proposals: each save before one may have decided what waits."""
        self._births: dict[str, list[str]] = {}
        self._deaths: dict[str, list[str]] = {}
        for life in trace.lives:
            if life not in gone:
                self._births.setdefault(life.keyword, []).append(life.born)
                if life.died is not None:
                    self._deaths.setdefault(life.keyword, []).append(life.died)
        for times in (*self._births.values(), *self._deaths.values()):
            times.sort()
        effective = [s for saves in trace.saved for s in saves if s.at <= cutoff]
        effective = [s for s in effective if not (s.is_superseded or s.is_proposed)]
        # What a model states may leave the type of its keyword as it is: see `is_of_one_value`.
        plain = [s for s in effective if not {"stated", "proposed"} & s.fact.keys()]
        self._last = [{s.fact["keyword"]: s for s in each} for each in (effective, plain)]

    def of(self, entries: Sequence[Entry]) -> list[Entry | None]:
        """Return the entries without the removed values."""
        return [self._entry(number, entry) for number, entry in enumerate(entries)]

    def _entry(self, number: int, entry: Entry) -> Entry | None:
        if KINDS.isdisjoint(entry):
            return entry
        facts = [fact for each in self._trace.saved[number] if (fact := self._fact(each))]
        forget = self._forget(number, entry)
        retract = self._retract(number, entry)
        if not facts and not forget and not retract:
            return None
        rest = entry.copy()
        rest["at"] = self._trace.recorded[number]
        rest["facts"] = facts
        rest["forget"] = forget
        rest["retract"] = retract
        if not facts:
            rest.pop("facts")
        if not forget:
            rest.pop("forget")
        if not retract:
            rest.pop("retract")
        return entry if rest == entry else rest

    def _retract(self, number: int, entry: Entry) -> list[RetractedValue]:
        """Return the retractions: each still refuses statements made before it.

        If the life that it ended was removed, the retraction itself has the floor. Nothing else of a
        purged value stays. A life that stays keeps its end.
        """
        records: list[RetractedValue] = []
        ended = self._trace.retracted[number]
        for record, (life, floor) in zip(entry.get("retract", ()), ended, strict=True):
            rest = record.copy()
            if floor > NEVER and life in self._gone:
                rest["floor"] = floor
            is_needed = life is not None and life not in self._gone
            if not is_needed and (record["keyword"], record.get("digest", "")) in self._nameless:
                rest.pop("digest", None)
            if "digest" in rest or "floor" in rest:
                records.append(rest)
        return records

    def _forget(self, number: int, entry: Entry) -> list[ForgottenItem]:
        lives = self._trace.forgotten[number]
        return [
            name
            for name in entry.get("forget", ())
            if (life := lives.get((name[0], name[1], name[2]))) and life not in self._gone
        ]

    def _fact(self, saved: SavedFact) -> StoredFact | None:
        values = [each for each in saved.values if each.life not in self._gone]
        if not values:
            return (
                self._as_applied(saved, self._stub(saved.fact)) if self._is_needed(saved) else None
            )
        fact = self._as_applied(saved, self._unquoted(saved))
        if fact["type"] == "SINGLE":
            waits = [0] if saved.is_proposed or "proposed" in fact else []
            return self._marked(fact, [0] if saved.is_superseded else [], waits)
        natural = [position for position, _ in values_of(fact)]
        is_renamed = any(
            each.is_new and each.position != position
            for each, position in zip(saved.values, natural, strict=True)
        )
        marks = [
            each.position if is_renamed else position
            for each, position in zip(saved.values, natural, strict=True)
            if each.is_superseded and each.life not in self._gone
        ]
        waits = [
            each.position if is_renamed else position
            for each, position in zip(saved.values, natural, strict=True)
            if (each.is_proposed or position in fact.get("proposed", ()))
            and each.life not in self._gone
        ]
        fact = self._marked(fact, marks, waits)
        if len(values) == len(saved.values) and not is_renamed:
            return fact
        kept = [
            (each.position if is_renamed else position, value)
            for each, (position, value) in zip(saved.values, values_of(fact), strict=True)
            if each.life not in self._gone
        ]
        return {**fact, "positions": [at for at, _ in kept], "values": [v for _, v in kept]}

    def _is_needed(self, saved: SavedFact) -> bool:
        """Return whether current items still depend on a save whose values are all removed.

        They do if values that the save replaced are still present, and for the keyword's description
        and type while other values of the keyword are visible.
        """
        keyword, at = saved.fact["keyword"], saved.at
        if saved.is_superseded or saved.is_proposed:
            return False
        if any(life not in self._gone for life in saved.replaced):
            return True
        is_last = any(last.get(keyword) is saved for last in self._last)
        if at <= self._cutoff and not is_last and keyword not in self._waiting:
            return False
        born = bisect_right(self._births.get(keyword, []), at)
        return born > bisect_right(self._deaths.get(keyword, []), at)

    def _as_applied(self, saved: SavedFact, fact: StoredFact) -> StoredFact:
        """Return a SINGLE fact that was added to many as a MULTIPLE one: those may be removed."""
        is_other = saved.is_added and fact["type"] == "SINGLE" and not saved.is_proposed
        if not self._gone or not is_other:
            return fact
        many: StoredFact = {**fact, "type": "MULTIPLE"}
        if "value" in many:
            many["values"] = [many.pop("value")]
        return many

    def _stub(self, fact: StoredFact) -> StoredFact:
        stub: StoredFact = {
            "id": fact["id"],
            "keyword": fact["keyword"],
            "description": fact["description"],
            "type": fact["type"],
            "timestamp": fact["timestamp"],
        }
        if "confirmed" in fact:
            stub["confirmed"] = True  # it has decided the proposals before it
        if "since" in fact:
            stub["since"] = fact["since"]  # it replaces other values when it begins
        return stub

    def _marked(self, fact: StoredFact, superseded: list[int], waits: list[int]) -> StoredFact:
        """Return a fact with its superseded and proposed values marked.

        The values that made them so may be removed.
        """
        marks = fact.get("superseded", []), fact.get("proposed", [])
        is_moved = marks[1] not in ([], waits)  # to other positions
        if marks == (superseded, waits) or not (self._gone or is_moved):
            return fact
        marked: StoredFact = {**fact, "superseded": superseded, "proposed": waits}
        if not superseded:
            marked.pop("superseded")
        if not waits:
            marked.pop("proposed")
        return marked

    def _unquoted(self, saved: SavedFact) -> StoredFact:
        """Return a fact without the words of a purged value in its source.

        A quote is kept if it also states something current.
        """
        fact = saved.fact
        source = fact.get("source")
        if source is None:
            return fact
        rest = source.copy()
        if source.get("quote") in self._quotes and not any(
            each.life in self._current for each in saved.values
        ):
            rest.pop("quote")
        first = self._first.get(source.get("conversation"))
        if first is not None and source.get("message", first) >= first and "before" in source:
            rest.pop("before")
        return fact if rest == source else {**fact, "source": rest}
