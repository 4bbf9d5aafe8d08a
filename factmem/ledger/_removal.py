"""Removal of history from ledgers: compaction and tidying; `_purging` builds on it.

Pure functions on entries. A changed entry keeps its position and its time, so that a store can
rewrite it alone.

Each function traces the entries, selects the lives of values to remove, and lets `Rest` write the
entries without them. It keeps what other entries depend on: the stub of a save that replaced
something, the floor of a retraction, the mark of a superseded value. Each purged save leaves a
stub, so that no import restores it: see `_merging`.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from factmem.ledger._items import NEVER, KeywordItems, Proposals, digest_of, said_at
from factmem.ledger._trace import KINDS, Life, SavedFact, SavedValue, Trace
from factmem.ledger.entries import (
    Entry,
    ForgottenItem,
    RetractedValue,
    SourceEntry,
    StoredFact,
    keywords_of,
)
from factmem.ledger.ledger import Ledger
from factmem.models._values import Canonical


def compacted(entries: Sequence[Entry], cutoff: str | None) -> list[Entry | None]:
    """Return a ledger's entries without values that ended by `cutoff`, a stamp; None keeps all.

    Values that were replaced, forgotten or expired by that time are removed, with their saves
    unless these contain something else. Forgettings stay, so that no import restores a value.
    All later reads, now or as of any moment from `cutoff` on, are unchanged.

    Returns:
        For each entry the same object if nothing of it was removed, a changed entry, or None if
        all of it was. Entries of unknown kinds are unchanged.
    """
    if cutoff is None:
        return list(entries)
    trace = Trace(entries)
    gone = {life for life in trace.lives if life.is_dead(cutoff)}
    return _without(entries, trace, gone, cutoff=cutoff, since=cutoff)


def tidied(entries: Sequence[Entry], now: str, *, expired: bool, cutoff: str) -> list[Entry | None]:
    """Return entries without values that ended by `cutoff`, or expired by now; see `compacted`.

    An empty `cutoff` keeps replaced and forgotten values.
    """
    trace = Trace(entries)
    now = max(now, trace.recorded_at)
    gone = {
        life
        for life in trace.lives
        if life.is_dead(cutoff) or (expired and life.has_expired and life.is_dead(now))
    }
    return _without(entries, trace, gone, cutoff=cutoff, since=now)


def _without(
    entries: Sequence[Entry], trace: Trace, gone: set[Life], *, cutoff: str, since: str
) -> list[Entry | None]:
    """Return the entries without some lives, except in keywords whose reads would change.

    Reads depend on the past in many ways, and a removal cannot be undone: so the result is
    folded and compared before it replaces the entries.
    """
    while True:
        rest = Rest(trace, gone, cutoff=cutoff).of(entries)
        changed = _changed(entries, rest, since)
        if not changed:
            return rest
        kept = {life for life in gone if life.keyword in changed}
        if not kept:
            return list(entries)
        gone -= kept


def _changed(entries: Sequence[Entry], rest: Sequence[Entry | None], since: str) -> set[str]:
    """Return the keywords whose reads differ after a removal, at `since` or later."""
    before, after = Ledger(), Ledger()
    changed: set[str] = set()

    def compare(keywords: Iterable[str], now: str) -> None:
        one, other = before.at(now), after.at(now)
        changed.update(
            keyword
            for keyword in keywords
            if _shown(one.get(keyword), now) != _shown(other.get(keyword), now)
        )

    is_past = True
    for old, new in zip(entries, rest, strict=True):
        if is_past and old["at"] > since:
            is_past = False
            compare(before.state().by_keyword, since)
        before.apply(old)
        if new is not None:
            after.apply(new)
        if not is_past:
            compare(keywords_of(old), before.recorded_at)
    now = max(before.recorded_at, since)
    compare(before.state().by_keyword, now)
    for begin, keyword in before.state().begins:
        if begin > now:
            compare([keyword], begin)
    return changed


def _shown(held: KeywordItems | None, now: str) -> list[Any]:
    if held is None:
        return []
    items, waiting = held.alive(now), held.proposals or Proposals()
    items += [item for item in waiting.values.values() if item.is_alive(now)]
    shown: list[Any] = [(held.description, held.fact_type)] if items else []
    shown += [(item.state, item.fields()[1:]) for item in items]
    shown += waiting.endings
    shown += [(each.begin, each.item.fields()[1:]) for each in held.plans or () if not each.is_stub]
    return shown


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
        nameless: Iterable[tuple[str, Canonical]] | None = None,
        purged_at: str = "",
        doomed: Mapping[tuple[str, Canonical], str] | None = None,
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
        self._is_purge = nameless is not None
        self._is_removing = bool(gone or doomed)
        self._purged_at = purged_at
        self._doomed = doomed or {}
        """Values, by keyword and key, to remove from all saves recorded until a time."""
        self._nameless = {(keyword, digest_of(key)) for keyword, key in nameless or ()}
        """The purged values, whose digests are removed from forgettings and retractions."""
        proposed = [life for life in trace.lives if life.item.state == "proposed"]
        self._waiting = {life.keyword for life in proposed if life not in gone}
        """The keywords with proposals, which any earlier save may have decided."""
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
        # A model's statement may leave the type of its keyword unchanged: see `is_of_one_value`.
        plain = [s for s in effective if not {"stated", "proposed"} & s.fact.keys()]
        self._last = [{s.fact["keyword"]: s for s in each} for each in (effective, plain)]

    def of(self, entries: Sequence[Entry]) -> list[Entry | None]:
        return [self._entry(number, entry) for number, entry in enumerate(entries)]

    def _entry(self, number: int, entry: Entry) -> Entry | None:
        if KINDS.isdisjoint(entry):
            return entry
        facts = [fact for each in self._trace.saved[number] if (fact := self._fact(each))]
        forget = self._forget(entry)
        retract = self._retract(number, entry)
        if not facts and not forget and not retract:
            return None
        parts: Any = {"facts": facts, "forget": forget, "retract": retract}
        rest: Any = {**entry, "at": self._trace.recorded[number], **parts}
        for kind in KINDS:
            if not rest[kind]:
                del rest[kind]
        return entry if rest == entry else rest

    def _retract(self, number: int, entry: Entry) -> list[RetractedValue]:
        """Return the retractions, each of which still refuses statements made before it.

        If the life that it ended is removed, the retraction gets the floor. Nothing else of a
        purged value stays. A life that is kept keeps its end.
        """
        records: list[RetractedValue] = []
        ended = self._trace.retracted[number]
        for record, (life, floor) in zip(entry.get("retract", ()), ended, strict=True):
            rest = record.copy()
            if floor > NEVER and life in self._gone and not self._is_purge:
                rest["floor"] = floor
            is_needed = life is not None and life not in self._gone
            if not is_needed and (record["keyword"], record.get("digest", "")) in self._nameless:
                rest.pop("digest", None)
            records.append(rest)
        return records

    def _forget(self, entry: Entry) -> list[ForgottenItem]:
        """Return the forgettings without purged digests; they still end earlier statements."""
        return [
            (keyword, fact_id, "" if (keyword, digest) in self._nameless else digest)
            for keyword, fact_id, digest in entry.get("forget", ())
        ]

    def _fact(self, saved: SavedFact) -> StoredFact | None:
        values = [each for each in saved.values if not self._is_gone(saved, each)]
        if not values and self._is_purge:
            return self._as_applied(saved, self._stub(saved)) if saved.values else saved.fact
        if not values:
            is_kept = "purged" in saved.fact or self._is_needed(saved)
            return self._as_applied(saved, self._stub(saved)) if is_kept else None
        fact = self._as_applied(saved, self._unquoted(saved))
        kept = [n for n, each in enumerate(saved.values) if not self._is_gone(saved, each)]
        marks = [at for at, number in enumerate(kept) if saved.values[number].is_superseded]
        waits = [
            at
            for at, number in enumerate(kept)
            if saved.values[number].is_proposed or number in fact.get("proposed", ())
        ]
        fact = self._marked(fact, marks, waits)
        if len(kept) == len(saved.values):
            return fact
        given = fact.get("values", [])
        rest: StoredFact = {**fact, "values": [given[number] for number in kept]}
        if self._is_purge or "purged" in fact:
            rest["purged"] = self._mark(saved)
        return rest

    def _is_gone(self, saved: SavedFact, value: SavedValue) -> bool:
        until = self._doomed.get((saved.fact["keyword"], value.life.key), "")
        return value.life in self._gone or saved.at <= until

    def _mark(self, saved: SavedFact) -> str:
        """Return the time of the purge for a save of which values are removed.

        The earliest one, as the mark does not say when each value was purged. After a compaction,
        which purges nothing, the mark must not affect other saves.
        """
        fact = saved.fact
        purged_at = self._purged_at if self._is_purge else said_at(fact, saved.at)
        return min(purged_at, fact.get("purged", purged_at))

    def _is_needed(self, saved: SavedFact) -> bool:
        """Return whether current items still depend on a save whose values are all removed.

        They do if values that the save replaced are still present, and for the keyword's
        description and type while other values of the keyword are visible.
        """
        keyword, at = saved.fact["keyword"], saved.at
        if saved.values and all(each.is_superseded or each.is_proposed for each in saved.values):
            return False
        if any(life not in self._gone for life in saved.replaced):
            return True
        if saved.is_planned:
            return False
        is_last = any(last.get(keyword) is saved for last in self._last)
        if at <= self._cutoff and not is_last and keyword not in self._waiting:
            return False
        # Another value of the keyword was visible then, with this save's description and type.
        born = bisect_right(self._births.get(keyword, []), at)
        return born > bisect_right(self._deaths.get(keyword, []), at)

    def _as_applied(self, saved: SavedFact, fact: StoredFact) -> StoredFact:
        """Return a SINGLE fact that was added to many as MULTIPLE: the others may be removed."""
        is_added = saved.is_added and not (saved.is_proposed or saved.is_planned)
        if not self._is_removing or not is_added or fact["type"] != "SINGLE":
            return fact
        many: StoredFact = {**fact, "type": "MULTIPLE"}
        if "value" in many:
            many["values"] = [many.pop("value")]
        return many

    def _stub(self, saved: SavedFact) -> StoredFact:
        """Return a save without its values; other copies get the stub of a purge, too."""
        fact = saved.fact
        stub: StoredFact = {
            "id": fact["id"],
            "keyword": fact["keyword"],
            "description": fact["description"],
            "type": fact["type"],
            "timestamp": fact["timestamp"],
        }
        if "confirmed" in fact:
            stub["confirmed"] = True  # it decided earlier proposals
        if "since" in fact and not saved.is_planned:
            stub["since"] = fact["since"]  # it replaces other values at that time
        if self._is_purge or "purged" in fact:
            marks = "stated", "expires_at", "superseded", "proposed"
            given: Any = {name: each for name, each in fact.items() if name in marks}
            stub.update(given)
            stub["purged"] = self._mark(saved) if saved.values else fact.get("purged", "")
        if self._is_purge and (saved.is_superseded or saved.is_planned):
            stub["superseded"] = [0]
        if self._is_purge and saved.is_proposed:
            stub["proposed"] = [0]
        ended = saved.values[0].life if self._is_purge and "since" not in fact else None
        if ended is not None and not ended.is_withdrawn and ended.died is not None:
            stub["expires_at"] = ended.died  # it ends nothing that is recorded later
        return stub

    def _marked(self, fact: StoredFact, superseded: list[int], waits: list[int]) -> StoredFact:
        """Return a fact with its superseded and proposed values marked; causes may be removed."""
        marks = fact.get("superseded", []), fact.get("proposed", [])
        is_moved = marks[1] not in ([], waits)  # to other positions
        if marks == (superseded, waits) or not (self._is_removing or is_moved):
            return fact
        marked: StoredFact = {**fact, "superseded": superseded, "proposed": waits}
        if not superseded:
            marked.pop("superseded")
        if not waits:
            marked.pop("proposed")
        return marked

    def _unquoted(self, saved: SavedFact) -> StoredFact:
        """Return a fact without a purged value's words; keep a quote that states other values."""
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
