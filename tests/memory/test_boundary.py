"""The boundary of a view: stores read only the places inside."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factmem.errors import CorruptJournalError
from factmem.models.places import UNBOUNDED, MemoryScope, MemorySubject, Place
from factmem.providers.local_file import LocalFileMemoryProvider
from tests.memory.test_view_paths import SCOPES, SUBJECTS
from tests.world import AGENT, ALICE, PRODUCT, THEME, USER, memory_of, theme

PLACES = st.builds(Place, SCOPES, SUBJECTS)


@given(
    scopes=st.none() | st.lists(SCOPES, max_size=3),
    subjects=st.none() | st.lists(SUBJECTS, max_size=3),
    places=st.none() | st.lists(PLACES, max_size=4),
    asked=st.lists(PLACES, max_size=8),
)
def test_named_places_are_exactly_those_inside(
    scopes: list[MemoryScope] | None,
    subjects: list[MemorySubject] | None,
    places: list[Place] | None,
    asked: list[Place],
) -> None:
    """A call with names reads only these places, and each once."""
    boundary = UNBOUNDED.narrowed(scopes=scopes, subjects=subjects, places=places)
    all_inside = boundary.identities(most=9)

    for place in [*asked, *(places or [])]:
        is_inside = boundary.allows(place.identity)
        assert all_inside is None or (place.identity in all_inside) is is_inside
    if places is not None or None not in (scopes, subjects):
        assert all_inside is not None
        assert len(all_inside) == len(set(all_inside))
        assert all(map(boundary.allows, all_inside))


def test_too_many_places_are_not_enumerated() -> None:
    """Neither are unlimited ones."""
    scopes = [MemoryScope.Agent(str(n)) for n in range(10)]
    subjects = [USER.of(str(n)) for n in range(10)]
    places = [Place(AGENT, subject) for subject in subjects]

    assert UNBOUNDED.identities(most=1000) is None
    assert UNBOUNDED.narrowed(scopes=scopes).identities(most=1000) is None
    assert UNBOUNDED.narrowed(scopes=scopes, subjects=subjects).identities(most=99) is None
    assert (
        len(UNBOUNDED.narrowed(scopes=scopes, subjects=subjects).identities(most=100) or ()) == 100
    )
    assert UNBOUNDED.narrowed(places=places).identities(most=9) is None


def _damage(root: Path) -> None:
    bob = 'SELECT place FROM places WHERE CAST(names AS TEXT) LIKE \'["agent"%"bob"]\''
    with closing(sqlite3.connect(root / "facts.db")) as database, database:
        statement = f"UPDATE entries SET line = x'78' WHERE number = 1 AND place = ({bob})"
        assert database.execute(statement).rowcount == 1


@pytest.fixture
async def damaged(tmp_path: Path) -> AsyncIterator[LocalFileMemoryProvider]:
    """A store in which Alice's facts are intact and a place of Bob's is damaged."""
    async with LocalFileMemoryProvider(tmp_path) as store:
        for subject in (ALICE, USER.of("bob")):
            for scope in (AGENT, PRODUCT):
                await store.save(theme("dark"), subject, scope)
                await store.save(theme("light"), subject, scope)
    _damage(tmp_path)
    async with LocalFileMemoryProvider(tmp_path) as store:
        yield store


async def test_a_view_does_not_read_other_places(damaged: LocalFileMemoryProvider) -> None:
    """A damaged place of another customer is an error only where it is read."""
    memory = memory_of(damaged)

    for view in (
        memory.view(subjects=[ALICE]),
        memory.view(subjects=[ALICE], scopes=[AGENT, PRODUCT]),
        memory.view(places=[Place(AGENT, ALICE), Place(PRODUCT, USER.of("bob"))]),
    ):
        assert (await view.contents.tree()).count == 2
        assert [(each.keyword, each.count) for each in await view.contents.concepts()] == [
            (THEME.keyword, 2)
        ]
        assert len(await view.contents.records()) == 2
        assert (await view.contents.reset()).count == 2

    for asked in (memory, memory.view(scopes=[AGENT]), memory.view(subjects=[USER.of("bob")])):
        with pytest.raises(CorruptJournalError):
            await asked.contents.tree()
