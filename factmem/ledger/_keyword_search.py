"""KeywordSearch: folds only the entries of one keyword."""

from collections.abc import Iterable

from factmem.ledger.entries import Entry
from factmem.ledger.ledger import Ledger


class KeywordSearch:
    """Folds the parts of entries that concern a keyword.

    Args:
        keyword: The keyword.
    """

    def __init__(self, keyword: str) -> None:
        self._keyword = keyword
        self._ledger = Ledger()

    def take(self, entries: Iterable[Entry]) -> None:
        """Apply the next entries, in order; parts about other keywords are ignored."""
        keyword, ledger = self._keyword, self._ledger
        for entry in entries:
            facts = [fact for fact in entry.get("facts", ()) if fact["keyword"] == keyword]
            forget = [name for name in entry.get("forget", ()) if name[0] == keyword]
            retract = [each for each in entry.get("retract", ()) if each["keyword"] == keyword]
            if facts or forget or retract:
                part: Entry = {**entry, "facts": facts, "forget": forget}
                ledger.apply({**part, "retract": retract})
            ledger.recorded_at = max(ledger.recorded_at, entry["at"])

    def ledger(self) -> Ledger:
        """Return a ledger of this keyword only."""
        return self._ledger
