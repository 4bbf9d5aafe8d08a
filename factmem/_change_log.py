"""Which facts of a place were touched lately, for those who follow it without reading it anew."""

from collections import deque

from pydantic import JsonValue

__all__ = ["ChangeLog", "Touched"]

_MOST_MARKS = 1024
"""How many touched facts are remembered: whoever follows a place asks at every turn of its agent."""


class Touched:
    """What was touched under one keyword."""

    __slots__ = ("ids", "is_text", "is_whole")

    def __init__(self) -> None:
        self.ids: set[str] = set()
        """The facts that gained or lost values, or were confirmed."""
        self.is_text: bool = True
        """Whether only text came and went: else all values may be of another type than before."""
        self.is_whole: bool = False
        """Whether all its facts may be others: it was replaced or described anew."""


class ChangeLog:
    """The last marks that a ledger made, by the number of the entry that it applied then.

    Not safe for threads: it is guarded as its ledger is.

    Args:
        begun: The last entry before the first mark.
    """

    __slots__ = ("_lost", "_marks")

    def __init__(self, begun: int) -> None:
        self._marks: deque[tuple[int, str, str | None, bool]] = deque()
        self._lost = begun
        """The last entry of which a mark was let go."""

    def note(self, entry: int, keyword: str, fact_id: str | None, value: JsonValue = "") -> None:
        """Mark a fact that an entry touched, with the value that came or went; None marks all."""
        marks = self._marks
        if len(marks) == _MOST_MARKS:
            self._lost = marks.popleft()[0]
        marks.append((entry, keyword, fact_id, type(value) is str))

    def since(self, entry: int) -> dict[str, Touched] | None:
        """Return what the entries after this one touched, by keyword; None if that is forgotten."""
        if entry < self._lost:
            return None
        found: dict[str, Touched] = {}
        for number, keyword, fact_id, is_text in reversed(self._marks):
            if number <= entry:
                break
            touched = found.setdefault(keyword, Touched())
            if fact_id is None:
                touched.is_whole = True
            else:
                touched.ids.add(fact_id)
                touched.is_text &= is_text
        return found
