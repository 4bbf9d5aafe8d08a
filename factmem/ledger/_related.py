"""The entries about some keywords or facts, and the entries that depend on them.

The effect of a keyword's entries depends on another keyword only through entries with facts of several
keywords, and through facts saved under several. A purge of one keyword therefore traces only these
entries: of 100,000 entries usually a hundred.
"""

from collections.abc import Collection, Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple, TypeVar

from factmem.ledger._items import Item
from factmem.ledger.entries import Entry, SourceEntry
from factmem.ledger.ledger import Ledger

V = TypeVar("V")


KINDS = frozenset(("facts", "forget", "retract"))
"""The parts of entries; later versions may add others."""


class Related(NamedTuple):
    """A group of entries on which no other entries depend."""

    numbers: list[int]
    names: set[str]
    """Their keywords, and the ids of their facts."""


class RelatedEntries:
    """Finds the entries of a ledger that belong together."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._entries = entries
        self._names: list[tuple[str, ...]] = list(map(_names, entries))
        self.recorded: list[str] = list(accumulate((entry["at"] for entry in entries), max))
        """The time at which each entry counts as recorded: no earlier than the one before it."""

    @property
    def recorded_at(self) -> str:
        """When the last entry was recorded; empty before the first."""
        return self.recorded[-1] if self.recorded else ""

    def to(self, names: Iterable[str]) -> Related:
        """Return the entries about some keywords and facts, and all that are related to those."""
        wanted, found = set(names), list[int]()
        while True:
            known = len(found)
            found = [n for n, each in enumerate(self._names) if not wanted.isdisjoint(each)]
            if len(found) == known:
                return Related(found, wanted)
            for number in found:
                wanted.update(self._names[number])

    def changed(self, after: Sequence[Entry | None]) -> Related:
        """Return the entries that an edit changed, and all that are related to those."""
        names = set[str]()
        for number, (old, new) in enumerate(zip(self._entries, after, strict=True)):
            if new is not old:
                names.update(self._names[number], () if new is None else _names(new))
        return self.to(names)

    def at(self, numbers: Iterable[int]) -> list[Entry]:
        """Return entries with the times at which they count as recorded; unknown kinds unchanged."""
        found: list[Entry] = []
        for number in numbers:
            entry, at = self._entries[number], self.recorded[number]
            is_as_it_counts = entry["at"] == at or KINDS.isdisjoint(entry)
            found.append(entry if is_as_it_counts else {**entry, "at": at})
        return found

    def sharing(self, sources: Collection[SourceEntry]) -> set[str]:
        """Return the facts whose sources have the quote or the conversation of one of these."""
        quotes = {source["quote"] for source in sources if "quote" in source}
        talks = {source.get("conversation") for source in sources}
        return {
            fact["id"]
            for entry in self._entries
            for fact in entry.get("facts", ())
            if (source := fact.get("source")) is not None
            and (source.get("quote") in quotes or source.get("conversation") in talks)
        }


def refolded(
    ledger: Ledger, before: Sequence[Entry], after: Sequence[Entry | None]
) -> Ledger | None:
    """Return a ledger after an edit of its entries, by folding only the changed parts again.

    None if the edit added something: items are in the order of their saves, which a part of the entries
    cannot determine. The passed ledger must not be used any more.

    Args:
        ledger: The fold of all entries before.
        before: These entries.
        after: The edited entries.
    """
    touched = RelatedEntries(before).changed(after)
    times = list(accumulate(("" if each is None else each["at"] for each in after), max))
    left = ((times[number], after[number]) for number in touched.numbers)
    folded = Ledger({**each, "at": at} for at, each in left if each is not None)
    folded.advance(max(times, default=""))
    part = folded.state()
    whole = ledger.state()
    numbers: list[tuple[Item, int]] = []
    for keyword, held in part.by_keyword.items():
        known = whole.by_keyword.get(keyword)
        for key, item in held.items.items():
            old = None if known is None else known.get(key)
            if old is None or old.fact_id != item.fact_id:
                return None
            numbers.append((item, old.number))
    for item, number in numbers:
        item.number = number
    return Ledger.restored(
        whole._replace(
            recorded_at=times[-1] if times else "",
            passed=_replaced(whole.passed, part.passed, touched.names),
            by_keyword=_replaced(whole.by_keyword, part.by_keyword, touched.names),
            expiries=[each for each in whole.expiries if each[1] not in touched.names]
            + part.expiries,
            begins=[each for each in whole.begins if each[1] not in touched.names] + [*part.begins],
        )
    )


def _replaced(whole: dict[str, V], part: dict[str, V], names: Iterable[str]) -> dict[str, V]:
    for name in names:
        whole.pop(name, None)
    return whole | part


def _names(entry: Entry) -> tuple[str, ...]:
    """Return the keywords and the fact ids of an entry."""
    facts = entry.get("facts", ())
    if len(facts) == 1 and "forget" not in entry and "retract" not in entry:  # nearly every entry
        return facts[0]["keyword"], facts[0]["id"]
    names = [name for fact in facts for name in (fact["keyword"], fact["id"])]
    for keyword, fact_id, _ in entry.get("forget", ()):
        names += keyword, fact_id
    names += [each["keyword"] for each in entry.get("retract", ())]
    return tuple(names)
