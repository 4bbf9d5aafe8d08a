"""PageDesk: what the page reads in a store, without its display."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import zip_longest
from typing import Any

from anyio.to_thread import run_sync

from factmem._cli.decisions import Desk
from factmem._cli.readings import Reading, Row, value_words
from factmem.errors import StorageError
from factmem.ledger.history import FactChange
from factmem.models._values import canonical
from factmem.models.facts import FactSource
from factmem.models.places import Place
from factmem.models.when import stamp

_AROUND = 2
"""The messages that are shown before and after the one with the quote."""


@dataclass(frozen=True, slots=True)
class Line:
    """A message of a chat; `quoted` is the part that states the fact."""

    speaker: str
    before: str
    quoted: str = ""
    after: str = ""


def digest(value: Any) -> str:
    """Return a short digest of a value, by which a form notices that another one replaced it."""
    return sha256(repr(canonical(value)).encode()).hexdigest()[:16]


class PageDesk(Desk):
    """A desk with the reads of the page."""

    async def lines(self, row: Row) -> list[Line]:
        """Return the messages around the one that states a value, as far as they are stored."""
        source = row.fact.source
        if source is None:
            return []
        found: list[Line] = []
        if source.conversation is not None and source.message is not None:
            found = await self._stored_lines(row.place, source.conversation, source.message, source)
        if not any(line.quoted for line in found) and source.quote:
            before = [Line("before", source.before)] if source.before else []
            found = [*before, Line(source.kind.value, "", source.quote)]
        return found

    async def _stored_lines(
        self, place: Place, conversation: str, message: int, source: FactSource
    ) -> list[Line]:
        first, last = message + _AROUND + 1, 2 * _AROUND + 1
        try:
            kept = self.store.conversations
        except StorageError:  # this store keeps no conversations
            return []
        found: list[Line] = []
        for turn in await kept.turns(conversation, place, before=first, last=last):
            quote = source.quote if turn.number == message else None
            parts = turn.text.partition(quote) if quote else (turn.text, "", "")
            if turn.text:
                found.append(Line(turn.name or turn.role, *parts))
        return found

    async def changes(
        self, place: Place | None, actor: str | None, *, skip: int, most: int
    ) -> list[FactChange]:
        """Return changes of a place or of the store, by an actor or by all, the newest first.

        Only the places that changed last are read, as many as are needed.
        """
        last = self.recent.changed_last(actor) if place is None else [("", place)]
        found: list[FactChange] = []
        for at, each in last:
            found.sort(key=lambda change: change.at, reverse=True)
            if len(found) >= skip + most and stamp(found[skip + most - 1].at) >= at:
                break
            entries = await self.store.entries(each.subject, each.scope)  # none if it was erased
            made = await run_sync(getattr, Reading(each, entries), "changes")
            found += [change for change in made if actor is None or change.actor == actor]
        found.sort(key=lambda change: change.at, reverse=True)
        return found[skip : skip + most]


def compared(before: Sequence[Row], after: Sequence[Row]) -> Iterator[tuple[str, str, str, str]]:
    """Yield for each difference the keyword, the sign, the old and the new value."""
    then, now = _by_keyword(before), _by_keyword(after)
    for keyword in sorted(then.keys() | now.keys()):
        gone = [each for each in then.get(keyword, ()) if each not in now.get(keyword, ())]
        new = [each for each in now.get(keyword, ()) if each not in then.get(keyword, ())]
        for old, fresh in zip_longest(gone, new, fillvalue=""):
            sign = "changed" if old and fresh else "added" if fresh else "removed"
            yield keyword, sign, old, fresh


def _by_keyword(rows: Sequence[Row]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for row in rows:
        found.setdefault(row.fact.concept.keyword, []).append(value_words([row.value]))
    return found
