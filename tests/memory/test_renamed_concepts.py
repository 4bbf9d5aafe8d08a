"""Concepts whose keyword or type changed, in a memory."""

from typing import Any

import pytest

from factmem.models.facts import Concept, FactType, MultipleFacts, SingleFact
from factmem.providers.in_memory import InMemoryProvider
from factmem.testing.clock import SettableClock
from tests.doubles import BareProvider
from tests.world import AGENT, ALICE, THEME, memory_of, theme

LOOK = Concept("look", "The look of the user's IDE", was=["ide-theme"])
WORDS = Concept("words", "Words", FactType.MULTIPLE)
TERMS = Concept("terms", "Words", FactType.MULTIPLE, was=["words"])


@pytest.mark.parametrize("is_bare", [False, True])
async def test_a_renamed_concept_is_one_concept_in_a_memory(is_bare: bool) -> None:
    """In loads, prompts and recalls, with any provider."""
    store = InMemoryProvider()
    await store.save(theme("dark"), ALICE, AGENT)
    await store.save(MultipleFacts(WORDS, ["tea"]), ALICE, AGENT)
    provider: Any = BareProvider(store) if is_bare else store
    memory = memory_of(provider, concepts=[LOOK, TERMS], subjects=[ALICE])

    known = await memory.current()
    report = await memory.load_facts_to_agent([])
    (match, *_) = await memory.recall("Which look?")

    assert {fact.concept.keyword: fact.values for fact in known} == {
        "look": ("dark",),
        "terms": ("tea",),
    }
    assert "ide-theme" not in report.text
    assert (match.fact.concept, match.fact.values) == (LOOK, ("dark",))


async def test_an_update_writes_the_new_keyword() -> None:
    """Of a fact with one value, and of one with many."""
    store = InMemoryProvider(clock=SettableClock())
    await store.save(theme("dark"), ALICE, AGENT)
    await store.save(MultipleFacts(WORDS, ["tea", "cup"]), ALICE, AGENT)
    memory = memory_of(store, concepts=[LOOK, TERMS], subjects=[ALICE])
    ids = {fact.concept.keyword: fact.id for fact in await memory.current()}

    await memory.contents.update(ids["look"], value="light")
    await memory.contents.update(ids["terms"], values=["tea", "mug"])

    stored = {fact.concept.keyword: fact.values for fact in await store.load_all(ALICE, AGENT)}
    assert stored == {"look": ("light",), "terms": ("tea", "mug")}


async def test_a_former_keyword_cannot_be_declared_too() -> None:
    with pytest.raises(ValueError, match="'ide-theme' is a former keyword of 'look'"):
        memory_of(concepts=[THEME, LOOK])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"was": "city"}, "was must be a list"),
        ({"was": [""]}, "keyword in was"),
        ({"was": ["home"]}, "must not contain the keyword"),
        ({"read": 7}, "read must be a function"),
    ],
)
def test_former_keywords_and_readers_are_checked(options: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        Concept("home", "Home", **options)


def test_equal_concepts_may_have_other_former_keywords() -> None:
    """The facts that they load are the same kind of facts."""
    assert Concept("look", "The look of the user's IDE") == LOOK
    assert SingleFact(LOOK, "dark").concept.keywords == ("look", "ide-theme")
