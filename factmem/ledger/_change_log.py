"""Which facts of a ledger changed, for readers that follow a place without loading it again."""

from collections import deque

from factmem.models._values import JsonValue

_MOST_MARKS = 1024
"""The most changed facts that are kept. Readers that follow a place ask at every turn of an agent."""


class Touched:
    """The changes of one keyword."""

    __slots__ = ("ids", "is_text", "is_whole")

    def __init__(self) -> None:
        self.ids: set[str] = set()
        """The facts that gained or lost values, or were confirmed."""
        self.is_text: bool = True
        """Whether only strings were added and removed; otherwise the type may have changed."""
        self.is_whole: bool = False
        """Whether all its facts may have changed: it was replaced or has a new description."""


class ChangeLog:
    """The latest changes of a ledger, by the number of the applied entry.

    Not thread-safe, like its ledger.

    Args:
        begun: The last entry before the first change.
    """

    __slots__ = ("_lost", "_marks")

    def __init__(self, begun: int) -> None:
        self._marks: deque[tuple[int, str, str | None, bool]] = deque()
        self._lost = begun
        """The last entry whose change was discarded."""

    def note(self, entry: int, keyword: str, fact_id: str | None, value: JsonValue = "") -> None:
        """Record a fact changed by an entry, with the added or removed value; None means all facts."""
        marks = self._marks
        if len(marks) == _MOST_MARKS:
            self._lost = marks.popleft()[0]
        marks.append((entry, keyword, fact_id, type(value) is str))

    def since(self, entry: int) -> dict[str, Touched] | None:
        """Return the changes after an entry, by keyword; None if they were discarded."""
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
