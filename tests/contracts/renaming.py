"""Concepts with former keywords and older types."""

from typing import Any

from factmem import Concept, FactStore, FactType, MultipleFacts, SingleFact
from factmem.providers.results import RetractedFact
from factmem.testing._facts import AGENT, LANGUAGES, SAID, THEME, USER, languages, theme

LOOK = Concept("look", "The look of the user's IDE", was=[THEME.keyword])
TONGUES = Concept("tongues", "Languages", FactType.MULTIPLE, was=[LANGUAGES.keyword])


def _lines(text: str) -> int:
    return int(text.removeprefix("about "))


LINES = Concept("lines", "Lines of code", value_type=int, was=[THEME.keyword], read=_lines)


class Renaming:
    """Facts under a former keyword of a concept are facts of the concept."""

    async def test_a_concept_loads_its_former_keyword(self, provider: FactStore) -> None:
        """One at a time, among all, and in the history. Without `was` nothing changes."""
        await provider.save(theme("dark"), USER, AGENT)

        (fact,) = await provider.load(LOOK, USER, AGENT)
        (among_all,) = await provider.load_all(USER, AGENT, concepts=[LOOK])
        (entry,) = await provider.history(LOOK, USER, AGENT)

        assert fact == among_all
        assert (entry.fact and entry.fact.values, entry.is_unreadable) == (("dark",), False)
        assert (fact.concept, fact.value) == (LOOK, "dark")
        assert [each.concept for each in await provider.load_all(USER, AGENT)] == [THEME]
        assert await provider.load(Concept("look", "Another"), USER, AGENT) == []

    async def test_the_later_statement_holds_under_either_keyword(
        self, provider: FactStore
    ) -> None:
        """Two versions of a program write at the same time."""
        await provider.save(theme("dark"), USER, AGENT)
        await provider.save(SingleFact(LOOK, "light", timestamp=SAID), USER, AGENT)
        first = await provider.load(LOOK, USER, AGENT)
        await provider.save(theme("blue"), USER, AGENT)

        second = await provider.load_all(USER, AGENT, concepts=[LOOK])

        assert [fact.value for fact in first] == ["light"]
        assert [fact.values for fact in second] == [("blue",)]

    async def test_values_under_both_keywords_are_together(self, provider: FactStore) -> None:
        """An equal value counts once."""
        await provider.save(languages("java", "go"), USER, AGENT)
        await provider.save(MultipleFacts(TONGUES, ["rust", "go"]), USER, AGENT)

        for facts in (
            await provider.load(TONGUES, USER, AGENT),
            await provider.load_all(USER, AGENT, concepts=[TONGUES]),
        ):
            values = [value for fact in facts for value in fact.values]
            assert sorted(values) == ["go", "java", "rust"]
            assert {fact.concept for fact in facts} == {TONGUES}

    async def test_forgetting_includes_the_former_keyword(self, provider: FactStore) -> None:
        """Nothing that was replaced comes back."""
        await provider.save(theme("dark"), USER, AGENT)
        await provider.save(SingleFact(LOOK, "light", timestamp=SAID), USER, AGENT)
        await provider.save(languages("java", "go"), USER, AGENT)

        assert await provider.forget(USER, AGENT, concept=LOOK, value="light") == 2
        assert await provider.forget(USER, AGENT, concepts=[TONGUES]) == 2

        assert await provider.load_all(USER, AGENT) == []

    async def test_a_retraction_ends_a_value_under_the_former_keyword(
        self, provider: FactStore
    ) -> None:
        await provider.save(languages("java", "go"), USER, AGENT)

        await provider.learn([], USER, AGENT, retracted=[RetractedFact(TONGUES, "java", SAID)])

        assert [fact.values for fact in await provider.load(TONGUES, USER, AGENT)] == [("go",)]

    async def test_a_value_of_an_older_type_is_read(self, provider: FactStore) -> None:
        """By the function of the concept. A value that it cannot read is plain JSON."""
        await provider.save(theme("about 300"), USER, AGENT)
        (fact,) = await provider.load(LINES, USER, AGENT)
        assert fact.value == 300
        assert await provider.forget(USER, AGENT, concept=LINES, value=300) == 1

        await provider.save(theme("some"), USER, AGENT)
        plain: list[Any] = await provider.load_all(USER, AGENT, concepts=[LINES])

        assert [(each.value, each.concept.value_type is int) for each in plain] == [("some", False)]

    async def test_changes_are_those_of_the_new_keyword(self, provider: FactStore) -> None:
        """A reader that follows a place sees what a new load would give."""
        await provider.save(theme("dark"), USER, AGENT)
        since = await provider.version(USER, AGENT)
        await provider.save(theme("light"), USER, AGENT)

        changes = None
        if since is not None:
            changes = await provider.changes(USER, AGENT, since=since, concepts=[LOOK])

        if changes is not None:
            assert changes.facts == {"look": await provider.load(LOOK, USER, AGENT)}
