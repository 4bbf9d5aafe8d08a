"""The conformance suite of a provider with the four methods of `AgentMemoryProvider`.

Subclass `ProviderContract` as `TestMyProvider` and override the fixture `provider`. The methods are
asynchronous tests: set `anyio_mode = "auto"` in pytest's configuration or mark the class with
`pytest.mark.anyio`. Call `pytest.register_assert_rewrite("factmem.testing")` in `conftest.py` to
see values in failures.
"""

import math
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Annotated, Any, ClassVar, Literal
from uuid import UUID

import anyio
import pytest
from pydantic import BaseModel, ConfigDict, Field, JsonValue, SecretStr

from factmem.errors import StoredFactError, UnboundSubjectError
from factmem.models._values import normalized
from factmem.models.facts import (
    AnyFact,
    Concept,
    FactSource,
    FactType,
    MultipleFacts,
    SingleFact,
    SourceKind,
)
from factmem.models.places import MemoryScope, MemorySubject
from factmem.providers.provider import AgentMemoryProvider
from factmem.testing._facts import AGENT, LANGUAGES, PERSON, THEME, USER, languages, theme

__all__ = ["ProviderContract"]

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
        """A MULTIPLE concept read as SINGLE has the last value.

        A SINGLE one read as MULTIPLE has one fact.
        """
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


STRINGS = [
    "",
    " ",
    "naïve ☃ 다크 👩‍👩‍👧",
    "café",
    "cafe\u0301",
    "a\nb\r\n\u2028\u0085c",
    '{"not": "json"}',
    "\x00\x7f",
    "'; DROP TABLE facts; --",
    "x" * 100_000,
]


class Colour(Enum):
    """An enum of strings."""

    RED = "red"


class Level(IntEnum):
    """A choice whose values are numbers."""

    HIGH = 3


class Street(BaseModel):
    """A part of an address, with names that differ from its fields'."""

    name: str = Field(validation_alias="street", serialization_alias="streetName")
    number: int | str

    model_config: ClassVar[ConfigDict] = {"populate_by_name": True}


class Address(BaseModel):
    """A model in a model, with an optional part."""

    street: Street
    since: date | None = None


class Cat(BaseModel):
    """One kind of pet."""

    kind: Literal["cat"] = "cat"
    lives: int


class Dog(BaseModel):
    """Another kind of pet."""

    kind: Literal["dog"] = "dog"
    lives: int


@dataclass(frozen=True)
class Point:
    """A standard dataclass."""

    x: int
    y: int


Pet = Annotated[Cat | Dog, Field(discriminator="kind")]

TYPED: list[tuple[Any, Any]] = [
    (str, "text"),
    (int, 2**70),
    (int, -(2**70)),
    (float, 0.1 + 0.2),
    (float, 1.0),
    (float, -0.0),
    (bool, True),
    (None, None),
    (Decimal, Decimal("1.10")),
    (date, date(2024, 2, 29)),
    (datetime, datetime(2024, 2, 29, 23, 59, 59, 999999, tzinfo=UTC)),
    (timedelta, timedelta(days=-1, microseconds=1)),
    (bytes, b"ascii"),
    (UUID, UUID(int=7)),
    (Colour, Colour.RED),
    (Level, Level.HIGH),
    (Literal["light", 7], 7),
    (int | str, "7"),
    (list[int], [3, 1, 2, 2**64]),
    (dict[str, list[float]], {"b": [1.0], "a": []}),
    (tuple[int, str], (1, "one")),
    (Any, {"a": [1, 1.5, "x", None, True, {"b": 2**64}]}),
    (Address, Address(street=Street(name="Hauptstraße", number="7a"), since=date(2020, 1, 1))),
    (Pet, Dog(lives=1)),
    (list[Pet], [Cat(lives=9), Dog(lives=1)]),
    (Point, Point(1, 2)),
    (Annotated[int, Field(ge=0)], 5),
]

TYPED_IDS = [f"{number} {type(value).__name__}" for number, (_, value) in enumerate(TYPED)]


def nested(depth: int) -> object:
    """Return a list in a list in a list."""
    value: object = 1
    for _ in range(depth):
        value = [value]
    return value


REFUSED: dict[str, tuple[Any, Callable[[], object]]] = {
    "not a number": (float, lambda: math.nan),
    "infinity": (float, lambda: math.inf),
    "infinity inside": (dict[str, float], lambda: {"a": -math.inf}),
    "NaN under Any": (Any, lambda: [math.nan]),
    "a secret": (SecretStr, lambda: SecretStr("PIN 1234")),
    "a lone surrogate": (str, lambda: "\ud800"),
    "a lone surrogate inside": (list[str], lambda: ["\udfff"]),
    "nesting beyond reason": (Any, lambda: nested(300)),
    "a tuple under Any": (Any, lambda: (1, 2)),
    "a date under Any": (Any, lambda: date(2024, 1, 1)),
    "a set under Any": (Any, lambda: {1}),
    "a key that is not a string, under Any": (Any, lambda: {1: "one"}),
    "bytes that are not UTF-8": (bytes, lambda: b"\xff"),
    "what pydantic cannot write": (Any, object),
}


class Values:
    """Values are returned as they were saved; values that would change raise an error."""

    @pytest.mark.parametrize("text", STRINGS, ids=ascii)
    async def test_any_text_survives(self, provider: AgentMemoryProvider, text: str) -> None:
        """A provider neither trims, normalizes nor escapes values."""
        await provider.save(theme(text), USER, AGENT)
        await provider.save(languages(text, "other"), USER, AGENT)

        loaded = await provider.load_all(USER, AGENT)

        assert [fact.values for fact in loaded] == [(text,), (text, "other")]

    @pytest.mark.parametrize(("value_type", "value"), TYPED, ids=TYPED_IDS)
    async def test_any_type_survives(
        self, provider: AgentMemoryProvider, value_type: Any, value: object
    ) -> None:
        """Equal and of the same type, alone and among others."""
        one = Concept("one", "One value", FactType.SINGLE, value_type=value_type)
        many = Concept("many", "Many values", FactType.MULTIPLE, value_type=value_type)
        await provider.save(SingleFact(one, value), USER, AGENT)
        await provider.save(MultipleFacts(many, (value,)), USER, AGENT)

        (single,) = await provider.load(one, USER, AGENT)
        (multiple,) = await provider.load(many, USER, AGENT)

        assert single.values == multiple.values == (value,)
        assert {type(v) for v in (*single.values, *multiple.values)} == {type(value)}

    @pytest.mark.parametrize("kind", REFUSED)
    async def test_a_value_that_would_change_raises(
        self, provider: AgentMemoryProvider, kind: str
    ) -> None:
        """Before anything is written, with an error that names the concept and no value."""
        value_type, make = REFUSED[kind]
        concept = Concept("strange", "Anything", FactType.SINGLE, value_type=value_type)

        with pytest.raises(ValueError, match="'strange'") as caught:
            await provider.save(SingleFact(concept, make()), USER, AGENT)

        assert "1234" not in str(caught.value)
        assert await provider.load_all(USER, AGENT) == []


NAMES = [
    "a",
    "ab",
    "abc",
    "A",
    "a/b",
    "a\\b",
    "a%",
    "a%2Fb",
    "a_",
    "a.b",
    "a b",
    " a",
    "a ",
    ".",
    "..",
    "../a",
    "/a",
    "~",
    "*",
    "a'b",
    'a"b',
    "null",
    "con",
    "CON",
    "nul.txt",
    "-rf",
    "caf\u00e9",
    "cafe",
    "\u1e9e",
    "ss",
    "\uff41",
    "다크",
    "👩‍👩‍👧",
    "x" * 200,
    "x" * 199,
    "\u00e9" * 200,
]
"""Names that a careless store mixes up; all of them are different."""

Role = Callable[[str], tuple[Concept, MemorySubject, MemoryScope]]

ROLES: dict[str, Role] = {
    "keyword": lambda name: (Concept(name, "A concept"), USER, AGENT),
    "subject": lambda name: (THEME, MemorySubject(name, "A subject", 1), AGENT),
    "entity": lambda name: (THEME, PERSON.of(name), AGENT),
    "scope": lambda name: (THEME, USER, MemoryScope.Product(name)),
}


class Isolation:
    """A place is a scope, a subject and its entity, and a concept is a keyword."""

    @pytest.mark.parametrize("role", ROLES)
    async def test_names_never_mix(self, provider: AgentMemoryProvider, role: str) -> None:
        """Users may have any names: each finds only its own facts."""
        for number, name in enumerate(NAMES):
            concept, subject, scope = ROLES[role](name)
            await provider.save(SingleFact(concept, str(number)), subject, scope)

        found: list[tuple[str, ...]] = []
        for name in NAMES:
            concept, subject, scope = ROLES[role](name)
            found += [fact.values for fact in await provider.load(concept, subject, scope)]

        assert found == [(str(number),) for number in range(len(NAMES))]

    @pytest.mark.parametrize("role", ROLES)
    async def test_both_normal_forms_are_one_name(
        self, provider: AgentMemoryProvider, role: str
    ) -> None:
        """Names that look the same are the same."""
        concept, subject, scope = ROLES[role](normalized("NFD", "café"))
        await provider.save(SingleFact(concept, "found"), subject, scope)

        concept, subject, scope = ROLES[role](normalized("NFC", "café"))
        loaded = await provider.load(concept, subject, scope)

        assert [fact.values for fact in loaded] == [("found",)]

    async def test_scopes_of_one_name_are_apart(self, provider: AgentMemoryProvider) -> None:
        """The kind of a scope is part of it."""
        scopes = [
            MemoryScope.Agent("x"),
            MemoryScope.Feature("x"),
            MemoryScope.Product("x"),
            MemoryScope.CrossProduct("x"),
        ]
        for scope in scopes:
            await provider.save(theme(str(scope)), USER, scope)

        for scope in scopes:
            loaded = await provider.load_all(USER, scope)
            assert [fact.values for fact in loaded] == [(str(scope),)]

    async def test_names_are_not_run_together(self, provider: AgentMemoryProvider) -> None:
        """The borders between the parts of a place's name are part of its identity."""
        places = [
            (MemorySubject("bc", "", 1), MemoryScope.Product("a")),
            (MemorySubject("c", "", 1), MemoryScope.Product("ab")),
            (MemorySubject("b", "", 1, per_entity=True).of("c"), MemoryScope.Product("a")),
            (MemorySubject("b/c", "", 1), MemoryScope.Product("a")),
            (MemorySubject("c", "", 1), MemoryScope.Product("a/b")),
            (MemorySubject("b(c)", "", 1), MemoryScope.Product("a")),
        ]
        for number, (subject, scope) in enumerate(places):
            await provider.save(theme(str(number)), subject, scope)

        for number, (subject, scope) in enumerate(places):
            loaded = await provider.load_all(subject, scope)
            assert [fact.values for fact in loaded] == [(str(number),)]

    async def test_entities_of_one_subject_are_apart(self, provider: AgentMemoryProvider) -> None:
        """Neither Bob nor a subject of the same name without entity sees Alice's facts."""
        plain = MemorySubject("person", "Everyone", 2)
        await provider.save(theme("dark"), PERSON.of("alice"), AGENT)
        await provider.save(languages("java"), PERSON.of("bob"), AGENT)

        assert await provider.load(THEME, PERSON.of("bob"), AGENT) == []
        assert await provider.load(LANGUAGES, PERSON.of("alice"), AGENT) == []
        assert await provider.load_all(plain, AGENT) == []
        assert await provider.load_by_description("theme", PERSON.of("bob"), AGENT) == []
        assert len(await provider.load_all(PERSON.of("alice"), AGENT)) == 1

    async def test_descriptions_are_no_part_of_a_place(self, provider: AgentMemoryProvider) -> None:
        """An application that changes the description of a subject or concept finds its facts."""
        await provider.save(theme("dark"), USER, AGENT)
        renamed = MemorySubject("user", "The person who types", 9)

        loaded = await provider.load(Concept("ide-theme", "Colours"), renamed, AGENT)

        assert [fact.value for fact in loaded] == ["dark"]

    async def test_an_unbound_subject_is_refused(self, provider: AgentMemoryProvider) -> None:
        """An omitted entity is an error; it never means all entities."""
        await provider.save(theme("dark"), PERSON.of("alice"), AGENT)

        with pytest.raises(UnboundSubjectError, match=r"person\.of\("):
            await provider.save(theme("light"), PERSON, AGENT)
        with pytest.raises(UnboundSubjectError, match=r"person\.of\("):
            await provider.load(THEME, PERSON, AGENT)
        with pytest.raises(UnboundSubjectError, match=r"person\.of\("):
            await provider.load_all(PERSON, AGENT)
        with pytest.raises(UnboundSubjectError, match=r"person\.of\("):
            await provider.load_by_description("theme", PERSON, AGENT)


TASKS = 50


class Concurrency:
    """Any number of tasks may call at once, and any of them may be cancelled."""

    async def test_concurrent_saves_all_land(self, provider: AgentMemoryProvider) -> None:
        """No save of many tasks is lost."""
        facts = [languages(f"a{number}", f"b{number}") for number in range(TASKS)]

        async with anyio.create_task_group() as tasks:
            for fact in facts:
                tasks.start_soon(provider.save, fact, USER, AGENT)

        loaded = await provider.load(LANGUAGES, USER, AGENT)
        assert sorted(fact.id for fact in loaded) == sorted(fact.id for fact in facts)
        assert {fact.values for fact in loaded} == {fact.values for fact in facts}

    async def test_concurrent_saves_leave_one_current_value(
        self, provider: AgentMemoryProvider
    ) -> None:
        """The last one is current, completely. The same value from all tasks is stored once."""
        async with anyio.create_task_group() as tasks:
            for number in range(TASKS):
                tasks.start_soon(provider.save, theme(f"v{number}"), USER, AGENT)
                tasks.start_soon(provider.save, languages("java"), USER, AGENT)

        (last,) = await provider.load(THEME, USER, AGENT)
        assert last.value in {f"v{number}" for number in range(TASKS)}
        assert [fact.values for fact in await provider.load(LANGUAGES, USER, AGENT)] == [("java",)]

    async def test_each_task_reads_what_it_saved(self, provider: AgentMemoryProvider) -> None:
        """After a save has returned, every later read sees it, during other calls too."""
        seen: list[bool] = []

        async def save_and_load(number: int) -> None:
            fact = languages(f"v{number}")
            await provider.save(fact, USER, AGENT)
            seen.append(fact in await provider.load(LANGUAGES, USER, AGENT))

        async with anyio.create_task_group() as tasks:
            for number in range(TASKS):
                tasks.start_soon(save_and_load, number)

        assert seen == [True] * TASKS

    async def test_one_task_saves_in_its_order(self, provider: AgentMemoryProvider) -> None:
        """Also while others save into the same place."""

        async def save(task: str) -> None:
            for number in range(5):
                await provider.save(languages(f"{task}{number}"), USER, AGENT)

        async with anyio.create_task_group() as tasks:
            for task in "abcdef":
                tasks.start_soon(save, task)

        values = [fact.values[0] for fact in await provider.load(LANGUAGES, USER, AGENT)]
        for task in "abcdef":
            own = [value for value in values if value.startswith(task)]
            assert own == [f"{task}{number}" for number in range(5)]

    async def test_a_save_in_a_cancelled_scope_is_whole_or_not_there(
        self, provider: AgentMemoryProvider
    ) -> None:
        """If it returns, the fact is stored.

        If it raises, the fact is stored completely or not at all.
        """
        fact, is_acknowledged = languages("kotlin", "java", "rust"), False

        with anyio.CancelScope() as scope:
            scope.cancel()
            await provider.save(fact, USER, AGENT)
            is_acknowledged = True

        kept = await provider.load(LANGUAGES, USER, AGENT)
        assert kept in ([[fact]] if is_acknowledged else [[fact], []])
        await _check_alive(provider)

    async def test_a_save_that_runs_out_of_time_is_whole_or_not_there(
        self, provider: AgentMemoryProvider
    ) -> None:
        """At any moment."""
        acknowledged: list[MultipleFacts[str]] = []
        attempted: list[MultipleFacts[str]] = []
        for microseconds in (0, 1, 10, 50, 100, 200, 500, 1000):
            fact = languages(f"a{microseconds}", f"b{microseconds}")
            attempted.append(fact)
            with anyio.move_on_after(microseconds / 1_000_000):
                await provider.save(fact, USER, AGENT)
                acknowledged.append(fact)

        kept = await provider.load(LANGUAGES, USER, AGENT)

        assert [fact for fact in kept if fact not in attempted] == []
        assert [fact for fact in acknowledged if fact not in kept] == []
        await _check_alive(provider)

    @pytest.mark.parametrize("steps", [0, 1, 2, 5])
    async def test_cancelled_tasks_disturb_no_other(
        self, provider: AgentMemoryProvider, steps: int
    ) -> None:
        """Cancelled tasks leave whole facts, and other tasks continue."""
        doomed = [languages(f"a{number}", f"b{number}") for number in range(20)]
        acknowledged: list[MultipleFacts[str]] = []

        async def save(fact: MultipleFacts[str]) -> None:
            await provider.save(fact, USER, AGENT)
            acknowledged.append(fact)

        async with anyio.create_task_group() as others:
            others.start_soon(save, languages("other1", "other2"))
            async with anyio.create_task_group() as tasks:
                for fact in doomed:
                    tasks.start_soon(save, fact)
                for _ in range(steps):
                    await anyio.lowlevel.checkpoint()
                tasks.cancel_scope.cancel()

        kept = await provider.load(LANGUAGES, USER, AGENT)
        values = {fact.values for fact in kept}
        assert ("other1", "other2") in values
        assert {fact.values for fact in acknowledged} <= values
        assert values <= {("other1", "other2"), *(fact.values for fact in doomed)}
        await _check_alive(provider)


async def _check_alive(provider: AgentMemoryProvider) -> None:
    """After an interruption a provider still stores facts."""
    await provider.save(theme("after"), USER, AGENT)
    assert [fact.value for fact in await provider.load(THEME, USER, AGENT)] == ["after"]


class ProviderContract(CurrentFacts, FactsByDescription, Values, Isolation, Concurrency):
    """The contract of `AgentMemoryProvider`: its four methods.

    Override the `provider` fixture.
    """

    @pytest.fixture
    def provider(self) -> AgentMemoryProvider:
        """Return a new, empty provider."""
        raise NotImplementedError("Override the fixture `provider` to return a new provider")

    def test_it_is_a_provider(self, provider: AgentMemoryProvider) -> None:
        """The store has all four methods."""
        assert isinstance(provider, AgentMemoryProvider)
