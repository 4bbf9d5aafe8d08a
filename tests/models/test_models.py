"""Concepts, facts, subjects, scopes and places as values."""

import pickle
from dataclasses import FrozenInstanceError, replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from factmem.errors import UnboundSubjectError
from factmem.models.facts import (
    Concept,
    FactSource,
    FactType,
    MultipleFacts,
    SingleFact,
    SourceKind,
)
from factmem.models.places import MemoryScope, MemorySubject, Place

THEME = Concept("ide-theme", "The user's preferred IDE theme")
AGE = Concept("age", "The user's age", value_type=int)
TAGS = Concept("tags", "Tags", FactType.MULTIPLE)
PERSON = MemorySubject("person", "A person", 2, per_entity=True)
SAID = datetime(2020, 1, 2, 3, 4, 5, 6, tzinfo=UTC)


class TestConcept:
    def test_it_compares_by_value(self) -> None:
        """All fields count, including the value type, and it is hashable."""
        same = Concept("ide-theme", "The user's preferred IDE theme")

        assert same == THEME
        assert hash(same) == hash(THEME)
        assert Concept("ide-theme", "Another") != THEME
        assert Concept("ide-theme", THEME.description, FactType.MULTIPLE) != THEME
        assert Concept("ide-theme", THEME.description, value_type=int) != THEME
        assert THEME != "ide-theme"

    def test_it_is_frozen(self) -> None:
        """Neither an assignment nor the creation of its codec changes it."""
        target: Any = Concept("k", "d", value_type=int)
        before = repr(target), hash(target)
        target.codec.check(1, "k")

        assert (repr(target), hash(target)) == before
        with pytest.raises(FrozenInstanceError, match="'keyword' cannot be set"):
            target.keyword = "other"
        with pytest.raises(FrozenInstanceError, match="'keyword' cannot be deleted"):
            del target.keyword

    def test_its_repr_is_code(self) -> None:
        """The repr is the expression that creates it."""
        shown = "Concept('age', \"The user's age\", SINGLE, value_type=<class 'int'>)"

        assert repr(AGE) == shown

    def test_its_keyword_is_normalized(self) -> None:
        """Both spellings of é are one concept."""
        assert Concept("cafe\u0301", "d") == Concept("caf\u00e9", "d")


class TestFacts:
    def test_fields_have_defaults_that_differ(self) -> None:
        """Each fact has its own id, and the current time."""
        one, other = SingleFact(THEME, "dark"), SingleFact(THEME, "dark")

        assert one != other
        assert one.id != other.id
        assert abs(datetime.now(UTC) - one.timestamp) < timedelta(minutes=1)
        assert (one.importance, one.source, one.expires_at) == (0.5, None, None)

    def test_facts_are_values(self) -> None:
        """They are frozen, hashable, and equal whatever a store recorded about them."""
        fact = SingleFact(THEME, "dark", timestamp=SAID, id="x")
        target: Any = fact

        assert replace(fact, confirmed_at=SAID) == fact
        assert len({fact, replace(fact, confirmed_at=SAID)}) == 1
        assert pickle.loads(pickle.dumps(fact)) == fact
        with pytest.raises(FrozenInstanceError):
            target.value = "light"

    def test_times_are_kept_in_utc(self) -> None:
        """They may be passed in any zone; the moment stays."""
        noon = datetime(2024, 6, 1, 12, tzinfo=timezone(timedelta(hours=9)))

        fact = SingleFact(THEME, "dark", timestamp=noon, expires_at=noon)

        assert fact.timestamp == noon
        assert fact.timestamp.tzinfo is UTC
        assert fact.expires_at is not None
        assert fact.expires_at.tzinfo is UTC

    def test_an_id_is_normalized(self) -> None:
        """Like every name: two spellings of one id would be two facts."""
        assert SingleFact(THEME, "dark", id="cafe\u0301").id == "caf\u00e9"

    def test_a_value_is_converted_to_its_type_and_copied(self) -> None:
        """An int is a valid float, and a fact does not share the caller's list."""
        given = [1]
        weight = SingleFact(Concept("weight", "Kilograms", value_type=float), 7)
        numbers = SingleFact(Concept("numbers", "Lucky numbers", value_type=list[int]), given)

        given.append(2)

        assert type(weight.value) is float
        assert numbers.value == [1]

    @pytest.mark.parametrize("importance", [0, 0.5, 1])
    def test_an_importance_is_a_number_from_0_to_1_inclusive(self, importance: float) -> None:
        """Kept as a float: 1 and 1.0 are the same importance."""
        kept = SingleFact(THEME, "dark", importance=importance).importance
        assert (kept, type(kept)) == (importance, float)

    def test_values_may_be_any_iterable(self) -> None:
        given: Any = (value for value in ["a", "b"])
        assert MultipleFacts(TAGS, given).values == ("a", "b")

    def test_both_kinds_of_fact_have_values(self) -> None:
        """Callers can iterate over both in the same way."""
        assert SingleFact(AGE, 3).values == (3,)


class TestSources:
    def test_a_kind_is_one_of_five(self) -> None:
        """It may be passed by its name or its string."""
        text: Any = "user"
        wrong: Any = "rumour"

        assert FactSource(text) == FactSource(SourceKind.USER)
        with pytest.raises(ValueError, match=r"one of SourceKind\.USER"):
            FactSource(wrong)

    def test_a_source_matches_those_with_more_fields(self) -> None:
        """Fields that it does not set do not matter."""
        exact = FactSource(SourceKind.USER, "chat", 0, "quote", "model")

        assert FactSource(SourceKind.USER).covers(exact)
        assert FactSource(SourceKind.USER, "chat", 0).covers(exact)
        assert exact.covers(exact)
        assert not FactSource(SourceKind.TOOL).covers(exact)
        assert not FactSource(SourceKind.USER, message=1).covers(exact)
        assert not exact.covers(FactSource(SourceKind.USER))


class TestSubjects:
    def test_a_subject_is_bound_to_an_entity(self) -> None:
        """Binding returns a new value of the same subject."""
        alice = PERSON.of("alice")

        assert (alice.name, alice.entity) == ("person", "alice")
        assert alice.prompt_description == PERSON.prompt_description
        assert alice == PERSON.of("alice") != PERSON.of("bob")
        assert alice.of("bob") == PERSON.of("bob")

    def test_an_unbound_subject_says_how_to_bind_it(self) -> None:
        """Handlers of both exception classes catch the error."""
        with pytest.raises(UnboundSubjectError, match=r"person\.of\(entity\)") as caught:
            PERSON.check_bound()

        assert isinstance(caught.value, ValueError)
        with pytest.raises(UnboundSubjectError):
            Place(MemoryScope.Agent("a"), PERSON)
        PERSON.of("alice").check_bound()

    def test_everything_is_the_least_specific(self) -> None:
        """Every other subject wins over it."""
        assert MemorySubject.EVERYTHING.priority_level > 10**9
        MemorySubject.EVERYTHING.check_bound()


class TestScopesAndPlaces:
    @pytest.mark.parametrize(
        ("scope", "text"),
        [
            (MemoryScope.Agent("painter"), "agent/painter"),
            (MemoryScope.Feature("a/b"), "feature/a/b"),
            (MemoryScope.Product("my-app"), "product/my-app"),
            (MemoryScope.CrossProduct(), "organization/default"),
            (MemoryScope.CrossProduct("acme"), "organization/acme"),
        ],
    )
    def test_a_scope_is_formatted_and_parsed(self, scope: MemoryScope, text: str) -> None:
        """The string is type and name, and the name may contain a slash."""
        assert str(scope) == text
        assert MemoryScope.parse(text) == scope

    def test_a_place_compares_by_names(self) -> None:
        """The description of a subject does not count."""
        place = Place(MemoryScope.Agent("a"), PERSON.of("alice"))
        same = Place(
            MemoryScope.Agent("a"), MemorySubject("person", "", 9, per_entity=True).of("alice")
        )

        assert place.identity == same.identity == ("agent", "a", "person", "alice")
        assert Place.of_identity(place.identity).identity == place.identity
        assert str(place) == "agent/a person(alice)"
        everyone = Place(MemoryScope.Agent("a"), MemorySubject("person", "", 9))
        assert everyone.identity == ("agent", "a", "person", None)
        assert str(everyone) == "agent/a person"
        assert Place.of_identity(everyone.identity).subject.entity is None
