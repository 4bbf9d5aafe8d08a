"""KeywordSearch: folds only the entries of one keyword, found in their encoded form."""

from collections.abc import Iterable

import orjson

from factmem.ledger.entries import Entry, decoded
from factmem.ledger.ledger import Ledger

__all__ = ["KeywordSearch"]

_AT = b'{"at":"'
_STAMP = slice(len(_AT), len(_AT) + 27)
"""The position of the time in an entry returned by `stamped`."""


class KeywordSearch:
    """Folds only the entries that may concern a keyword, found by the bytes of its JSON.

    A line of JSON can write a keyword with escapes. Every line with an escape that is never needed is
    decoded too, so that no keyword is missed.

    Args:
        keyword: The keyword.
        ledger: The state of the keyword before the first entry.
    """

    def __init__(self, keyword: str, ledger: Ledger | None = None) -> None:
        self._keyword = keyword
        self._text = orjson.dumps(keyword)
        self._ledger = Ledger() if ledger is None else ledger
        self._latest = self._ledger.recorded_at.encode()
        self._has_forgetting = self._has_positions = False

    def take(self, lines: Iterable[bytes]) -> None:
        """Apply the next encoded entries, in order."""
        text, latest = self._text, self._latest
        for line in lines:
            at = line[_STAMP]
            if (
                text in line
                or (b"\\" in line and (b"\\u" in line or b"\\/" in line))
                or not line.startswith(_AT)
                or line[34:35] != b'"'
            ):
                entry = decoded(line)
                at = entry["at"].encode()
                self._ledger.recorded_at = latest.decode()
                self._apply(entry)
            if at > latest:  # noqa: PLR1730 - no call per line
                latest = at
        self._latest = latest
        self._ledger.recorded_at = latest.decode()

    def take_entries(self, entries: Iterable[Entry]) -> None:
        """Apply the next decoded entries, in order; those of other keywords are ignored."""
        for entry in entries:
            self._apply(entry)
            self._ledger.recorded_at = max(self._ledger.recorded_at, entry["at"])
        self._latest = self._ledger.recorded_at.encode()

    def _apply(self, entry: Entry) -> None:
        keyword = self._keyword
        facts = [fact for fact in entry.get("facts", ()) if fact["keyword"] == keyword]
        forget = [name for name in entry.get("forget", ()) if name[0] == keyword]
        retract = [each for each in entry.get("retract", ()) if each["keyword"] == keyword]
        if facts or forget or retract:
            self._has_forgetting |= bool(forget)
            self._has_positions |= any(fact["type"] == "MULTIPLE" for fact in facts)
            self._ledger.apply(
                {"at": entry["at"], "facts": facts, "forget": forget, "retract": retract}
            )

    def ledger(self) -> Ledger | None:
        """Return a ledger of this keyword only; None if that takes a fold of all keywords.

        A forgetting names a value by its position. The positions of a fact continue from an earlier
        save of its id, which may have another keyword.
        """
        return None if self._has_forgetting and self._has_positions else self._ledger
