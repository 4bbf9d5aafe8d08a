"""Limits for the size of a place, in every store."""

from pathlib import Path

import pytest

from factmem.errors import PlaceFullError
from factmem.ledger.entries import Entry, stored
from factmem.models.places import Place
from factmem.providers.conversations import new_turn
from factmem.providers.results import PlaceLimit
from factmem.testing._facts import AGENT, PERSON, USER, languages, theme
from tests.world import KINDS, store_of

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
