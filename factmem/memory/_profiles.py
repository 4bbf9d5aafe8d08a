"""MemoryProfiles: loads profiles from the places of a memory, and writes what changed in them."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from factmem._arguments import kind_of
from factmem.errors import StoredFactError
from factmem.memory._notes import stated, writing_place
from factmem.memory._selection import PlaceSelection
from factmem.memory.contents import MemoryContents
from factmem.models.clock import TimeProvider
from factmem.models.facts import AnyConcept, AnyFact, FactType
from factmem.models.profile import P, Profile, loaded_profile, values_of
from factmem.providers._reader import FactReader
from factmem.providers.base import FactStore

__all__ = ["MemoryProfiles"]


class MemoryProfiles:
    """Loads and saves profiles. The methods behave like those of `AgentMemory`."""

    def __init__(
        self,
        store: FactStore,
        reader: FactReader,
        selection: PlaceSelection,
        contents: MemoryContents,
        clock: TimeProvider,
    ) -> None:
        self._store = store
        self._reader = reader
        self._selection = selection
        self._contents = contents
        self._clock = clock

    async def load(self, profile: type[P]) -> P:
        """Return an instance with the current values."""
        places = self._selection.places()
        facts: dict[str, tuple[AnyFact, ...]] = {}
        unreadable: dict[str, StoredFactError] = {}
        for name, concept in checked_profile(profile).profile_concepts().items():
            resolution = await self._reader.concept(concept, places)
            facts[name] = tuple(resolution.facts)
            if resolution.unreadable:
                unreadable[name] = resolution.unreadable[0].error
        return loaded_profile(profile, facts, unreadable)

    async def save(self, profile: Profile) -> None:
        """Save the fields that were set, in one write."""
        concepts = profile.profile_concepts()
        values = values_of(profile, only_set=True)
        await self._save([(concepts[name], given) for name, given in values.items() if given])

    @asynccontextmanager
    async def edit(self, profile: type[P]) -> AsyncGenerator[P]:
        """Write what changed in a block."""
        me = await self.load(profile)
        before = values_of(me.model_copy(deep=True))
        yield me
        after = values_of(me)
        new: list[tuple[AnyConcept, list[Any]]] = []
        gone: list[tuple[AnyConcept, list[Any]]] = []
        for name, concept in me.profile_concepts().items():
            was, now = before[name], after[name]
            if concept.fact_type is FactType.SINGLE:
                if now and now != was:
                    new.append((concept, now))
                elif not now and me.profile_facts(name):
                    gone.append((concept, was))
            else:
                if added := [value for value in now if value not in was]:
                    new.append((concept, added))
                if removed := [value for value in was if value not in now]:
                    gone.append((concept, removed))
        await self._save(new)
        for concept, values in gone:
            for value in values:
                await self._contents.forget(concept=concept, value=value)

    async def _save(self, found: list[tuple[AnyConcept, list[Any]]]) -> None:
        if found:
            now = self._clock()
            facts = [
                stated(concept, given if concept.fact_type is FactType.MULTIPLE else given[0], now)
                for concept, given in found
            ]
            place = writing_place(self._selection)
            await self._store.save_many(facts, place.subject, place.scope)


def checked_profile(profile: type[P]) -> type[P]:
    """Return a class of `Profile`, or raise `TypeError`."""
    given: object = profile
    if isinstance(given, type) and issubclass(given, Profile):
        return profile
    raise TypeError(
        f"The profile must be a class of Profile, not {kind_of(profile)}: "
        "await memory.current(Traveller)"
    )
