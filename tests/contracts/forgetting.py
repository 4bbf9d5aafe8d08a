"""Forgetting and purging."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from factmem import Concept, FactSource, FactStore, SingleFact, SourceKind
from factmem.testing._facts import AGENT, LANGUAGES, PERSON, THEME, USER, languages, theme
from factmem.testing.clock import START, SettableClock

DAY = timedelta(days=1)
CHAT = FactSource(SourceKind.USER, "chat-1", 3, "I know Kotlin")
MAIL = FactSource(SourceKind.DOCUMENT, "mail-9")
ANY_CHAT = FactSource(SourceKind.USER)

CONDITIONS: dict[str, tuple[dict[str, Any], set[str]]] = {
    "a concept": ({"concept": LANGUAGES}, {"kotlin", "java", "rust"}),
    "a value": ({"concept": LANGUAGES, "value": "java"}, {"java"}),
    "a fact": ({"fact_ids": ["second"]}, {"java", "rust"}),
    "a source": ({"source": CHAT}, {"kotlin", "dark"}),
    "a kind of source": ({"source": ANY_CHAT}, {"kotlin", "dark"}),
    "another message of a source": ({"source": replace(CHAT, message=4)}, set()),
    "older than a day": ({"older_than": START + DAY}, {"kotlin"}),
    "older than a moment before": ({"older_than": START}, set()),
    "older than a span": ({"older_than": timedelta(hours=30)}, {"kotlin"}),
    "all": (
        {
            "concept": LANGUAGES,
            "value": "java",
            "fact_ids": ["second"],
            "source": MAIL,
            "older_than": START + 2 * DAY,
        },
        {"java"},
    ),
}
"""Arguments of `forget`, and the values below that they select. The ledger's tests draw others."""


async def remember(provider: FactStore, clock: SettableClock) -> None:
    """Save four values from two sources on three days."""
    clock.now = START
    await provider.save(replace(languages("kotlin", source=CHAT), id="first"), USER, AGENT)
    clock.now = START + DAY
    await provider.save(replace(languages("java", "rust", source=MAIL), id="second"), USER, AGENT)
    clock.now = START + 2 * DAY
    await provider.save(replace(theme("dark", source=CHAT), id="third"), USER, AGENT)


async def current(provider: FactStore) -> set[str]:
    """Return all current values."""
    return {value for fact in await provider.load_all(USER, AGENT) for value in fact.values}


class Forgetting:
    """Forgotten values disappear from every read at once, and do not come back."""

    @pytest.mark.parametrize("condition", CONDITIONS)
    async def test_exactly_what_meets_all_conditions_is_forgotten(
        self, provider: FactStore, clock: SettableClock, condition: str
    ) -> None:
        """The number of values is returned."""
        arguments, gone = CONDITIONS[condition]
        await remember(provider, clock)

        count = await provider.forget(USER, AGENT, **arguments)

        assert await current(provider) == {"kotlin", "java", "rust", "dark"} - gone
        assert count == len(gone)

    async def test_another_place_is_not_affected(self, provider: FactStore) -> None:
        """Forgetting affects one place."""
        await provider.save(theme("dark"), PERSON.of("alice"), AGENT)
        await provider.save(theme("dark"), PERSON.of("bob"), AGENT)

        assert await provider.forget(PERSON.of("alice"), AGENT, concept=THEME) == 1

        assert await provider.load(THEME, PERSON.of("alice"), AGENT) == []
        assert len(await provider.load(THEME, PERSON.of("bob"), AGENT)) == 1

    async def test_a_typed_value_is_named_as_it_is(self, provider: FactStore) -> None:
        """The value is passed in the concept's type."""
        birthday = Concept("birthday", "A birthday", value_type=datetime)
        await provider.save(SingleFact(birthday, START), USER, AGENT)

        assert await provider.forget(USER, AGENT, concept=birthday, value=START + DAY) == 0
        assert await provider.forget(USER, AGENT, concept=birthday, value=START) == 1

    @pytest.mark.parametrize(
        ("arguments", "error", "message"),
        [
            ({}, ValueError, r"fact_ids, metadata, source or older_than.*erase"),
            ({"purge": True}, ValueError, r"fact_ids, metadata, source or older_than.*erase"),
            ({"value": "java"}, ValueError, r"needs its concept"),
            ({"value": None}, ValueError, r"needs its concept"),
            ({"concept": LANGUAGES, "value": 7}, ValueError, r"'languages' is not a valid str"),
            ({"concept": "languages"}, TypeError, r"Concept\(keyword, description\)"),
            ({"older_than": datetime(2020, 1, 1)}, ValueError, r"time zone"),  # noqa: DTZ001
            ({"older_than": timedelta(seconds=-1)}, ValueError, r"of at least 0"),
            ({"older_than": timedelta.max}, ValueError, r"shorter span"),
            ({"fact_ids": [""]}, ValueError, r"fact id is empty"),
            ({"source": "chat-1"}, TypeError, r"FactSource"),
        ],
    )
    async def test_what_makes_no_sense_is_refused(
        self, provider: FactStore, arguments: dict[str, Any], error: type[Exception], message: str
    ) -> None:
        """Nothing is forgotten, and the message shows a correct call."""
        await provider.save(languages("java"), USER, AGENT)

        with pytest.raises(error, match=message):
            await provider.forget(USER, AGENT, **arguments)

        assert await current(provider) == {"java"}


class Purging:
    """`forget(purge=True)`: the value is gone from history as well."""

    async def test_a_purge_names_the_quotes_that_it_leaves(self, provider: FactStore) -> None:
        """The quotes of facts with other values. A second purge removes the value from them."""
        said = FactSource(SourceKind.USER, "chat", 1, "My PIN: 1234, and I write Java")
        also = FactSource(SourceKind.USER, "chat", 2, "12345 lines of Java")
        java, rust = languages("java", source=said), languages("rust", source=also)
        await provider.save_many([theme("PIN 1234"), java, rust], USER, AGENT)

        count = await provider.forget(USER, AGENT, concept=THEME, value="PIN 1234", purge=True)

        assert (count, getattr(count, "quoting", None)) == (1, (java.id,))
        count = await provider.forget(USER, AGENT, concept=THEME, value="PIN 1234", purge="quotes")
        assert (count, getattr(count, "quoting", None)) == (0, ())
        assert "1234," not in str(await provider.entries(USER, AGENT))
        facts = await provider.load(LANGUAGES, USER, AGENT)
        quotes = [fact.source.quote for fact in facts if fact.source is not None]
        assert quotes == ["My […], and I write Java", also.quote]

    async def test_a_purge_names_the_facts_that_mention_a_value(self, provider: FactStore) -> None:
        """In a keyword, a description or metadata, which do not change."""
        named = SingleFact(Concept("pin-1234", "A number"), "blue")
        described = SingleFact(Concept("door", "What the PIN 1234 opens"), "cellar")
        tagged = replace(languages("java"), metadata={"note": {"with PIN 1234": ["x"]}})
        counted = replace(languages("rust"), metadata={"numbers": [7, 1234]})
        other = SingleFact(Concept("size", "12345 lines"), "large", metadata={"note": "PIN"})
        facts = [theme("PIN 1234"), named, described, tagged, counted, other]
        await provider.save_many(facts, USER, AGENT)

        count = await provider.forget(USER, AGENT, concept=THEME, value="PIN 1234", purge=True)

        expected = (1, (named.id, described.id, tagged.id, counted.id))
        assert (count, getattr(count, "mentioning", None)) == expected
        count = await provider.forget(USER, AGENT, concept=LANGUAGES, purge=True)
        assert getattr(count, "mentioning", None) == ()

    async def test_a_quote_that_proves_a_purged_value_goes_whole(self, provider: FactStore) -> None:
        """If it does not contain the value literally."""
        said = FactSource(SourceKind.USER, "chat", 1, "I dislike bright screens, and Java")
        java = languages("java", source=said)
        await provider.save_many([theme("dark", source=said), java], USER, AGENT)

        count = await provider.forget(USER, AGENT, concept=THEME, purge="quotes")

        assert (count, getattr(count, "quoting", None)) == (1, ())
        assert "bright" not in str(await provider.entries(USER, AGENT))
        (fact,) = await provider.load(LANGUAGES, USER, AGENT)
        assert (fact.id, fact.values) == (java.id, ("java",))

    async def test_purging_frees_room(self, provider: FactStore) -> None:
        """A purge makes the place smaller."""
        await provider.save_many([theme("x" * 10_000), languages("java")], USER, AGENT)
        (before,) = await provider.places()

        await provider.forget(USER, AGENT, concept=THEME, purge=True)

        (after,) = await provider.places()
        assert before.bytes - after.bytes >= 9_000
