"""Descriptions of facts: omitted from a journal if they repeat, restored when it is read.

A fact without a description has that of the previous fact in the journal with its keyword. If the fact
with the description was lost, the keyword replaces it.
"""

from collections.abc import Callable, Iterable
from typing import cast

from factmem.ledger.entries import Entry, StoredFact, decoded

__all__ = ["Abridger", "completed"]


def completed(lines: Iterable[bytes]) -> list[Entry]:
    """Return the entries of a whole journal, decoded, with a description in each fact."""
    last: dict[str, str] = {}
    entries: list[Entry] = []
    for line in lines:
        entry = decoded(line)
        for fact in entry.get("facts", ()):
            keyword = fact["keyword"]
            last[keyword] = fact.setdefault("description", last.get(keyword, keyword))
        entries.append(entry)
    return entries


class Abridger:
    """Omits descriptions that the journal already has.

    Args:
        known: Returns a keyword's last description in the journal; empty if it has none.
    """

    def __init__(self, known: Callable[[str], str]) -> None:
        self._known = known
        self._last: dict[str, str] = {}
        """The last descriptions of the entries being written."""

    def abridged(self, entry: Entry) -> Entry:
        """Return an entry to write next; the same object if nothing is omitted."""
        facts = entry.get("facts")
        if not facts:
            return entry
        shorter = [self._abridged(fact) for fact in facts]
        if all(new is old for new, old in zip(shorter, facts, strict=True)):
            return entry
        return {**entry, "facts": shorter}

    def _abridged(self, fact: StoredFact) -> StoredFact:
        keyword, description = fact["keyword"], fact["description"]
        last = self._last.get(keyword)
        if last is None:
            last = self._known(keyword)
        self._last[keyword] = description
        if description != last or not description:
            return fact
        shorter = {name: part for name, part in fact.items() if name != "description"}
        return cast("StoredFact", shorter)
