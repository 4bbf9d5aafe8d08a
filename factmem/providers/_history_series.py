"""The histories of a place that is asked for one concept after the other."""

from typing import Any, NamedTuple

from anyio.to_thread import run_sync

from factmem.ledger.history import Histories, History
from factmem.models.facts import Concept
from factmem.models.places import Identity

_FEW = 1000
"""The most entries of a history that is made on the event loop, about 4 ms."""


class HistorySeries(NamedTuple):
    """The place whose history was asked for last."""

    identity: Identity | None = None
    version: str = ""
    histories: Histories | None = None
    """Read when a second history of the place is asked for."""

    async def of(self, concept: Concept[Any, Any]) -> History:
        """Return the history of a concept, of a series that was read."""
        assert self.histories is not None  # noqa: S101 - see above
        if self.histories.size(concept) <= _FEW:
            return self.histories.of(concept)
        return await run_sync(self.histories.of, concept)
