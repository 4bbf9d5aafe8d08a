"""Keywords, values and numbers as models write them: matched to known ones, tidied, converted."""

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator
from datetime import date
from itertools import chain
from typing import Any

from pydantic import JsonValue
from pydantic_core import from_json, to_json

from factmem.llm.extraction import unwrapped
from factmem.models._values import Canonical, canonical, checked_name, normalized
from factmem.models.facts import Concept, FactType

MAX_KEYWORD = 64
"""The longest keyword, in characters, that a model may make up."""

_LONGEST = 1_000
"""The longest text that is read as a keyword. A name has at most 200 characters in NFC, and
decomposed at most 4 times as many."""

_PART_MARKS = frozenset("+#")
"""Marks that are part of a keyword: "c++" is not "c"."""
_PATH_MARKS = frozenset("/\\")
"""Marks of paths: a keyword must not look like one."""
_ARTICLES = frozenset(("a", "an", "my", "the", "s"))
"""Words, and the rest of "plan(s)", that do not change the meaning of a keyword. Adjectives do."""
_CONFUSABLE = ("LATIN", "GREEK", "CYRILLIC", "ARMENIAN", "CHEROKEE", "COPTIC")
"""Alphabets that share the shapes of letters."""


def tidy_keyword(text: str) -> str:
    """Return a keyword as words in lower case, joined by hyphens.

    Raises:
        ValueError: It looks like a path, holds control characters, mixes alphabets in a word, or
            has no letter or digit; or it is longer than 64 characters.
    """
    if len(text) > _LONGEST:
        raise ValueError(f"is longer than {MAX_KEYWORD} characters")
    plain = "".join(c for c in normalized("NFKC", text) if unicodedata.category(c) != "Cf")
    if _PATH_MARKS & set(plain) or ".." in plain:
        raise ValueError("looks like a path")
    words = [""]
    for char, before in zip(plain, " " + plain, strict=False):
        kind = unicodedata.category(char)
        if kind == "Cc" and not char.isspace():
            raise ValueError("holds control characters")
        if kind[0] not in "LMN" and char not in _PART_MARKS:
            words.append("")
        elif kind == "Lu" and before.islower():
            words.append(char)
        else:
            words[-1] += char
    if any(len({*_alphabets(word)}) > 1 for word in words):
        raise ValueError("mixes letters of several alphabets that look alike")
    keyword = "-".join(each for each in words if each).casefold()
    if not any(char.isalnum() for char in keyword):
        raise ValueError("has no letter or digit")
    if len(keyword) > MAX_KEYWORD:
        raise ValueError(f"is longer than {MAX_KEYWORD} characters")
    return checked_name(keyword, "keyword")


def _alphabets(word: str) -> Iterator[str]:
    """Yield the alphabet of each letter that another alphabet has in the same shape."""
    for char in word:
        if not char.isascii() or char.isalpha():
            name = unicodedata.name(char, "").partition(" ")[0]
            if name in _CONFUSABLE:
                yield name


class Keywords:
    """The known keywords, found by any spelling of them.

    "Preferred Language", "preferred_language" and "preferredLanguage" are all
    "preferred-language" if that is known. If several look alike, an exact match has priority, then
    the one that was added first.
    """

    def __init__(self, concepts: Collection[Concept[Any, Any]]) -> None:
        self._exact: set[str] = set()
        self._alike: dict[str, str] = {}
        self._near: dict[tuple[str, ...], str] = {}
        for concept in concepts:
            self.add(concept.keyword)
        for concept in concepts:
            for former in concept.was:
                self._alike.setdefault(alike(former), concept.keyword)

    def add(self, keyword: str) -> None:
        """Add a known keyword."""
        self._exact.add(keyword)
        self._alike.setdefault(alike(keyword), keyword)
        if key := near_key(keyword):
            self._near.setdefault(key, keyword)

    def known(self, text: str) -> str | None:
        """Return the known keyword with this spelling, or None for a new one."""
        if len(text) > _LONGEST:
            return None
        exact = normalized("NFC", text.strip())
        return exact if exact in self._exact else self._alike.get(alike(text))

    def near(self, keyword: str) -> str | None:
        """Return a known keyword with the same words in any order, singular or plural, or None."""
        return self._near.get(near_key(keyword))


def alike(keyword: str) -> str:
    """Return a key that is equal for keywords that look alike."""
    plain = normalized("NFKC", keyword[:_LONGEST]).casefold()
    kept = "".join(c for c in plain if unicodedata.category(c)[0] in "LMN" or c in _PART_MARKS)
    return kept or plain


def near_key(keyword: str) -> tuple[str, ...]:
    """Return a key that is equal for keywords of the same words: "hobbies" and "my-hobby"."""
    try:
        words = tidy_keyword(keyword).split("-")
    except ValueError:
        return ()
    singular = {_singular(word) for word in words}
    return tuple(sorted(singular - _ARTICLES or singular))


def _singular(word: str) -> str:
    if not word.isascii() or len(word) < 4 or word.endswith(("ss", "us", "is")):
        return word
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("ches", "shes", "sses", "xes", "zes")):
        return word[:-2]
    return word.removesuffix("s")


MAX_VALUE = 2_000
"""The longest value that is accepted from a model, in bytes of JSON."""

MAX_LIST = 50
"""The most values of one item."""

MAX_DEPTH = 4
"""The deepest nesting of a value whose type the application did not declare."""

_ANY_JSON: object = JsonValue

_NOTHING = frozenset(
    {"unknown", "n a", "null", "undefined", "unspecified"}
    | {f"not {said}" for said in ("known", "mentioned", "provided", "specified", "stated")}
)
"""Words that models write in place of a missing value."""


def given_values(
    raw: JsonValue, concept: Concept[Any, Any], *, longest: int = MAX_VALUE
) -> dict[Canonical, object]:
    """Return the values of an item by their canonical form.

    Usually one; several if the concept has many values and the item has a list.

    Args:
        raw: The value as the model wrote it.
        concept: The concept of the value.
        longest: The maximum size of a value, in bytes of JSON.

    Raises:
        ValueError: A value does not fit the concept. The message continues "its value" and does
            not quote it.
    """
    is_any = concept.value_type is _ANY_JSON
    is_many = concept.fact_type is FactType.MULTIPLE and isinstance(raw, list)
    try:
        if not (is_many and is_any):
            key, value = _one_value(raw, concept, longest)
            return {key: value}
    except ValueError as exc:
        if not isinstance(raw, list) or not (is_many or len(raw) == 1):
            raise ValueError(str(exc)) from None
    several = raw if isinstance(raw, list) else [raw]
    if not several or len(several) > MAX_LIST:
        raise ValueError(f"is a list of {len(several)}: from 1 to {MAX_LIST} are accepted")
    return dict(_one_value(each, concept, longest) for each in several)


def text_of(key: Canonical) -> str:
    """Return the words of a value, from its canonical form: strings and numbers, joined."""
    if isinstance(key, str):
        return key
    found: list[str] = []
    rest: list[JsonValue] = [from_json(key)]
    while rest:
        each = rest.pop()
        if isinstance(each, dict):
            rest += reversed(each.values())
        elif isinstance(each, list):
            rest += reversed(each)
        elif isinstance(each, str):
            found.append(each)
        elif each is not None and not isinstance(each, bool):
            found.append(to_json(each).decode())
    return " ".join(found)


def _one_value(
    raw: JsonValue, concept: Concept[Any, Any], longest: int
) -> tuple[Canonical, object]:
    """Return a value with its canonical form."""
    raw = normalized("NFC", raw.strip()) if isinstance(raw, str) else raw
    is_text = concept.codec.is_plain_text
    is_free = is_text or concept.value_type is _ANY_JSON
    if is_free and (raw in ("", [], {}) or (isinstance(raw, str) and _is_placeholder(raw))):
        raise ValueError("is empty")
    if is_free and _is_deeper(raw, MAX_DEPTH):
        raise ValueError(f"is nested deeper than {MAX_DEPTH} levels, and no type asks for it")
    if is_text and isinstance(raw, bool | int | float):
        raw = to_json(raw).decode()
    try:
        if len(to_json(raw)) > longest:
            message = f"is longer than {longest} bytes of JSON"
        else:
            value = _load(raw, concept)
            return canonical(concept.codec.dump(value, concept.keyword)), value
    except ValueError:
        message = "does not fit the concept's type"
    raise ValueError(message)


def _is_placeholder(text: str) -> bool:
    """Whether a string means a missing value: "-", "?", "N.A.", "[unknown]"."""
    kinds = {unicodedata.category(char)[0] for char in text[:40]}
    words = " ".join(_WORD.findall(text[:40].casefold()))
    return kinds <= {"P", "Z", "C"} or words in _NOTHING


def _is_deeper(raw: JsonValue, levels: int) -> bool:
    parts = raw.values() if isinstance(raw, dict) else raw if isinstance(raw, list) else ()
    return levels < 0 or any(_is_deeper(part, levels - 1) for part in parts)


def _load(raw: JsonValue, concept: Concept[Any, Any]) -> object:
    """Parse a value by the concept's type. Its JSON may be inside a string."""
    try:
        return concept.codec.load(raw)
    except ValueError:
        if not isinstance(raw, str):
            raise
        return concept.codec.load(unwrapped(raw))


_WORD = re.compile(r"[^\W_]+")
_UNSPACED = re.compile(
    "[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]"
)
"""Letters of scripts without spaces: Kana, Han, Thai, Lao, Burmese, Khmer."""
_HANGUL = re.compile("[\uac00-\ud7a3]")
_STOP = frozenset(
    word
    for words in (
        "a about after all also am an and are as at be been before but by can could did do does",
        "for from had has have he her him his i if in into is it its just likes me my no not now",
        "of on or our she should so some than that the their them then there they this to too up",
        "us user very was we were what when where which who will with would you your says said",
        "der die das ein eine einen und oder ist sind war im auf zu mit von für ich mein meine",
        "sie er es wir nicht",
    )
    for word in words.split()
)
"""Words that do not distinguish values."""
_STEM = 4
"""The number of letters that remain of a word."""


def stems(text: str) -> set[str]:
    """Return the words of a string in a reduced form: first letters, and pairs of characters.

    Words of letters with inflection are cut to their first four letters, Korean ones to two
    syllables; Chinese and Japanese give pairs of characters. Stop words and digits are left out.
    """
    found: set[str] = set()
    for word in _WORD.findall(normalized("NFKC", text[:100_000]).casefold()):
        if word in _STOP or word.isdigit():
            continue
        if _UNSPACED.search(word):
            found |= {word[i : i + 2] for i in range(max(len(word) - 1, 1))}
        elif _HANGUL.search(word):
            found |= {word[:2]} | ({word[i : i + 2] for i in range(len(word) - 1)})
        else:
            found.add(word[:_STEM])
    return found


_SHARED = frozenset(["a", "an", "do", "die", "en", "in", "is", "me", "no", "on", "so", "was", "we"])
"""Stop words that other languages have as well."""


def is_english_or_german(text: str) -> bool:
    """Whether a sixth of the words in a text are common words of English or German."""
    words = _WORD.findall(text.casefold())
    return 6 * sum(word in _STOP - _SHARED for word in words) >= max(len(words), 1)


_LETTERS = str.maketrans(
    {"ł": "l", "ø": "o", "đ": "d", "\u0131": "i", "ß": "ss", "æ": "ae", "œ": "oe"}
)
"""Letters with strokes, and ligatures, which Unicode does not decompose."""


def plain_letters(text: str) -> str:
    """Return a string without case, accents and vowel marks."""
    letters = normalized("NFKD", text.casefold().translate(_LETTERS))
    return normalized("NFC", "".join(c for c in letters if not unicodedata.combining(c)))


def letters_of(word: str) -> list[tuple[str, int, int]]:
    """Return the plain letters of a word, whole or by character, with the span of each part."""
    if not _UNSPACED.search(word):
        return [(plain_letters(word), 0, len(word))]
    parts = [(plain_letters(char), at, at + 1) for at, char in enumerate(word)]
    return [part for part in parts if part[0]]


def has_common_word(value: str, text: str) -> bool:
    """Whether a value shares a word or a number with a text, in any inflection.

    Words that are joined count as well: "Haus" and "Hausboot", and Arabic words with their article.
    """
    if stems(value) & stems(text):
        return True
    plain = plain_letters(text)
    words, said = (set(_WORD.findall(each)) - _STOP for each in (plain_letters(value), plain))
    return any(_is_akin(word, each) for word in words for each in said) or any(
        len(word) >= _STEM and word in plain for word in words
    )


def added_words(value: str, quote: str, text: str) -> set[str]:
    """Return the words of a value that an inexact quote has and its text does not have."""
    words, quoted = (
        {plain_letters(word) for word in _WORD.findall(normalized("NFKC", each))} - _STOP
        for each in (value, quote)
    )
    said = set(_WORD.findall(plain_letters(text)))
    return {
        word
        for word in words & quoted
        if len(word) >= _STEM
        and not any(_is_akin(word, each) for each in said)
        and stems(word).isdisjoint(stems(text))
    }


_FEWEST_JAMO = 3
"""Korean verbs with this many equal first letters are forms of one: "다님" and "다녔어요"."""


def _is_akin(one: str, other: str) -> bool:
    """Whether one word is the other with an ending, or holds it."""
    short, long = sorted((one, other), key=len)
    if has_unspaced_script(short):
        first, second = (normalized("NFD", each) for each in (short, long))
        is_verb = first[:_FEWEST_JAMO] == second[:_FEWEST_JAMO] and len(first) > _FEWEST_JAMO
        return short in long or (is_verb and bool(_HANGUL.search(short)))
    is_ending = len(short) > 2 and long.startswith(short) and len(long) - len(short) < _STEM
    return short == long or is_ending or (len(short) >= _STEM and short in long)


def word_count(text: str) -> int:
    """Return the number of words; two characters of Chinese or Japanese count as one."""
    return sum(
        max(len(_UNSPACED.findall(word)) // 2, 1)
        for word in _WORD.findall(normalized("NFKC", text))
    )


def has_unspaced_script(text: str) -> bool:
    """Whether a string has Chinese, Japanese or Korean characters, whose words are short."""
    return bool(_UNSPACED.search(text) or _HANGUL.search(text))


NUMBER = re.compile(r"\d+(?:[.,'\u066b\u066c]\d+)*")
_DURATION = re.compile(r"P(?:(\d+)Y)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?")
_SECONDS = (365 * 86_400, 86_400, 3_600, 60, 1)


def numbers_in(text: str) -> set[float]:
    found = NUMBER.findall(normalized("NFKC", text))
    return set(chain.from_iterable(map(readings, found)))


def readings(digits: str) -> set[float]:
    """Return what digits with marks between them can be: "1.500" is 1500 or 1.5, and 1 and 500."""
    parts = re.split(r"\D", digits[:40])
    found = {float(part) for part in parts} | {float("".join(parts))}
    return found | ({float(f"{parts[0]}.{parts[1]}")} if len(parts) == 2 else set())


def in_units(text: str) -> set[float]:
    """Return a duration of a typed value in each unit: "P14D" is two weeks."""
    parts = _DURATION.fullmatch(text)
    total = (
        sum(int(n or 0) * size for n, size in zip(parts.groups(), _SECONDS, strict=True))
        if parts
        else 0
    )
    return {total / size for size in (*_SECONDS, 7 * 86_400, 30 * 86_400)} if total else set()


def follows(number: float, known: Iterable[float], said: date) -> bool:
    """Whether a number is among known ones, or a multiple, an age, a year or an hour of one."""
    for each in known:
        if number == each or (each and number / each in (100, 1_000, 10_000, 1e6, 1e8, 1e9)):
            return True
        if number % 1 and each in (round(number * 100, 6), round(number * 1_000, 6)):
            return True  # a share of a percentage, metres of centimetres, kilograms of grams
        is_age = 1900 <= each <= 2100 and said.year - each - 1 <= number <= said.year - each
        is_year = 0 < each <= 120 and abs(said.year - each - number) <= 1
        if is_age or is_year or (1 <= each <= 11 and number == each + 12):
            return True
    return False
