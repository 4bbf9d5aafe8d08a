"""The rule for names."""

# ruff: noqa: RUF001 - characters of full width are among what is tested
import sys
import unicodedata
from enum import Enum
from typing import Any, get_args
from unicodedata import combining, normalize

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factmem.models import _values as module
from factmem.models._values import (
    MAX_NAME,
    case_folded,
    checked_name,
    checked_text,
    is_text,
    normalized,
)
from factmem.models.facts import Concept
from factmem.models.places import MemoryScope, MemorySubject, Place
from tests.tables import table


@table(
    "name",
    ["a", "..", "a/b", "con", "A b", "다크", "👩‍👩‍👧", "x" * MAX_NAME, "é" * MAX_NAME, "'\"%_"],
)
def test_unusual_names_are_accepted(name: str) -> None:
    """Names that would be dangerous in a path or a query are allowed: stores encode them."""
    assert checked_name(name, "name") == name


@table(
    ("name", "message"),
    [
        ("", "empty: give it a name"),
        (" \t ", "control characters|empty"),
        ("   ", "empty: give it a name"),
        ("\u00a0\u3000", "empty: give it a name"),
        ("x" * (MAX_NAME + 1), "201 characters: at most 200"),
        ("é" * (MAX_NAME + 1), "201 characters: at most 200"),
        ("a\nb", "control characters: remove them"),
        ("a\x00", "control characters: remove them"),
        ("\x7f", "control characters: remove them"),
        ("a\x85", "control characters: remove them"),
        ("a\ud800", "lone surrogate"),
    ],
)
def test_malformed_names(name: str, message: str) -> None:
    """The message says what the name is for, what is wrong and what to do."""
    with pytest.raises(ValueError, match=f"A subject name .*({message})"):
        checked_name(name, "subject name")


@pytest.mark.parametrize("name", [None, 7, b"alice", ["alice"]])
def test_names_must_be_strings(name: Any) -> None:
    """The application knows how to convert a number into an id."""
    with pytest.raises(TypeError, match=f"scope name must be a str, not {type(name).__name__}"):
        checked_name(name, "scope name")


def test_length_counts_after_normalisation() -> None:
    """One visible character may arrive as two."""
    assert checked_name("e\u0301" * MAX_NAME, "name") == "é" * MAX_NAME


@given(st.text(max_size=MAX_NAME))
def test_every_string_is_a_name_in_one_form_or_raises(text: str) -> None:
    """Both normal forms are one name, and validating a name again changes nothing."""
    try:
        name = checked_name(text, "name")
    except ValueError:
        normal = unicodedata.normalize("NFC", text)
        assert not normal.strip() or any(unicodedata.category(c) == "Cc" for c in normal)
        return
    assert name == unicodedata.normalize("NFC", text)
    assert checked_name(unicodedata.normalize("NFD", text), "name") == name
    assert checked_name(name, "name") == name
    assert is_text(name)


def test_free_strings_accept_all_valid_unicode() -> None:
    """Descriptions and quotes may hold anything that UTF-8 can encode."""
    assert checked_text("a\n\x00", "description") == "a\n\x00"
    with pytest.raises(ValueError, match="A quote contains a lone surrogate"):
        checked_text("\udfff", "quote")
    nothing: Any = None
    with pytest.raises(TypeError, match="quote must be a str, not NoneType"):
        checked_text(nothing, "quote")


@pytest.mark.parametrize(
    ("what", "message"), [("entity", "An entity is"), ("keyword", "A keyword is")]
)
def test_messages_name_what_they_are_about(what: str, message: str) -> None:
    """As a sentence does."""
    with pytest.raises(ValueError, match=f"^{message} empty"):
        checked_name(" ", what)


def test_an_enum_of_strings_is_the_name_that_its_value_is() -> None:
    """Its own `__str__` would give the class name, and the result is a plain string."""

    class Who(str, Enum):  # noqa: UP042 - many applications have such a class
        ALICE = "alice"
        ZOE = "zoë"

    person = MemorySubject("user", "A person", 1, per_entity=True)
    for who in Who:
        place = Place(MemoryScope.Product(who), person.of(who))
        assert place.identity == ("product", who.value, "user", who.value)
        assert {type(each) for each in place.identity} == {str}
        assert type(Concept(who, "").keyword) is str
    assert person.of(Who.ALICE, Who.ZOE).levels == ("alice", "zoë")


FORMS: tuple[module.Form, ...] = get_args(module.Form)


@pytest.mark.parametrize("form", FORMS)
@given(st.text())
def test_a_normal_form_is_the_usual_one(form: module.Form, text: str) -> None:
    assert normalized(form, text) == normalize(form, text)


@table("form", FORMS)
@table(
    "text", ["=" * 40 + "\u0338", "-" * 99, "e\u0301" * 99, "한" * 99, "カ\uff9e" * 99, "→" * 31]
)
def test_repeated_symbols_and_letters_are_not_a_run_of_marks(form: module.Form, text: str) -> None:
    assert normalized(form, text) == normalize(form, text)


def test_every_sorted_mark_counts_towards_a_run() -> None:
    """Otherwise a run of it would be sorted in one piece."""
    missed = [
        char
        for char in map(chr, range(sys.maxunicode + 1))
        if combining(normalize("NFKD", char)[0]) and len(module._run.findall(char * 60)) < 2
    ]

    assert missed == []


def test_a_long_run_is_sorted_in_parts() -> None:
    """Sorted together, 30 marks of one class and 30 of a lower one would change places."""
    marks = "\u0301" * 30 + "\u0316" * 30

    assert normalized("NFD", "a" + marks) == "a" + marks
    assert normalize("NFD", "a" + marks) != "a" + marks


def test_case_and_width_are_folded() -> None:
    assert case_folded("ＫＯＴＬＩＮ Straße ①") == "kotlin strasse 1"
    assert case_folded("PLAIN") == "plain"
