"""What callers hand to a store, checked before anything is read or written."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from threading import Lock
from typing import Any

from factmem._arguments import listed
from factmem.ledger.entries import (
    StoredFact,
    moment,
    stamp,
    stored,
)
from factmem.ledger.ledger import Condition, Ledger
from factmem.models.checked import checked_concept
from factmem.models.clock import TimeProvider, system_clock, utc
from factmem.models.facts import (
    AnyFact,
    Concept,
    MultipleFacts,
    SingleFact,
)
from factmem.models.names import checked_name
from factmem.models.places import Identity, Place
from factmem.models.sources import FactSource
from factmem.models.values import canonical
from factmem.providers.base import PlaceInfo
from factmem.providers.indexed import PlaceChanges


def stored_facts(facts: Iterable[AnyFact]) -> list[StoredFact]:
    """Return facts as an entry holds them.

    Raises:
        TypeError: One of them is no fact.
        ValueError: A value would not come back equal from its JSON.
    """
    if isinstance(facts, SingleFact | MultipleFacts):
        raise TypeError("save_many takes several facts: give a list of them, or call save")
    given = listed(facts, "save_many takes a list of facts", "[SingleFact(concept, value)]")
    for fact in given:
        if not isinstance(fact, SingleFact | MultipleFacts):
            raise TypeError(
                f"A store keeps facts, not {type(fact).__name__}: wrap the value, as in "
                f"SingleFact(concept, value)"
            )
    return [stored(fact) for fact in given]


def check_span(keep_history: timedelta) -> None:
    """Make sure that history can be kept for so long.

    Raises:
        TypeError: It is no timedelta.
        ValueError: It is negative.
    """
    if not isinstance(keep_history, timedelta):
        raise TypeError(
            f"keep_history is a timedelta, not {type(keep_history).__name__}: "
            f"keep_history=timedelta(days=90)"
        )
    if keep_history < timedelta(0):
        raise ValueError("keep_history is how long history is kept: give no negative span")


def stamp_of(as_of: datetime | None) -> str | None:
    """Return the moment that a read goes back to; None stays None.

    Raises:
        ValueError: It is naive.
    """
    return None if as_of is None else stamp(utc(as_of, "moment as_of"))


def condition_of(
    now: str,
    *,
    concept: Concept[Any, Any] | None,
    value: object,
    fact_id: str | None,
    source: FactSource | None,
    older_than: datetime | timedelta | None,
) -> Condition:
    """Return what the arguments of `forget` ask for; a `value` of `...` is none.

    Raises:
        TypeError: An argument is of the wrong type.
        ValueError: No condition is given, `value` comes without `concept` or does not fit it, or
            `older_than` is naive or lies in the future.
    """
    has_value = value is not ...
    if concept is None and has_value:
        raise ValueError("A value to forget needs its concept: forget(..., concept=..., value=...)")
    if concept is None and fact_id is None and source is None and older_than is None:
        raise ValueError(
            "Say what to forget: a concept, value, fact_id, source or older_than. To remove the "
            "whole place with its history, call erase"
        )
    if source is not None and not isinstance(source, FactSource):
        raise TypeError(f"A source to forget is a FactSource, not {type(source).__name__}")
    keyword = key = None
    if concept is not None:
        keyword = checked_concept(concept).keyword
        if has_value:
            key = canonical(concept.codec.dump(concept.codec.check(value, keyword), keyword))
    return Condition(
        keyword,
        key,
        None if fact_id is None else checked_name(fact_id, "fact_id"),
        source,
        None if older_than is None else _limit(older_than, now),
    )


def _limit(older_than: datetime | timedelta, now: str) -> str:
    if not isinstance(older_than, timedelta | datetime):
        raise TypeError(
            f"older_than is a timedelta or a datetime, not {type(older_than).__name__}: "
            f"older_than=timedelta(days=90)"
        )
    if isinstance(older_than, datetime):
        return stamp(utc(older_than, "moment older_than"))
    if older_than < timedelta(0):
        raise ValueError("older_than is how long ago: give a timedelta that is not negative")
    try:
        return stamp(moment(now) - older_than)
    except OverflowError:
        raise ValueError("older_than reaches back beyond the year 1: give a shorter span") from None


class StoreClock:
    """A clock that does not go back, over one that may. Safe for threads.

    What has expired once stays expired: a reading is at least the one before it, and at least the
    time of the last entry of the place that it is for. What is recorded carries the time told at
    that moment, so that a clock which was wrong while it was only read spoils nothing for good.
    """

    def __init__(self, clock: TimeProvider = system_clock) -> None:
        if not callable(clock):
            raise TypeError(
                f"A clock is a function that tells the time, not {type(clock).__name__}: "
                f"clock=lambda: datetime.now(UTC)"
            )
        self._clock = clock
        self._lock = Lock()
        self._latest = ""

    def now(self, recorded_at: str = "") -> str:
        """Return the time to read a place by, whose last entry was recorded at `recorded_at`.

        Raises:
            ValueError: The clock gave a naive datetime.
        """
        told = self.told()
        with self._lock:
            self._latest = max(told, self._latest)
            return max(self._latest, recorded_at)

    def told(self, recorded_at: str = "") -> str:
        """Return the time to record something at, no earlier than `recorded_at`.

        Raises:
            ValueError: The clock gave a naive datetime.
        """
        return max(stamp(utc(self._clock(), "time told by the clock")), recorded_at)

    def start_in_child(self) -> None:
        """Take a new lock in a forked child, as the parent's may be held by no thread here."""
        self._lock = Lock()


def place_info(identity: Identity, ledger: Ledger, size: int, now: str) -> PlaceInfo:
    """Return what a place holds at `now`, a stamp, in `size` bytes."""
    place = Place.of_identity(identity)
    confirmed = ledger.confirmations(now)
    return PlaceInfo(
        scope=place.scope,
        subject=place.subject,
        count=len(confirmed),
        bytes=size,
        oldest=moment(min(confirmed)) if confirmed else None,
        newest=moment(max(confirmed)) if confirmed else None,
    )


def changes_of(
    ledger: Ledger, since: str, concepts: Iterable[Concept[Any, Any]], now: str
) -> PlaceChanges | None:
    """Return what has changed since a version; None where the ledger cannot tell."""
    changes = ledger.changes(since, concepts, now)
    return None if changes is None else PlaceChanges(ledger.version(now), changes)


def in_order(found: Iterable[PlaceInfo]) -> list[PlaceInfo]:
    """Return places by identity; a subject without entity comes before its namesakes with one."""
    return sorted(found, key=_order)


def _order(info: PlaceInfo) -> tuple[str, str, str, str]:
    kind, scope, subject, entity = info.place.identity
    return kind, scope, subject, entity or ""
