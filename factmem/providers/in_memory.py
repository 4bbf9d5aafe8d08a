"""A store in memory, for tests and short-lived agents: an SQLite database without a file."""

from typing import Any

from factmem.models.when import StoreClock, TimeProvider, system_clock
from factmem.providers.conversation_store import ConversationStore
from factmem.providers.results import PlaceLimit
from factmem.providers.store import FactStore

__all__ = ["InMemoryProvider"]


class InMemoryProvider(FactStore):
    """A `FactStore` in memory. Its facts are lost with the instance.

    Safe for any number of tasks and threads, each with its own event loop. Every call is one
    checkpoint followed by one uninterrupted step, so a save that is cancelled at the checkpoint is
    not stored at all. The size of a place is that of its entries, `erase` has no key to destroy,
    and the function passed to `amend` runs on the event loop.

    Args:
        clock: Returns the time, as an aware datetime; the system clock by default.
        limit: The limit of each place; a save beyond it raises `PlaceFullError`.
    """

    def __init__(
        self, *, clock: TimeProvider = system_clock, limit: PlaceLimit | None = None
    ) -> None:
        # Here, as a memory over another store needs no database.
        from factmem.providers._sql.conversations import StoredConversations
        from factmem.providers._sql.stored_places import StoredPlaces
        from factmem.providers._sql.stores import Opening
        from factmem.providers._sqlite.database import MemoryDatabase

        database: Any = MemoryDatabase()  # pyright reads aliased generic methods as other ones
        places = StoredPlaces(Opening("default", None, database), StoreClock(clock))
        super().__init__(places, limit)
        self._conversations = ConversationStore(
            StoredConversations(places), places, self._enter_place, limit
        )
