"""Current facts."""

import traceback
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from pydantic import JsonValue

from factmem.errors import StoredFactError
from factmem.models.facts import (
    AnyFact,
    Concept,
    FactSource,
    FactType,
    MultipleFacts,
    SingleFact,
    SourceKind,
)
from factmem.providers.base import AgentMemoryProvider
from factmem.testing._facts import AGENT, LANGUAGES, PERSON, THEME, USER, languages, theme

LONG_AGO = datetime(1970, 1, 2, tzinfo=UTC)
FAR_AWAY = datetime(2999, 1, 1, tzinfo=UTC)
THEMES = Concept("ide-theme", "All IDE themes the user likes", FactType.MULTIPLE)
LANGUAGE = Concept("languages", "The one programming language the user knows")


class CurrentFacts:
    """The rule of current facts, after saves and confirmations."""

    async def test_a_fact_comes_back_whole(self, provider: AgentMemoryProvider) -> None:
        """Every saved field is restored, to the microsecond."""
        source = FactSource(SourceKind.TOOL, "conversation-7", 0, "prefers 'dark'", "some-model")
        fact = theme("dark", importance=0.25, source=source, expires_at=FAR_AWAY)

        await provider.save(fact, USER, AGENT)

        assert await provider.load(THEME, USER, AGENT) == [fact]

    async def test_a_loaded_fact_has_the_time_of_its_recording(
        self, provider: AgentMemoryProvider
    ) -> None:
        """It is the store's time, with a time zone. The fact's timestamp is the caller's."""
        await provider.save(theme("dark"), USER, AGENT)

        (loaded,) = await provider.load(THEME, USER, AGENT)

        assert loaded.confirmed_at is not None
        assert loaded.confirmed_at.utcoffset() is not None

    async def test_an_empty_place_gives_nothing(self, provider: AgentMemoryProvider) -> None:
        """An unknown concept has no facts and is no error."""
        assert await provider.load(THEME, USER, AGENT) == []
        assert await provider.load_all(USER, AGENT) == []
        assert await provider.load_by_description("theme", USER, AGENT) == []

    async def test_another_concept_is_not_affected(self, provider: AgentMemoryProvider) -> None:
        """A concept is found by its whole keyword, without facts of other keywords."""
        near = Concept("ide", "The user's preferred IDE")
        await provider.save(theme("dark"), USER, AGENT)
        await provider.save(SingleFact(near, "vim"), USER, AGENT)

        assert [fact.value for fact in await provider.load(THEME, USER, AGENT)] == ["dark"]
        assert [fact.value for fact in await provider.load(near, USER, AGENT)] == ["vim"]
        assert await provider.load(Concept("theme", "Another"), USER, AGENT) == []

    async def test_what_was_said_last_is_current(self, provider: AgentMemoryProvider) -> None:
        """By the timestamps of the facts, in any order of the saves."""
        newer = theme("dark", timestamp=datetime(2000, 1, 2, tzinfo=UTC))
        older = theme("light", timestamp=datetime(2000, 1, 1, tzinfo=UTC))

        await provider.save(newer, USER, AGENT)
        await provider.save(older, USER, AGENT)
        await provider.save(older, PERSON.of("alice"), AGENT)
        await provider.save(newer, PERSON.of("alice"), AGENT)

        assert await provider.load(THEME, USER, AGENT) == [newer]
        assert await provider.load(THEME, PERSON.of("alice"), AGENT) == [newer]

    async def test_of_equal_times_the_greater_id_counts(
        self, provider: AgentMemoryProvider
    ) -> None:
        """So that copies of a store agree."""
        facts = [replace(theme(value), id=value) for value in ("dark", "light")]

        await provider.save(facts[1], USER, AGENT)
        await provider.save(facts[0], USER, AGENT)

        assert await provider.load(THEME, USER, AGENT) == [facts[1]]

    async def test_saving_what_is_current_confirms_it(self, provider: AgentMemoryProvider) -> None:
        """The first fact stays, with the importance and expiry of the new one."""
        first = theme("dark", importance=0.1, expires_at=FAR_AWAY)
        await provider.save(first, USER, AGENT)

        await provider.save(theme("dark", importance=0.9), USER, AGENT)

        confirmed = replace(first, importance=0.9, expires_at=None)
        assert await provider.load(THEME, USER, AGENT) == [confirmed]

    async def test_an_earlier_value_can_be_saved_again(self, provider: AgentMemoryProvider) -> None:
        """A replaced value is history: saving it again makes a new fact."""
        dark, light, again = theme("dark"), theme("light"), theme("dark")
        for fact in (dark, light, again):
            await provider.save(fact, USER, AGENT)

        assert await provider.load(THEME, USER, AGENT) == [again]

    async def test_the_same_fact_can_be_saved_again(self, provider: AgentMemoryProvider) -> None:
        """An application may save its fact objects again and again: each was said once."""
        dark, light = theme("dark"), theme("light")
        for fact in (dark, dark, light, dark):
            await provider.save(fact, USER, AGENT)

        assert await provider.load(THEME, USER, AGENT) == [light]

    async def test_many_values_add_up(self, provider: AgentMemoryProvider) -> None:
        """A MULTIPLE concept has one fact for each save, the oldest first."""
        saved = [languages("kotlin", "java"), languages("rust"), languages("c", "ada")]
        for fact in saved:
            await provider.save(fact, USER, AGENT)

        assert await provider.load(LANGUAGES, USER, AGENT) == saved

    async def test_a_value_is_held_once(self, provider: AgentMemoryProvider) -> None:
        """Stored values are confirmed and keep their save; the others are added."""
        first = languages("kotlin", "java", importance=0.2)
        second = languages("java", "rust", "rust", importance=0.8)
        await provider.save(first, USER, AGENT)

        await provider.save(second, USER, AGENT)

        assert await provider.load(LANGUAGES, USER, AGENT) == [
            replace(first, importance=0.8),
            replace(second, values=("rust",)),
        ]

    async def test_one_value_joins_many(self, provider: AgentMemoryProvider) -> None:
        """A program with a SINGLE definition removes none of the values of one with a MULTIPLE."""
        await provider.save(languages("kotlin", "java"), USER, AGENT)

        await provider.save(SingleFact(LANGUAGE, "go"), USER, AGENT)
        await provider.save(SingleFact(LANGUAGE, "ada"), USER, AGENT)

        assert [fact.value for fact in await provider.load(LANGUAGE, USER, AGENT)] == ["ada"]
        loaded = await provider.load(LANGUAGES, USER, AGENT)
        assert [fact.values for fact in loaded] == [("kotlin", "java"), ("go",), ("ada",)]

    async def test_one_of_many_can_be_said_again(self, provider: AgentMemoryProvider) -> None:
        """A SINGLE save of one of many values confirms it; a SINGLE concept then shows it."""
        first = languages("kotlin", "java")
        await provider.save(first, USER, AGENT)

        await provider.save(SingleFact(LANGUAGE, "kotlin"), USER, AGENT)

        assert await provider.load(LANGUAGES, USER, AGENT) == [first]
        assert [fact.value for fact in await provider.load(LANGUAGE, USER, AGENT)] == ["kotlin"]

    async def test_many_values_join_one(self, provider: AgentMemoryProvider) -> None:
        """A concept that became MULTIPLE keeps the value it had."""
        await provider.save(theme("dark"), USER, AGENT)
        await provider.save(MultipleFacts(THEMES, ("light", "dark")), USER, AGENT)

        loaded = await provider.load(THEMES, USER, AGENT)

        assert [fact.values for fact in loaded] == [("dark",), ("light",)]

    async def test_a_keyword_is_read_as_the_concept_asks(
        self, provider: AgentMemoryProvider
    ) -> None:
        """A MULTIPLE concept read as SINGLE has the last value; a SINGLE one read as MULTIPLE has one fact."""
        await provider.save(languages("kotlin", "java"), USER, AGENT)
        await provider.save(theme("dark"), USER, AGENT)

        assert [fact.value for fact in await provider.load(LANGUAGE, USER, AGENT)] == ["java"]
        assert [fact.values for fact in await provider.load(THEMES, USER, AGENT)] == [("dark",)]

    async def test_all_facts_come_oldest_first(self, provider: AgentMemoryProvider) -> None:
        """Each concept has the type of its last save, and the position of its oldest value."""
        facts: list[AnyFact] = [
            theme("dark"),
            languages("kotlin"),
            languages("java"),
            theme("light"),
        ]
        for fact in facts:
            await provider.save(fact, USER, AGENT)

        assert await provider.load_all(USER, AGENT) == facts[1:]

    async def test_all_facts_are_plain_json(self, provider: AgentMemoryProvider) -> None:
        """A store does not know value types: `load_all` returns plain JSON."""
        when = Concept("birthday", "The user's birthday", value_type=datetime)
        await provider.save(SingleFact(when, LONG_AGO), USER, AGENT)

        (fact,) = await provider.load_all(USER, AGENT)

        assert fact.concept.keyword == "birthday"
        assert fact.concept.description == "The user's birthday"
        assert fact.values == ("1970-01-02T00:00:00Z",)

    async def test_values_of_different_types_are_different(
        self, provider: AgentMemoryProvider
    ) -> None:
        """Two values are equal if their JSON is equal. 1 and True are different."""
        anything: Concept[JsonValue, MultipleFacts[JsonValue]]
        anything = Concept("any", "Anything", FactType.MULTIPLE, value_type=JsonValue)
        values: tuple[JsonValue, ...]
        values = (1, True, "1", 1.5, None, "null", {"a": 1, "b": 2}, [1], [])
        await provider.save(MultipleFacts(anything, values), USER, AGENT)
        turned: JsonValue = {"b": 2, "a": 1}
        await provider.save(MultipleFacts(anything, (turned,)), USER, AGENT)

        (fact,) = await provider.load(anything, USER, AGENT)

        assert [(type(value), value) for value in fact.values] == [
            (type(value), value) for value in values
        ]

    async def test_a_value_that_does_not_fit_is_reported(
        self, provider: AgentMemoryProvider
    ) -> None:
        """The error names the concept, not the value, and the value is unchanged."""
        await provider.save(theme("PIN 1234"), USER, AGENT)

        with pytest.raises(StoredFactError, match=r"'ide-theme'.*int.*value_type") as caught:
            await provider.load(Concept("ide-theme", "A number", value_type=int), USER, AGENT)

        assert "1234" not in "".join(traceback.format_exception(caught.value))
        assert [fact.value for fact in await provider.load(THEME, USER, AGENT)] == ["PIN 1234"]

    async def test_what_has_expired_is_gone(self, provider: AgentMemoryProvider) -> None:
        """Even if it was in the past when it was saved. The replaced value does not come back."""
        await provider.save(theme("light"), USER, AGENT)
        await provider.save(theme("dark", expires_at=LONG_AGO), USER, AGENT)
        await provider.save(languages("java", expires_at=FAR_AWAY), USER, AGENT)

        assert await provider.load(THEME, USER, AGENT) == []
        assert [fact.values for fact in await provider.load_all(USER, AGENT)] == [("java",)]

    async def test_what_is_loaded_is_not_what_is_stored(
        self, provider: AgentMemoryProvider
    ) -> None:
        """Changes of a saved or loaded list do not change the store."""
        concept = Concept("tags", "Tags", value_type=list[str])
        saved = ["a"]
        await provider.save(SingleFact(concept, saved), USER, AGENT)
        saved.append("b")
        (loaded,) = await provider.load(concept, USER, AGENT)
        loaded.value.append("c")

        assert [fact.value for fact in await provider.load(concept, USER, AGENT)] == [["a"]]


class FactsByDescription:
    """The search for facts by a few words."""

    @pytest.mark.parametrize(
        "words",
        [
            "preferred IDE theme",
            "PREFERRED ide",
            "  Preferred \t IDE\n",
            "ｐｒｅｆｅｒｒｅｄ",  # noqa: RUF001 - full width is what the test is about
            "dark theme",
            "theme-dark ide",
            "dark ide-theme",
            "다크",
        ],
    )
    async def test_words_are_found(self, provider: AgentMemoryProvider, words: str) -> None:
        """As a phrase in the description, or each word in keyword, description or value."""
        await provider.save(theme("theme-dark 다크모드"), USER, AGENT)
        await provider.save(languages("java"), USER, AGENT)

        found = await provider.load_by_description(words, USER, AGENT)

        assert [fact.values for fact in found] == [("theme-dark 다크모드",)]

    @pytest.mark.parametrize("words", ["dark java", "light", "dark theme of the cat"])
    async def test_a_word_that_is_missing_is_no_match(
        self, provider: AgentMemoryProvider, words: str
    ) -> None:
        """All words must be in one fact; a replaced value does not count."""
        await provider.save(theme("light"), USER, AGENT)
        await provider.save(theme("dark"), USER, AGENT)
        await provider.save(languages("java"), USER, AGENT)

        assert await provider.load_by_description(words, USER, AGENT) == []

    async def test_words_are_found_inside_values(self, provider: AgentMemoryProvider) -> None:
        """Also in the keys and strings of nested values."""
        nested = Concept("pet", "A pet", value_type=dict[str, list[str]])
        await provider.save(SingleFact(nested, {"Cats": ["Mîao\nMiao"]}), USER, AGENT)

        assert len(await provider.load_by_description("cats MÎAO miao", USER, AGENT)) == 1

    @pytest.mark.parametrize("nothing", ["", "  \n"])
    async def test_no_words_are_refused(self, provider: AgentMemoryProvider, nothing: str) -> None:
        """`load_all` returns everything."""
        with pytest.raises(ValueError, match="load_all"):
            await provider.load_by_description(nothing, USER, AGENT)
