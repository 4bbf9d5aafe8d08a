"""Descriptions that a journal does not repeat: left out when facts are written, put back when read.

A fact without a description has that of the last fact before it in the journal that has its keyword.
Where no fact before it has one, as what had it was lost, the keyword stands for it.
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
    """Leaves out descriptions that stand in the journal before.

    Args:
        known: Returns the last description of a keyword in what is there; empty if there is none.
    """

    def __init__(self, known: Callable[[str], str]) -> None:
        self._known = known
        self._last: dict[str, str] = {}
        """The last descriptions in what is being written."""

    def abridged(self, entry: Entry) -> Entry:
        """Return an entry as it is written next: the same one where nothing is left out."""
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
