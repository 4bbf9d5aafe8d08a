"""Word splitting: tables by script, and strings of any kind."""

import re
import subprocess
import sys
import time
import unicodedata
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st

import factmem
from factmem._text.analysis import (
    Word,
    content_words,
    default_stem,
    snowball_stem,
    unstemmed,
    words,
)
from tests.tables import table


def terms(text: str) -> list[str]:
    """Return a text's terms without English stemming, which has its own tests."""
    return list(chain.from_iterable(words(text, stem=str)))


@table(
    ("text", "expected"),
    [
        ("Mara's cat, Biscuit!", ["mara", "cat", "biscuit"]),
        ("Mara\u2019s brothers' boats", ["mara", "brothers", "boats"]),
        ("don't, I've, O'Neil", ["dont", "i", "oneil"]),
        ("preferred-language", ["preferred", "language"]),
        ("user_home_city", ["user", "home", "city"]),
        ("maxRetryCount", ["maxretrycount", "max", "retry", "count"]),
        ("PostgreSQL", ["postgresql", "postgre", "sql"]),
        ("EUBlueCard", ["eubluecard", "eu", "blue", "card"]),
        ("GmbH", ["gmbh"]),
        ("HTTP", ["http"]),
        ("C++, C# and C", ["c++", "c", "c#", "c", "and", "c"]),
        ("wellcast-v3", ["wellcast", "v3"]),
        ("IONIQ5, IONIQ 5, ioniq-5", ["ioniq", "5"] * 3),
        ("iPhone15ProMax", ["iphone", "15", "promax", "pro", "max"]),
        ("17th of May, 9am, utf8", ["17", "th", "of", "may", "9", "am", "utf", "8"]),
        ("a1b2c3 B12 9f0eab4", ["a1b2c3", "b12", "9f0eab4"]),
    ],
)
def test_words_of_spaced_scripts(text: str, expected: list[str]) -> None:
    """Punctuation separates words; identifiers are split and also kept whole."""
    assert terms(text) == expected


@table(
    ("text", "expected"),
    [
        ("2023-05-07", ["2023", "5", "7"]),
        ("4.35 %", ["4.35", "4", "35"]),
        ("at 10:05", ["at", "10:05", "10", "5"]),
        ("300,000", ["300000"]),
        ("0.05 mg", ["0.05", "0", "5", "mg"]),
        ("007 and 0", ["7", "and", "0"]),
        ("1.75kg", ["1.75", "1", "75", "kg"]),
        ("v3.1", ["v3", "1"]),
    ],
)
def test_numbers_and_dates_are_kept(text: str, expected: list[str]) -> None:
    """Leading zeros and thousands separators are removed: 300,000 matches 300000."""
    assert terms(text) == expected


@pytest.mark.parametrize(
    "text", ["010-1234-5678", "010 1234 5678", "010-1234-5678로", "(010-1234-5678)"]
)
def test_groups_of_digits_are_also_one_number(text: str) -> None:
    """Each group stays a word, and the number without separators matches too."""
    groups = words(text)[:3]

    assert groups == [(group, "1012345678") for group in ("10", "1234", "5678")]
    assert words("01012345678") == [("1012345678",)]


@pytest.mark.parametrize(
    "text", ["2026-05-17 10:15", "2019-2023", "2019 2020 2021", "555-0199", "0 1 2 3 4 5 6 7 8 9"]
)
def test_adjacent_numbers_are_not_joined(text: str) -> None:
    """Days, spans of years and lists of numbers are not one number of nine digits."""
    assert not [term for term in terms(text) if len(term) > 5]


@table(
    ("text", "expected"),
    [
        ("旅行の予定", [("旅行", "行の"), ("旅",), ("行",), ("予定",), ("予",), ("定",)]),
        ("予定です", [("予定", "定で", "です"), ("予",), ("定",)]),
        ("犬を食べた", [("犬", "犬を"), ("食", "食べ", "べた")]),
        ("そばを", [("そば", "ばを")]),
        ("5月に", [("5",), ("5월", "月に")]),
        ("她的猫", [("她的",), ("猫",)]),
    ],
)
def test_endings_belong_to_the_character_before(text: str, expected: list[tuple[str, ...]]) -> None:
    """An inflected word is one word with its ending, and its first character is a term."""
    assert words(text) == expected


@table(
    ("text", "expected"),
    [
        ("서윤이는 교사", [("서윤", "윤이", "이는", "서유", "이느"), ("교사",)]),
        ("차 한 잔", [("차",), ("한",), ("잔",)]),
        ("2023년 5월에", [("2023",), ("2023년",), ("5",), ("5월", "월에")]),
        ("15인치", [("15",), ("15인", "인치")]),
        ("TLS인증서", [("tls",), ("인증", "증서")]),
        ("카톡!", [("카톡",)]),
    ],
)
def test_korean_words_are_pairs_of_syllables(text: str, expected: list[tuple[str, ...]]) -> None:
    """The pairs of a word belong together, so a particle does not count as a separate word."""
    assert words(text) == expected


@table(
    ("text", "expected"),
    [
        ("東京タワー", ["東京", "京タ", "タワ", "ワー", "東", "京"]),
        ("すし", ["すし"]),
        ("猫", ["猫"]),
        ("她喜欢四川菜", ["她", "喜欢", "欢四", "四川", "川菜", *"喜欢四川菜"]),
        ("2023年5月17日", ["2023", "2023년", "5", "5월", "17", "17일"]),
        ("三只猫,两条狗", ["三只", "只猫", *"三只猫", "两条", "条狗", *"两条狗"]),
        ("ภาษาไทย", ["ภา", "าษ", "ษา", "าไ", "ไท", "ทย"]),
    ],
)
def test_scripts_without_spaces_are_pairs_of_characters(text: str, expected: list[str]) -> None:
    """A single character stays; counters in dates match in Japanese, Chinese and Korean."""
    assert terms(text) == expected


@table(
    ("one", "other"),
    [
        ("\uff2b\uff2f\uff34\uff2c\uff29\uff2e", "kotlin"),  # full width
        ("ｶﾀｶﾅ", "カタカナ"),
        ("한글", "한글"),  # the first decomposed, as macOS writes file names
        ("cafe\u0301", "café"),
        ("Umea", "Umeå"),
        ("STRASSE", "Straße"),
        ("iii", "Ⅲ"),
        ("ﬁsh", "fish"),
        ("co\u00adop\u200der", "cooper"),
        ("И", "и"),
        ("②", "2"),
    ],
)
def test_forms_of_the_same_word_match(one: str, other: str) -> None:
    """Width, case, composition, ligatures and invisible characters do not matter."""
    assert terms(one) == terms(other) != []


def test_different_letters_stay_different() -> None:
    """Only accents on Latin letters are folded: й is not и, ガ is not カ."""
    assert terms("й") != terms("и")
    assert terms("ガス") != terms("カス")
    assert terms("हिन्दी") == ["हिन्दी"]


def test_a_long_text_is_normalised_like_a_short_one() -> None:
    """Normalising in chunks changes nothing between spaces."""
    decomposed = unicodedata.normalize("NFD", "서윤은 café에서 카톡을 보냈다 ")

    assert words(decomposed * 200) == words("서윤은 café에서 카톡을 보냈다") * 200


def test_emoji_are_words() -> None:
    """A joined sequence gives its members; skin tones and variation selectors are ignored."""
    assert terms("I ❤️ 🍕!") == ["i", "❤", "🍕"]
    assert terms("👩‍👩‍👧") == ["👩", "👩", "👧"]


def test_snowball_is_the_default_if_it_is_installed() -> None:
    """Installing `snowballstemmer` is enough."""
    assert default_stem() is snowball_stem
    assert words("swimming") == [("swim",)]
    assert words("swimming", stem=unstemmed) == [("swimming",)]


@pytest.mark.storm
def test_without_the_package_words_are_whole() -> None:
    """Recall still works; requesting Snowball names the extra."""
    program = """
        import sys
        sys.modules["snowballstemmer"] = None
        from factmem.errors import MissingExtraError
        from factmem._text.analysis import words
        from factmem._text.analysis import snowball_stem
        print(words("swimming tablets"))
        try:
            snowball_stem("tablets")
        except MissingExtraError as error:
            print(error)
    """
    done = subprocess.run(
        [sys.executable, "-c", dedent(program)], capture_output=True, text=True, check=True
    )

    assert done.stdout.splitlines() == [
        "[('swimming',), ('tablets',)]",
        "Snowball stems need the package snowballstemmer: pip install 'factmem[recall]'",
    ]


@pytest.mark.storm
@pytest.mark.parametrize("text", ["raise RuntimeError('broken')", "def stemmer(language): ..."])
def test_a_broken_stemmer_is_ignored(text: str, tmp_path: Path) -> None:
    """An installed stemmer may not work; recalls do, and the log reports it once."""
    (tmp_path / "snowballstemmer.py").write_text(text)
    program = f"""
        import sys
        sys.path.insert(0, {str(tmp_path)!r})
        from factmem._text.analysis import words
        print(words("swimming tablets"), words("brooms"))
    """

    done = subprocess.run(
        [sys.executable, "-c", dedent(program)], capture_output=True, text=True, check=True
    )

    assert done.stdout.strip() == "[('swimming',), ('tablets',)] [('brooms',)]"
    assert done.stderr.count("snowballstemmer is installed and cannot be used") == 1


def test_threads_do_not_share_a_stemmer() -> None:
    """A Snowball stemmer holds its word in itself, so concurrent threads need their own."""
    plain = [f"{stem}ations" for stem in ("gener", "oper", "communic", "nation", "determin")]
    alone = [snowball_stem(word) for word in plain]

    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(snowball_stem, plain * 400))

    assert together == alone * 400


@table(
    ("one", "other"),
    [
        ("в мастерской", "мастерская"),
        ("два велосипеда", "велосипедом"),
        ("ركبتها", "ركبة"),
        ("للإيجار", "الإيجار"),
        ("딸은", "딸이"),
        ("무슨 약을", "먹는 약"),
        ("어디에서 자랐어", "자란 곳"),
        ("订婚了", "订了婚"),
    ],
)
def test_inflected_forms_have_a_common_term(one: str, other: str) -> None:
    """Endings are removed by script; a Chinese character and a Korean syllable are found alone."""
    first, second = (set(chain.from_iterable(words(each))) for each in (one, other))

    assert first & second


def test_names_with_digits_and_function_words_keep_their_endings() -> None:
    """A name is not inflected, and the list of function words has whole words."""
    assert words("v3s does eine") == [("v3s",), ("does",), ("eine",)]


@table(
    ("question", "content"),
    [
        ("What does her son do?", [("son",)]),
        ("¿De quién es la casa y por qué son verdes?", [("casa",), ("verd",)]),
        ("Was war die Farbe?", [("farb",)]),
        ("Did the war die down?", [("war",), ("die",), ("down",)]),
        ("Кем она работает?", [("работа",)]),
        ("أين تسكن الآن؟", [("تسك",), ("الان",)]),
        ("the who", []),
    ],
)
def test_function_words_are_those_of_the_questions_language(
    question: str, content: list[Word]
) -> None:
    """ "son", "die" and "war" are function words in one language and nouns or verbs in another."""
    assert content_words(words(question)) == content


texts = st.text(st.characters(exclude_categories=()), max_size=200)


@given(texts)
def test_any_string_can_be_analysed(text: str) -> None:
    """No string raises, lone surrogates included, and no term is empty."""
    found = words(text)

    assert all(word and all(word) for word in found)


@given(texts, texts)
def test_a_line_break_separates(before: str, after: str) -> None:
    """The words of two lines are the words of each line."""
    assert words(f"{before}\n{after}") == words(before) + words(after)


@given(st.text(st.sampled_from("aA1ß é가한漢カ'\u2019._-+#🍕\u0301\u200d"), max_size=30))
def test_case_matters_only_within_identifiers(text: str) -> None:
    """A search in lower case finds capitals."""
    assert set(words(text.lower())) <= set(words(text)) | set(words(text.upper().lower()))


@pytest.mark.parametrize("piece", ["a", "aA", "1", "a'", "\u0316\u0300", "가", "漢"], ids=ascii)
@pytest.mark.parametrize("size", [2**18, pytest.param(2**20, marks=pytest.mark.storm)])
def test_a_megabyte_takes_seconds(piece: str, size: int) -> None:
    """Time is linear for any pasted text; a quadratic step would take minutes."""
    assert_quick(piece * (size // len(piece)))


@pytest.mark.storm
@pytest.mark.parametrize(
    "piece",
    [
        *("1,", "1.", "c++", "_", " ", "!?", "\0", "'", "\ud800", "👩\u200d", "\ufdfa", "\u00a0é"),
        *("e\u0301", "\u1100\u1161", "1年", "가\u2019", "ก็"),
        *("11-", "012 ", "ab1", "的漢", "漢の"),
    ],
    ids=ascii,
)
def test_a_long_repetition_takes_seconds(piece: str) -> None:
    """It is split into many words."""
    assert_quick(piece * (2**15 // len(piece)))


def assert_quick(text: str) -> None:
    started = time.monotonic()

    found = words(text)

    assert time.monotonic() - started < 30
    spaced = (term for word in found for term in word if term.isascii())
    assert max(map(len, spaced), default=0) <= 64


def test_no_word_is_interned() -> None:
    """Python 3.12 never frees interned strings: every word ever indexed would stay in memory."""
    package = Path(factmem.__file__).parent
    modules = [path.read_text() for path in package.rglob("*.py")]

    assert len(modules) > 100
    assert not any(re.search(r"\bintern\(|\bimport intern\b", text) for text in modules)
