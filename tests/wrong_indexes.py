"""Stores that return wrong changes, or keep indexes wrongly, with one fault each.

Each comes with the tests of the contracts that must notice.
"""

from dataclasses import replace
from itertools import count
from typing import Any

import anyio.lowlevel

from factmem.errors import StoredFactError
from factmem.models.facts import Concept
from factmem.models.when import TimeProvider
from factmem.providers.in_memory import InMemoryProvider
from factmem.providers.results import PlaceChanges
from tests.wrong_providers import shelves_of

__all__ = ["WRONG_INDEXES"]


class TakesNoTimeForAChange(InMemoryProvider):
    """Has a version that only writing changes: what has expired goes on to be found."""

    async def version(self, subject: Any, scope: Any) -> str:
        return (await super().version(subject, scope)).rsplit(".", 2)[0]


class CountsEntries(InMemoryProvider):
    """Takes a place for unchanged when it has as many entries as before."""

    async def version(self, subject: Any, scope: Any) -> str:
        return str(len(await self.entries(subject, scope)))


class CountsQuestions(InMemoryProvider):
    """Returns another version at each call."""

    def __init__(self, *, clock: TimeProvider) -> None:
        super().__init__(clock=clock)
        self._numbers = count()

    async def version(self, subject: Any, scope: Any) -> str:
        return f"{await super().version(subject, scope)}.{next(self._numbers)}"


class VersionsTheWholeStore(InMemoryProvider):
    """Has one version for all of its places."""

    async def version(self, subject: Any, scope: Any) -> str:
        await super().version(subject, scope)
        shelves = shelves_of(self)
        return repr(
            [
                shelf.ledger.version(shelves.now(shelf))
                for _, shelf in sorted(shelves.by_place.items())
            ]
        )


class _Apart(InMemoryProvider):
    """Keeps its indexes apart from its places, by what `_name` says."""

    def __init__(self, *, clock: TimeProvider) -> None:
        super().__init__(clock=clock)
        self._indexes: dict[Any, bytes] = {}

    def _name(self, subject: Any, scope: Any) -> Any:
        return scope, subject.name, subject.entity

    async def read_index(self, subject: Any, scope: Any) -> bytes | None:
        await super().read_index(subject, scope)
        return self._indexes.get(self._name(subject, scope))

    async def write_index(self, subject: Any, scope: Any, index: bytes, *, version: str) -> bool:
        is_written = await super().write_index(subject, scope, index, version=version)
        if is_written:
            self._indexes[self._name(subject, scope)] = index
        return is_written

    async def erase(self, subject: Any, scope: Any, **options: Any) -> Any:
        receipt = await super().erase(subject, scope, **options)
        self._indexes.pop(self._name(subject, scope), None)
        return receipt

    async def forget(self, subject: Any, scope: Any, **conditions: Any) -> int:
        forgotten = await super().forget(subject, scope, **conditions)
        if conditions.get("purge"):
            self._indexes.pop(self._name(subject, scope), None)
        return forgotten


class KeepsIndexesOfThePurged(_Apart):
    """Purges the facts, and not what was made of them."""

    async def forget(self, subject: Any, scope: Any, **conditions: Any) -> int:
        return await InMemoryProvider.forget(self, subject, scope, **conditions)


class MixesIndexes(_Apart):
    """Stores an index under names without case and type."""

    def _name(self, subject: Any, scope: Any) -> Any:
        return scope.name.casefold(), subject.name, (subject.entity or "").casefold()


class WritesAnyIndex(InMemoryProvider):
    """Does not ask of when an index is."""

    async def write_index(self, subject: Any, scope: Any, index: bytes, *, version: str) -> bool:
        now = await self.version(subject, scope)
        return await super().write_index(subject, scope, index, version=now)


class WritesInParts(InMemoryProvider):
    """Shows half of an index before there is the other half."""

    async def write_index(self, subject: Any, scope: Any, index: bytes, *, version: str) -> bool:
        half = index[: len(index) // 2]
        is_written = await super().write_index(subject, scope, half, version=version)
        await anyio.lowlevel.checkpoint()
        return is_written and await super().write_index(subject, scope, index, version=version)


class TakesIndexesForText(InMemoryProvider):
    """Writes what it can read of the bytes."""

    async def write_index(self, subject: Any, scope: Any, index: bytes, *, version: str) -> bool:
        text = index.decode(errors="replace").strip()
        return await super().write_index(subject, scope, text.encode(), version=version)


class _Telling(InMemoryProvider):
    """Tells something else than what has changed."""

    async def changes(self, subject: Any, scope: Any, **question: Any) -> PlaceChanges | None:
        changes = await super().changes(subject, scope, **question)
        return None if changes is None else self._spoilt(changes, question["since"])

    def _spoilt(self, changes: PlaceChanges, since: str) -> PlaceChanges:
        raise NotImplementedError


class TellsNoForgetting(_Telling):
    """Leaves out of what nothing is left."""

    def _spoilt(self, changes: PlaceChanges, since: str) -> PlaceChanges:
        return replace(changes, facts={key: found for key, found in changes.facts.items() if found})


class TellsTheVersionAfterwards(InMemoryProvider):
    """Asks for the version once it has gathered what belongs to an earlier one."""

    async def changes(self, subject: Any, scope: Any, **question: Any) -> PlaceChanges | None:
        changes = await super().changes(subject, scope, **question)
        if changes is None:
            return None
        await anyio.lowlevel.checkpoint()
        return replace(changes, version=await self.version(subject, scope))


class TellsPlainValues(InMemoryProvider):
    """Gives changes in no other type than JSON's."""

    async def changes(
        self, subject: Any, scope: Any, *, concepts: Any = (), **question: Any
    ) -> PlaceChanges | None:
        return await super().changes(subject, scope, **question)


class TellsWhatDoesNotFit(InMemoryProvider):
    """Writes the value into its error."""

    async def changes(
        self, subject: Any, scope: Any, *, concepts: Any = (), **question: Any
    ) -> PlaceChanges | None:
        named: list[Concept[Any, Any]] = list(concepts)
        try:
            return await super().changes(subject, scope, concepts=named, **question)
        except StoredFactError as exc:
            plain = await super().changes(subject, scope, **question)
            raise StoredFactError(f"{exc}: {plain}") from None


class NeverTells(InMemoryProvider):
    """Has the method, and nothing to say."""

    async def changes(self, subject: Any, scope: Any, **question: Any) -> PlaceChanges | None:
        await super().changes(subject, scope, **question)
        return None


_LEADS = "test_a_change_leads_to_what_is_there"
_FOLLOWS = "test_following_gives_what_reading_gives"

WRONG_INDEXES: dict[type[InMemoryProvider], set[str]] = {
    TakesNoTimeForAChange: {
        "test_a_change_is_another_version",
        "test_one_version_shows_one_content",
    },
    CountsEntries: {
        "test_a_place_made_again_has_another_version",
        "test_one_version_shows_one_content",
    },
    CountsQuestions: {
        "test_reading_changes_no_version",
        "test_what_changes_nothing_changes_no_version",
    },
    VersionsTheWholeStore: {"test_other_places_change_no_version"},
    KeepsIndexesOfThePurged: {
        "test_what_is_removed_leaves_no_index",
        "test_purging_what_was_forgotten_before_leaves_no_index",
        "test_a_purge_meanwhile_leaves_no_index",
    },
    MixesIndexes: {"test_each_place_has_its_own_index"},
    WritesAnyIndex: {
        "test_an_index_of_what_was_before_is_refused",
        "test_an_index_of_no_version_is_refused",
        "test_a_purge_meanwhile_leaves_no_index",
    },
    WritesInParts: {
        "test_concurrent_writers_leave_one_index",
        "test_a_cancelled_write_is_whole_or_not_there",
    },
    TakesIndexesForText: {"test_an_index_comes_back"},
    TellsNoForgetting: {_LEADS, _FOLLOWS},
    TellsTheVersionAfterwards: {"test_changes_while_others_save_lose_none"},
    TellsPlainValues: {"test_changed_values_have_the_types_of_their_concepts", _FOLLOWS},
    TellsWhatDoesNotFit: {"test_a_changed_value_that_does_not_fit_is_an_error"},
    NeverTells: {"test_a_save_is_reported", "test_changes_go_on_from_changes"},
}
"""Each wrong store, and tests that it fails."""
