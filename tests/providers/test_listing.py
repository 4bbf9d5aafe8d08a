"""Places listed by pages, without reading them, and limits of their size."""

from pathlib import Path
from typing import Any

import pytest

from factmem import MemoryScope, MemorySubject, NoMemory, Place, UnboundSubjectError
from factmem.errors import PlaceFullError
from factmem.events import MemoryEvents
from factmem.ledger.entries import Entry, stored
from factmem.models.places import Boundary
from factmem.providers._view import view_of
from factmem.providers.conversations import new_turn
from factmem.providers.results import PlaceLimit
from factmem.testing._facts import AGENT, PERSON, USER, languages, theme
from tests.world import KINDS, store_of

OTHER = MemoryScope.Product("other")


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Return a new, empty store."""
    return store_of(request.param, tmp_path)


async def test_every_place_is_in_one_page(store: Any) -> None:
    """Pages may have any size; `places` returns the same ones."""
    assert await store.list_places() == []
    where = [(PERSON.of(f"p{number}"), scope) for number in range(6) for scope in (AGENT, OTHER)]
    for subject, scope in [*where, (USER, AGENT)]:
        await store.save(theme("dark"), subject, scope)
    expected = {info.place.identity for info in await store.places()}

    for limit in (1, 4, 13, 100, None):
        found: list[Place] = []
        while page := await store.list_places(after=found[-1] if found else None, limit=limit):
            assert limit is None or len(page) <= limit
            found += page
        assert len(found) == 13
        assert {place.identity for place in found} == expected


async def test_a_listing_continues_after_an_erased_place(store: Any) -> None:
    """The name of a place determines its position."""
    for number in range(4):
        await store.save(theme("dark"), PERSON.of(f"p{number}"), AGENT)
    first, *rest = await store.list_places()

    await store.erase(first.subject, first.scope)

    assert await store.list_places(after=first) == rest
    assert await store.list_places() == rest


async def test_a_listing_can_be_filtered(store: Any) -> None:
    """It filters by subjects, by scopes, and by both."""
    for subject in (PERSON.of("a"), PERSON.of("b"), MemorySubject("person", "", 1)):
        for scope in (AGENT, OTHER):
            await store.save(theme("dark"), subject, scope)

    assert len(await store.list_places(subjects=[PERSON.of("a")])) == 2
    assert len(await store.list_places(scopes=[OTHER])) == 3
    (only,) = await store.list_places(subjects=[PERSON.of("a")], scopes=[OTHER])
    assert (only.subject.entity, only.scope) == ("a", OTHER)
    assert await store.list_places(subjects=[]) == []
    assert await store.list_places(subjects=[PERSON.of("c")], scopes=[OTHER]) == []


async def test_the_users_of_a_tenant_are_listed(store: Any) -> None:
    """Pages of any size have the entities with these first levels, and no others."""
    entities = [("acme",), ("acme", "a"), ("acme", "b", "c"), ("acme2", "a"), ("a", "acme")]
    for levels in entities:
        for scope in (AGENT, OTHER):
            await store.save(theme("dark"), PERSON.of(*levels), scope)
    await store.save(theme("dark"), MemorySubject("person", "", 1), AGENT)
    tenant = {place.identity for place in await store.list_places(subjects=[PERSON.every("acme")])}

    assert {(each[1], each[3]) for each in tenant} == {
        (scope.name, PERSON.of(*levels).entity)
        for levels in entities[:3]
        for scope in (AGENT, OTHER)
    }
    for limit in (1, 4, 100):
        found: list[Place] = []
        while page := await store.list_places(
            subjects=[PERSON.every("acme")], after=found[-1] if found else None, limit=limit
        ):
            found += page
        assert {place.identity for place in found} == tenant
        assert len(found) == 6
    assert len(await store.list_places(subjects=[PERSON.every("acme", "b")], scopes=[AGENT])) == 1
    assert len(await store.list_places(subjects=[PERSON.every()])) == 10
    assert (
        len(await store.list_places(subjects=[PERSON.every("acme"), PERSON.of("a", "acme")])) == 8
    )
    assert await store.list_places(subjects=[PERSON.every("acm")]) == []
    await store.erase(PERSON.of("acme", "b", "c"), AGENT)
    assert await store.list_places(subjects=[PERSON.every("acme", "b")], scopes=[AGENT]) == []


async def test_a_view_lists_its_places(store: Any) -> None:
    """A view of a tenant, or of some places, shows no others."""
    for levels in (("acme", "a"), ("acme", "b"), ("other", "a")):
        await store.save(theme("dark"), PERSON.of(*levels), AGENT)
    tenant = view_of(store, Boundary().narrowed(subjects=[PERSON.every("acme")]), MemoryEvents())
    two = [Place(AGENT, PERSON.of("other", "a")), Place(AGENT, PERSON.of("acme", "b"))]
    few = view_of(store, Boundary().narrowed(places=two), MemoryEvents())

    assert len(await tenant.list_places()) == 2
    assert len(await tenant.list_places(limit=1)) == 1
    assert await tenant.list_places(subjects=[PERSON.every("other")]) == []
    (first,) = await few.list_places(limit=1)
    (second,) = await few.list_places(after=first)
    assert {first.identity, second.identity} == {place.identity for place in two}
    (only,) = await few.list_places(subjects=[PERSON.every("acme")])
    assert only.subject.levels == ("acme", "b")


async def test_wrong_arguments_raise(store: Any) -> None:
    """Nothing is read."""
    with pytest.raises(ValueError, match="limit=1000"):
        await store.list_places(limit=0)
    with pytest.raises(TypeError, match="limit"):
        await store.list_places(limit="10")
    with pytest.raises(TypeError, match="after"):
        await store.list_places(after="p")
    with pytest.raises(UnboundSubjectError):
        await store.list_places(subjects=[PERSON])


async def test_no_memory_lists_nothing() -> None:
    """It has no places."""
    assert await NoMemory().list_places() == []


each_kind = pytest.mark.parametrize("kind", KINDS)


@each_kind
async def test_a_full_place_refuses_more_values(kind: str, tmp_path: Path) -> None:
    """It can confirm, replace and forget; other places have their own limit."""
    async with store_of(kind, tmp_path, limit=PlaceLimit(values=3)) as store:
        await store.save_many([theme("dark"), languages("java", "go")], USER, AGENT)

        with pytest.raises(PlaceFullError, match="may have 3 values and would have 4") as error:
            await store.save(languages("secret"), USER, AGENT)
        assert "secret" not in str(error.value)
        with pytest.raises(PlaceFullError):
            await store.save_many([languages("secret")], USER, AGENT)
        with pytest.raises(PlaceFullError):
            await store.learn([languages("secret")], USER, AGENT)
        entry: Entry = {"at": "2020-01-01T00:00:00.000000Z", "facts": [stored(languages("c"))]}
        with pytest.raises(PlaceFullError):
            await store.replay([entry], USER, AGENT)
        with pytest.raises(PlaceFullError):
            await store.amend(lambda _, __: [entry], USER, AGENT)

        await store.save(languages("java"), USER, AGENT)
        await store.learn([theme("blue")], USER, AGENT)
        await store.save(theme("light"), USER, AGENT)
        await store.save(languages("c", "d"), PERSON.of("alice"), AGENT)
        assert len(await store.history(languages("x").concept, USER, AGENT)) == 2
        await store.forget(USER, AGENT, concept=languages("x").concept, value="go")
        await store.save(languages("c"), USER, AGENT)


@each_kind
async def test_a_full_place_accepts_no_more_bytes(kind: str, tmp_path: Path) -> None:
    """The history counts; forgetting is always possible."""
    async with store_of(kind, tmp_path, limit=PlaceLimit(bytes=7000)) as store:
        many = [languages("x" * 2400), languages("y" * 2400)]
        await store.save(many[0], USER, AGENT)
        await store.save(many[1], USER, AGENT)
        with pytest.raises(PlaceFullError, match="7000 bytes"):
            await store.save(languages("z" * 2400), USER, AGENT)
        with pytest.raises(PlaceFullError, match="7000 bytes"):
            await store.learn([languages("z" * 2400)], USER, AGENT)
        (info,) = await store.places()

        assert 4800 < info.bytes <= 8000  # the last entry counts without its framing and padding
        assert await store.forget(USER, AGENT, concept=many[0].concept) == 2


@pytest.mark.parametrize("limits", [{}, {"values": 0}, {"bytes": -1}])
def test_a_limit_must_be_positive(limits: dict[str, int]) -> None:
    """The error shows a correct one."""
    with pytest.raises(ValueError, match="PlaceLimit\\(values"):
        PlaceLimit(**limits)


@each_kind
async def test_messages_count_in_a_full_place(kind: str, tmp_path: Path) -> None:
    """Facts and messages share the room of a place; removed messages free it."""
    async with store_of(kind, tmp_path, limit=PlaceLimit(bytes=7000)) as store:
        turns = [new_turn({"role": "user", "content": "x" * 2400}, None, f"{n}") for n in range(3)]
        for turn in turns[:2]:
            await store.conversations.append([turn], "chat", Place(AGENT, USER))

        with pytest.raises(PlaceFullError, match="may use 7000 bytes"):
            await store.conversations.append([turns[2]], "other", Place(AGENT, USER))
        with pytest.raises(PlaceFullError):
            await store.save(languages("x" * 2400), USER, AGENT)
        await store.conversations.append([turns[2]], "chat", Place(AGENT, PERSON.of("alice")))
        assert len(await store.conversations.turns("chat", Place(AGENT, USER))) == 2
        await store.conversations.remove("chat", Place(AGENT, USER), ids=["0"])
        await store.conversations.append([turns[2]], "chat", Place(AGENT, USER))
