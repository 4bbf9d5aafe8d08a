"""The review of a memory without await.

Written by tests/sync/generate.py: change the async class.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

from factmem.ledger.history import FactChange
from factmem.memory.review import WEEK, FactDifference, InboxItem, MemoryReview, Reviewed
from factmem.models.places import MemorySubject
from factmem.sync._wrapping import Wraps


class ReviewSync(Wraps[MemoryReview]):
    """What a memory learnt, and decisions about it, for code that does not use `await`.

    Each method is that of `MemoryReview` with its name, which says more.
    """

    def inbox(
        self,
        *,
        since: datetime | timedelta | None = WEEK,
        subjects: Iterable[MemorySubject] | None = None,
        limit: int | None = None,
    ) -> list[InboxItem]:
        """Return what a person may want to decide, each once: contradictions first, then newest."""
        return self._portal.call(self._wrapped.inbox, since=since, subjects=subjects, limit=limit)

    def accept(self, fact: Reviewed, *, if_unchanged: Reviewed | str | None = None) -> str:
        """Confirm an item of the inbox or a current fact, and return the id of the change."""
        return self._portal.call(self._wrapped.accept, fact, if_unchanged=if_unchanged)

    def correct(
        self, fact: Reviewed, value: object, *, if_unchanged: Reviewed | str | None = None
    ) -> str:
        """Replace the value of a fact by a confirmed one, and return the id of the change."""
        return self._portal.call(self._wrapped.correct, fact, value, if_unchanged=if_unchanged)

    def reject(self, fact: Reviewed, *, if_unchanged: Reviewed | str | None = None) -> str:
        """Forget a current fact or reject an item of the inbox; return the id of the change."""
        return self._portal.call(self._wrapped.reject, fact, if_unchanged=if_unchanged)

    def changes(
        self,
        *,
        since: datetime | timedelta | None = None,
        until: datetime | timedelta | None = None,
        actor: str | None = None,
        subjects: Iterable[MemorySubject] | None = None,
        limit: int | None = None,
    ) -> list[FactChange]:
        """Return what was added, replaced, confirmed, proposed and forgotten, newest first."""
        return self._portal.call(
            self._wrapped.changes,
            since=since,
            until=until,
            actor=actor,
            subjects=subjects,
            limit=limit,
        )

    def diff(
        self,
        then: datetime | timedelta,
        now: datetime | timedelta | None = None,
        *,
        subjects: Iterable[MemorySubject] | None = None,
    ) -> list[FactDifference]:
        """Return the concepts whose values or states differ between two times, place by place."""
        return self._portal.call(self._wrapped.diff, then, now, subjects=subjects)

    def undo(self, change_id: str) -> str:
        """Undo a change of any time, and return the id of the change that does so."""
        return self._portal.call(self._wrapped.undo, change_id)
