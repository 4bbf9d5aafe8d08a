"""The tool that saves a fact: opt-in, in one place, with the declared type."""

import json
from typing import Any

import pytest

from factmem.errors import MemoryAccessError, StorageError
from factmem.memory.agent_memory import AgentMemory
from factmem.models.facts import Concept, FactSource, FactType, SingleFact, SourceKind
from factmem.models.places import MemoryScopeType
from factmem.providers.in_memory import InMemoryProvider
from factmem.recall.match import Match
from tests.tables import table
from tests.world import (
    AGE,
    AGENT,
    ALICE,
    LANGUAGES,
    PRODUCT,
    THEME,
    USER,
    languages,
    memory_of,
    theme,
)

BY_MODEL = FactSource(SourceKind.ASSISTANT)


async def save(memory: AgentMemory, arguments: Any) -> str:
    (tool,) = (each for each in memory.tools(save=True) if each.name == "memory_save")
    return await tool.call(arguments)


def test_it_is_offered_only_on_request_and_if_writable() -> None:
    memory = memory_of()

    def names(view: AgentMemory, **options: Any) -> list[str]:
        return [tool.name for tool in view.tools(**options)]

    assert "memory_save" not in names(memory)
    assert "memory_save" in names(memory, save=True)
    assert "memory_save" not in names(memory.view(read_only=True), save=True)


async def test_a_new_fact_is_saved_in_the_place_of_the_tools() -> None:
    """It has the first subject, the narrowest scope, and the source that names the speaker."""
    memory = memory_of(subjects=[USER]).view(subjects=[ALICE])

    answer = await save(memory, {"concept": "IDE Theme", "value": "dark", "about": "The theme"})

    assert json.loads(answer) == {"saved": 1, "concept": "ide-theme"}
    (fact,) = await memory.store.load_all(ALICE, AGENT)
    assert (fact.concept.keyword, fact.concept.description) == ("ide-theme", "The theme")
    assert isinstance(fact, SingleFact)
    assert fact.values == ("dark",)
    assert fact.source == BY_MODEL
    assert await memory.store.load_all(ALICE, PRODUCT) == []
    assert await memory.contents.forget(source=BY_MODEL) == 1


async def test_a_view_decides_where_facts_go() -> None:
    memory = memory_of(subjects=[USER, ALICE])
    product = memory.view(subjects=[ALICE], scopes=[MemoryScopeType.PRODUCT])

    await save(product, {"concept": "editor", "value": "vim"})

    assert len(await memory.store.load_all(ALICE, PRODUCT)) == 1
    assert await memory.store.load_all(ALICE, AGENT) == []


async def test_a_known_concept_keeps_its_keyword_and_type() -> None:
    memory = memory_of()
    await memory.store.save(theme("light"), ALICE, AGENT)
    await memory.store.save(languages("en"), ALICE, AGENT)

    await save(memory, {"concept": "ideTheme", "value": "dark", "about": "Something else"})
    await save(memory, {"concept": "Languages", "value": "ko", "add": True})
    await save(memory, {"concept": "Languages", "value": "ja"})

    known = {info.keyword: info for info in await memory.contents.concepts()}
    assert known["ide-theme"].description == "The IDE theme that the user prefers"
    assert (known["ide-theme"].count, known["languages"].count) == (1, 3)


async def test_several_values_of_a_new_concept() -> None:
    memory = memory_of()

    await save(memory, {"concept": "pets", "value": "a cat", "add": True})
    await save(memory, {"concept": "pets", "value": ["a dog", "a fish"]})

    (info,) = await memory.contents.concepts()
    assert (info.fact_type, info.count) == (FactType.MULTIPLE, 3)


async def test_adding_to_a_concept_of_one_value_is_refused() -> None:
    """It would silently replace the value that the model wants to keep."""
    memory = memory_of()
    await memory.store.save(theme("light"), ALICE, AGENT)

    answer = await save(memory, {"concept": "ide-theme", "value": "dark", "add": True})

    assert answer.startswith("Error: nothing was saved. The concept holds one value")
    assert [fact.values for fact in await memory.current()] == [("light",)]


@pytest.mark.parametrize("given", [37, "37"], ids=repr)
async def test_a_declared_type_is_used(given: object) -> None:
    memory = memory_of(concepts=[AGE])

    await save(memory, {"concept": "Age", "value": given})

    assert [fact.value for fact in await memory.current(AGE)] == [37]


async def test_a_value_of_a_wrong_type_returns_the_schema() -> None:
    memory = memory_of(concepts=[AGE])

    answer = await save(memory, {"concept": "age", "value": "rather old"})

    assert answer.startswith("Error: nothing was saved. The value does not fit the concept's type")
    assert '"integer"' in answer
    assert "rather old" not in answer
    assert await memory.current() == []


@table(
    ("arguments", "problem"),
    [
        ({"value": "dark"}, "`concept` is missing"),
        ({"concept": "", "value": "dark"}, ""),
        ({"concept": "../../etc", "value": "dark"}, ""),
        ({"concept": "theme", "value": None}, ""),
        ({"concept": "theme", "value": ""}, ""),
        ({"concept": "theme", "value": "x" * 17_000}, "`value` has more than 16 KB"),
        ({"concept": "theme", "value": ["x"] * 51}, ""),
        ({"concept": "theme", "value": "dark", "add": "perhaps"}, "`add`: input should be"),
        ('{"concept": "theme", "val', ""),
        ("[]", ""),
    ],
)
async def test_bad_arguments_save_nothing(arguments: Any, problem: str) -> None:
    memory = memory_of()

    answer = await save(memory, arguments)

    assert answer.startswith("Error: nothing was")
    assert problem in answer
    assert await memory.current() == []


async def test_an_ambiguous_keyword_saves_nothing() -> None:
    memory = memory_of()
    for keyword in ("ide-theme", "ide_theme"):
        await memory.store.save(_fact(keyword), ALICE, AGENT)

    assert "Several concepts" in await save(memory, {"concept": "IDE theme", "value": "x"})
    assert json.loads(await save(memory, {"concept": "ide_theme", "value": "x"}))["saved"] == 1


def _fact(keyword: str) -> SingleFact[str]:
    return SingleFact(type(AGE)(keyword, "About it"), "old")


async def test_a_store_that_fails_raises() -> None:
    class Broken(InMemoryProvider):
        async def learn(self, *args: Any, **options: Any) -> Any:
            raise StorageError("The disk refused")

    with pytest.raises(StorageError):
        await save(memory_of(Broken()), {"concept": "editor", "value": "vim"})


@table("keyword", ["plans", "the plan", "Plan", "my-plan", "pl\u200ban", "pl\u0430n"])
async def test_no_other_spelling_gets_round_a_decision(keyword: str) -> None:
    """A value that a person confirmed, and a concept with review, are joined as detection joins."""
    plan = Concept("plan", "What the customer pays for", review=True)
    memory = memory_of(concepts=[plan])
    await memory.save(plan, "Silver", confirmed=True)
    (save,) = [each for each in memory.tools(save=True) if each.action == "save"]
    await save.call({"concept": keyword, "value": "Gold"})

    assert [each.values for each in await memory.current()] == [("Silver",)]


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


async def test_a_note_needs_words_and_a_place() -> None:
    memory = memory_of(subjects=[USER]).of("alice")
    with pytest.raises(ValueError, match="needs words"):
        await memory.note(" \n")
    with pytest.raises(MemoryAccessError, match="no place to save to"):
        await memory.view(places=[]).note("x")
