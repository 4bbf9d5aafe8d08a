"""Ledgers without expired values and old history."""

from collections.abc import Sequence

from factmem.ledger.entries import Entry
from factmem.ledger.removal import Rest
from factmem.ledger.trace import Trace

__all__ = ["tidied"]


def tidied(entries: Sequence[Entry], now: str, *, expired: bool, cutoff: str) -> list[Entry | None]:
    """Return a ledger's entries without what was over at `cutoff`, and what expired before `now`.

    Returns:
        As `compacted` does. An empty `cutoff` keeps what was replaced and forgotten.
    """
    trace = Trace(entries)
    now = max(now, trace.recorded_at)
    gone = {
        life
        for life in trace.lives
        if life.is_dead(cutoff) or (expired and life.has_expired and life.is_dead(now))
    }
    return Rest(trace, gone, cutoff=cutoff).of(entries)
