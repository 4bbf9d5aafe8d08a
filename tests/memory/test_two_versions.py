"""Two services with different definitions of the same concepts, on every kind of store."""

from pathlib import Path

import pytest

from factmem.errors import PlaceFullError
from factmem.providers.in_memory import InMemoryProvider
from factmem.providers.results import PlaceLimit
from tests.storms.two_versions import KINDS, USERS, New, Old, Service, run, stores


@pytest.mark.parametrize("kind", KINDS)
async def test_two_versions_hide_nothing_from_each_other(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Renamed, retyped, one value to many, a field removed."""
    is_on_server = kind.startswith("postgres")
    dsn = request.getfixturevalue("cluster").dsn() if is_on_server else ""
    old, new = stores(kind, tmp_path / tmp_path.name / kind, dsn)
    async with old, new:
        found = await run(old, new, writes=24)

    assert not found.faults
    assert found.reads > 50
    assert found.unreadable > 0


async def test_an_older_version_changes_only_the_value_that_it_sees() -> None:
    """By updates, forgettings and edits; the limit of a place counts what the newer one saved."""
    store = InMemoryProvider(limit=PlaceLimit(values=5))
    old, new = (Service(store, profile).of(USERS[0]) for profile in (Old, New))
    await new.save(New(pet=["Miso", "Tom", "Rex"]))
    (seen,) = [fact for fact in await old.current() if fact.concept.keyword == "pet"]
    assert seen.values == ("Rex",)

    await old.contents.update(seen.id, value="Max")
    assert (await new.current(New)).pet == ["Miso", "Tom", "Max"]
    async with old.edit(Old) as me:
        me.pet = "Ant"
    assert (await new.current(New)).pet == ["Miso", "Tom", "Max", "Ant"]
    await old.contents.forget(concept=Old.profile_concepts()["pet"], value="Ant")
    assert (await old.current(Old)).pet == "Max"
    await old.save(Old(pet="Lux", plan="gold"))
    with pytest.raises(PlaceFullError, match="would have 6"):
        await old.save(Old(pet="Kim"))
    assert (await new.current(New)).pet == ["Miso", "Tom", "Max", "Lux"]
