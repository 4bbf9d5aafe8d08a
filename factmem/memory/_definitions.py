"""Definitions: tells a store the concepts of an application once, and compares them."""

from contextlib import suppress

from factmem.errors import StorageError
from factmem.events import MemoryOperation
from factmem.memory._parts import MemoryParts
from factmem.models._definition_changes import compared
from factmem.models.facts import ConceptDefinition
from factmem.providers.store import is_complete


async def tell_definitions(parts: MemoryParts) -> None:
    """Tell the store the concepts, unless that is done; an event names those that differ.

    If the store fails, only the event says so: the comparison is no condition of any other call.
    """
    declared, told = parts.settings.concepts, parts.settings.told
    is_read_only = parts.selection.boundary.is_read_only
    if told >= set(declared) or is_read_only or not is_complete(parts.provider):
        return
    told.update(declared)
    with suppress(StorageError):
        async with parts.events.operation(MemoryOperation.DEFINE) as operation:
            await parts.provider.define(declared.values())
            if parts.events:
                found = await compared_definitions(parts)
                operation.count = len(found)
                operation.concepts = tuple(each.keyword for each in found if each.differs)


async def compared_definitions(parts: MemoryParts) -> list[ConceptDefinition]:
    """Return the definitions in the store, each with how the declared concept differs."""
    known = {each.keyword: each for each in await parts.provider.concepts()}
    return compared(known, parts.settings.concepts)
