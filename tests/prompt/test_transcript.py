"""Quotes, keywords and tokens: the small rules that others build on."""
# ruff: noqa: RUF001 - characters of full width are among what is tested

import pytest

from factmem._text.spelling import Keywords, tidy_keyword
from factmem.llm.base import estimate_tokens
from factmem.models.facts import Concept
from factmem.prompt._transcript import Transcript, folded
from factmem.prompt.memory_message import render
from tests.tables import table
from tests.world import languages, note, placed, user


@table(
    ("said", "quote"),
    [
        ("I prefer Kotlin", "i PREFER  kotlin"), ("I prefer\nKotlin", "prefer Kotlin"),
        ("ＫＯＴＬＩＮ ①", "kotlin 1"), ("Straße", "STRASSE"), ("café", "cafe\u0301"),
        ("나는 서울에 산다", "서울에산다"), ("서울", "서울"),
        ("我喜欢深色\n主题", "我喜欢深色主题"), ("暗い テーマ が好き", "暗いテーマが好き"),
        ("it\u2019s \u201cfine\u201d \u2013 really", 'it\'s "fine" - really'),
        ("soft\u00adware and zero\u200bwidth", "software and zerowidth"),
        ("He said yes.", '"He said yes."'), ("5", "5"), ("네!", "네"), ("好。", "好"),
    ],
)  # fmt: skip
def test_a_quote_is_found_however_a_model_copies_it(said: str, quote: str) -> None:
    assert Transcript([user(said)]).span(0, quote) is not None


@table(
    ("said", "quote"),
    [
        ("I prefer Kotlin", "I prefer Java"),
        ("I am not an admin", "I am an admin"),
        ("I am not an admin", "I am ... an admin"),
        ("네, 좋아요", "네"),
        ("I am 5", "5"),
        ("OK then", "ok"),
        ("anything", ""),
        ("anything", "\u200b"),
        ("anything", '"'),
    ],
)
def test_an_invented_quote_is_not_found(said: str, quote: str) -> None:
    assert Transcript([user(said)]).span(0, quote) is None


def test_folding_twice_equals_folding_once() -> None:
    for text in ("ﬁ Å İ ŉ ǰ ΰ", "ﷺ ㍿ ½", "ΑΣ ας"):
        assert folded(folded(text)) == folded(text)


def test_lone_surrogates_in_a_chat_do_no_harm() -> None:
    """A framework may cut a string inside an emoji."""
    transcript = Transcript([user("I like tea \ud83d")])

    assert transcript.span(0, "I like tea") is not None
    assert "I like tea \ufffd" in transcript.lines()


def test_text_parts_are_read_and_pictures_are_not() -> None:
    parts = [
        {"type": "text", "text": "I like"},
        {"type": "image_url"},
        {"type": "text", "text": "tea"},
    ]

    assert Transcript([{"role": "user", "content": parts}]).span(0, "I like tea") is not None


@table(
    ("given", "tidy"),
    [
        ("Preferred Language", "preferred-language"),
        ("preferred_language", "preferred-language"),
        ("preferredLanguage", "preferred-language"),
        ("  PREFERRED--LANGUAGE  ", "preferred-language"),
        ("IDE theme (colour)", "ide-theme-colour"),
        ("C++ version", "c++-version"),
        ("C# version", "c#-version"),
        ("node.js version", "node-js-version"),
        ("사는 곳", "사는-곳"),
        ("पसंदीदा भाषा", "पसंदीदा-भाषा"),
        ("ＷＩＤＥ", "wide"),
        ("🎨 theme", "theme"),
    ],
)
def test_new_keywords_are_normalized(given: str, tidy: str) -> None:
    assert tidy_keyword(given) == tidy
    assert tidy_keyword(tidy) == tidy


@table(
    "given", ["../x", "a/b", "a\\b", "..", "🎨", "-", "x" * 65, "a\x00b", "a\x1bb", "／etc", "++"]
)
def test_keywords_that_are_refused(given: str) -> None:
    with pytest.raises(ValueError, match=r"path|letter|longer|control") as caught:
        tidy_keyword(given)
    assert given not in str(caught.value)


def test_a_known_keyword_is_found_in_any_spelling() -> None:
    keywords = Keywords([Concept("preferred-language", ""), Concept("C++", ""), Concept("C", "")])

    for spelling in ("Preferred Language", "preferred_language", "PREFERREDLANGUAGE "):
        assert keywords.known(spelling) == "preferred-language"
    assert (keywords.known("c++"), keywords.known("c"), keywords.known("d")) == ("C++", "C", None)


def test_an_exact_spelling_wins_over_a_similar_one() -> None:
    keywords = Keywords([Concept("ab-c", ""), Concept("a-bc", "")])

    assert (keywords.known("a-bc"), keywords.known("A BC")) == ("a-bc", "ab-c")


# Tokens

SAMPLES = [
    ("English", "prefers Kotlin over Java for backend services", 7, 14),
    ("Korean", "서울 강남구에 살고 있으며 지하철로 출퇴근합니다", 15, 35),
    ("Chinese", "住在上海市浦东新区，每天坐地铁上班", 12, 28),
    ("Japanese", "東京都渋谷区に住んでいて、電車で通勤しています", 15, 36),
    ("emoji", "🎉🚀🍕", 3, 12),
    ("an id", "550e8400-e29b-41d4-a716-446655440000", 15, 40),
]
"""Strings, and the least and the most that o200k_base and twice cl100k_base would count."""


@table(("what", "text", "least", "most"), SAMPLES)
def test_the_estimate_is_close(what: str, text: str, least: int, most: int) -> None:
    assert least <= estimate_tokens(text) <= most, what


def test_the_estimate_of_unusual_strings() -> None:
    assert estimate_tokens("") == 0
    assert estimate_tokens("\ud800") > 0
    assert estimate_tokens("x" * 1_000_000) > 100_000


def test_the_estimate_grows_with_the_string() -> None:
    """A part of a string never has a higher estimate than the whole."""
    text = render(placed([note("a"), languages("한국어", "Deutsch", "🎉")])).text

    counts = [estimate_tokens(text[:end]) for end in range(len(text) + 1)]

    assert counts == sorted(counts)
