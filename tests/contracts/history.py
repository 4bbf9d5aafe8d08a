"""The history of a concept."""

from datetime import timedelta
from typing import Any

import pytest
from pydantic import JsonValue

from factmem import Concept, FactSource, FactStore, FactType, MultipleFacts, SingleFact, SourceKind
from factmem.errors import StoredFactError
from factmem.ledger.history import HistoryAction
from factmem.testing._facts import AGENT, LANGUAGES, PERSON, THEME, USER, languages, theme
from factmem.testing.clock import START, SettableClock


class History:
    """`history` returns every save, confirmation and forgetting, oldest first."""

    async def test_everything_is_listed_in_order(
        self, provider: FactStore, clock: SettableClock
    ) -> None:
        """Each with the fact as it was saved, and the time of the record."""
        source = FactSource(SourceKind.ASSISTANT, "chat", 3, "so dark", "model")
        facts = [
            theme("dark", importance=0.9, source=source, expires_at=START + timedelta(days=9)),
            theme("light"),
            theme("light", importance=0.1),
        ]
        for fact in facts:
            await provider.save(fact, USER, AGENT)
            await provider.save(languages("java"), USER, AGENT)
            clock.advance()
        await provider.forget(USER, AGENT, concept=THEME)

        recorded = await provider.history(THEME, USER, AGENT)

        assert [entry.action for entry in recorded] == [
            HistoryAction.SAVED,
            HistoryAction.SAVED,
            HistoryAction.CONFIRMED,
            HistoryAction.FORGOTTEN,
        ]
        assert [entry.fact for entry in recorded] == [*facts, None]
        assert [entry.recorded_at - START for entry in recorded] == [
            timedelta(seconds=second) for second in range(4)
        ]
        assert [e.fact.confirmed_at for e in recorded if e.fact] == [
            e.recorded_at for e in recorded[:3]
        ]
        assert recorded[3].forgotten == (facts[1].id,)

    async def test_nothing_happened_to_an_unknown_concept(self, provider: FactStore) -> None:
        """No history is an empty list."""
        await provider.save(theme("dark"), USER, AGENT)

        assert await provider.history(LANGUAGES, USER, AGENT) == []
        assert await provider.history(THEME, PERSON.of("alice"), AGENT) == []

    async def test_a_concept_that_changed_shows_what_it_was(self, provider: FactStore) -> None:
        """Each save has the type and the description that it was made with."""
        many = Concept("ide-theme", "All themes", FactType.MULTIPLE)
        await provider.save(theme("dark"), USER, AGENT)
        await provider.save(MultipleFacts(many, ("dark", "light")), USER, AGENT)
        await provider.save(theme("light"), USER, AGENT)

        recorded = await provider.history(many, USER, AGENT)

        assert [entry.fact.concept for entry in recorded if entry.fact] == [THEME, many, THEME]
        assert [entry.fact.values for entry in recorded if entry.fact] == [
            ("dark",),
            ("dark", "light"),
            ("light",),
        ]

    async def test_values_have_the_type_of_the_concept(self, provider: FactStore) -> None:
        """A value that does not fit is plain JSON, and never left out."""
        age = Concept("age", "The user's age", value_type=int)
        await provider.save(SingleFact(age, 2**70), USER, AGENT)

        recorded = await provider.history(age, USER, AGENT)

        assert [entry.fact.values for entry in recorded if entry.fact] == [(2**70,)]
        (as_text,) = await provider.history(Concept("age", "As text"), USER, AGENT)
        assert as_text.fact is not None
        assert (as_text.fact.values, as_text.is_unreadable) == ((2**70,), True)
        assert not recorded[0].is_unreadable

    async def test_a_value_that_does_not_fit_is_plain_among_all(self, provider: FactStore) -> None:
        """The other values of its concept are typed, also those of the same save."""
        years = Concept("years", "Years", FactType.MULTIPLE, value_type=int)
        written: Concept[Any, Any] = Concept(
            "years", "Years", FactType.MULTIPLE, value_type=JsonValue
        )
        await provider.save(theme("dark"), USER, AGENT)
        await provider.save(MultipleFacts(written, (1815, "PIN 1234", 1852)), USER, AGENT)

        loaded = await provider.load_all(USER, AGENT, concepts=[years])

        assert {fact.values: fact.concept.value_type for fact in loaded} == {
            ("dark",): str,
            (1815, 1852): int,
            ("PIN 1234",): JsonValue,
        }
        with pytest.raises(StoredFactError, match=r"'years'.*value_type"):
            await provider.load(years, USER, AGENT)
