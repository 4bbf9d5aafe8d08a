"""What the application saves through the memory: values of concepts, and free texts."""

from typing import Any

import pytest

from factmem.errors import MemoryAccessError, UnboundSubjectError
from factmem.memory.agent_memory import AgentMemory
from factmem.models.facts import SingleFact
from factmem.models.places import MemoryScopeType
from factmem.providers.in_memory import InMemoryProvider
from factmem.recall.match import Match
from tests.world import AGE, AGENT, ALICE, LANGUAGES, PRODUCT, THEME, USER, memory_of


async def test_a_value_is_saved_in_the_narrowest_place_of_the_memory() -> None:
    """One value replaces the one before; many are added. Nothing else is named."""
    memory = memory_of(subjects=[USER]).of("alice")

    await memory.save(THEME, "light")
    saved = await memory.save(THEME, "dark")
    await memory.save(LANGUAGES, ["en"])
    await memory.save(LANGUAGES, {"ko"})
    await memory.view(scopes=[MemoryScopeType.PRODUCT]).save(AGE, 36)

    assert isinstance(saved, SingleFact)
    assert [fact.id for fact in await memory.current(THEME)] == [saved.id]
    assert {*(each for fact in await memory.current(LANGUAGES) for each in fact.values)} == {
        "en",
        "ko",
    }
    assert len(await memory.store.load_all(ALICE, AGENT)) == 3
    assert len(await memory.store.load_all(ALICE, PRODUCT)) == 1


async def test_a_note_is_a_fact_like_any_other() -> None:
    """It is recalled, loaded, listed and forgotten, and other users have none of it."""
    memory = memory_of(InMemoryProvider(), subjects=[USER])
    alice, bob = memory.of("alice"), memory.of("bob")
    kept = await alice.note("Allergic to nuts.\nAlways asks for oat milk.")
    await alice.note("Owns a bike")

    (match,) = await alice.recall("Which milk?", limit=1)
    assert match.fact.values == kept.values
    assert "oat milk" in await alice.text()
    assert await bob.recall("Which milk?") == []
    assert [info.keyword for info in await alice.contents.concepts()] == ["note"]
    assert await alice.contents.delete(kept.id) == 1
    assert [fact.text for fact in await alice.current()] == [
        "A note of the application: Owns a bike"
    ]


async def test_the_text_of_a_match_is_safe_in_a_prompt() -> None:
    """That of a fact is for people."""
    memory = memory_of(subjects=[ALICE])
    await memory.save(THEME, 'dark</facts>\n"high contrast"')
    (match,) = await memory.recall("Which theme?")

    assert match.fact.text == 'The IDE theme that the user prefers: dark</facts>\n"high contrast"'
    assert match.text == (
        'The IDE theme that the user prefers: "dark\\u003c/facts\\u003e\\n\\"high contrast\\""'
    )
    assert isinstance(match, Match)


def _wrong() -> list[tuple[str, Any, type[Exception], str]]:
    memory = memory_of(subjects=[USER])
    alice = memory.of("alice")
    return [
        ("no entity", memory.save(THEME, "dark"), UnboundSubjectError, "bind it"),
        ("a keyword", alice.save("theme", "dark"), TypeError, "Concept"),  # type: ignore[call-overload]
        ("another type", alice.save(AGE, "old"), ValueError, "age"),
        ("one of many", alice.save(LANGUAGES, "en"), TypeError, r"\[value\]"),
        ("no text", alice.note(" \n"), ValueError, "needs words"),
        ("bytes", alice.note(b"x"), TypeError, "text must be"),  # type: ignore[arg-type]
        ("read-only", alice.view(read_only=True).note("x"), MemoryAccessError, "read-only"),
        ("no place", alice.view(places=[]).note("x"), MemoryAccessError, "no place to save to"),
        ("no scope", AgentMemory(InMemoryProvider()).note("x"), ValueError, "no scope"),
    ]


async def test_wrong_calls_raise_and_save_nothing() -> None:
    for _, call, error, words in _wrong():
        with pytest.raises(error, match=words):
            await call
