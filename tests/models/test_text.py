"""Unicode normalisation: the result of unicodedata, without its quadratic time."""
# ruff: noqa: RUF001 - characters of full width are among what is tested

import sys
from typing import get_args
from unicodedata import combining, normalize

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factmem.models import _values as module
from factmem.models._values import case_folded, normalized
from tests.tables import table

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
