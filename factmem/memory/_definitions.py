"""MemoryDefinitions: tells a store the concepts of an application, and compares definitions."""

from collections.abc import Mapping
from contextlib import suppress

from factmem.errors import StorageError
from factmem.events import MemoryEvents, MemoryOperation
from factmem.models._definition_changes import compared
from factmem.models.concepts import ConceptDefinition
from factmem.models.facts import AnyConcept
from factmem.providers.base import FactStore, is_complete

__all__ = ["MemoryDefinitions"]


class MemoryDefinitions:
    """Tells a store the concepts of an application once."""

    def __init__(
        self,
        store: FactStore,
        declared: Mapping[str, AnyConcept],
        told: set[str],
        events: MemoryEvents,
    ) -> None:
        self._store = store
        self._declared = declared
        self._told = told
        self._events = events

    async def tell(self, *, is_read_only: bool) -> None:
        """Tell the store the concepts, unless that is done; an event names those that differ.

        If the store fails, only the event says so: the comparison is no condition of any other call.
        """
        is_told = self._told >= set(self._declared)
        if is_told or is_read_only or not is_complete(self._store):
            return
        self._told.update(self._declared)
        with suppress(StorageError):
            async with self._events.operation(MemoryOperation.DEFINE) as operation:
                await self._store.define(self._declared.values())
                if self._events:
                    found = await self.compared()
                    operation.count = len(found)
                    operation.concepts = tuple(each.keyword for each in found if each.differs)

    async def compared(self) -> list[ConceptDefinition]:
        """Return the definitions in the store, each with how the declared concept differs."""
        known = {each.keyword: each for each in await self._store.concepts()}
        return compared(known, self._declared)
