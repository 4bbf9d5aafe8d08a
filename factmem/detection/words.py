"""Words of values and messages, reduced so that inflected forms of one word are equal."""

import re

from factmem.models.text import normalized

__all__ = ["has_unspaced_script", "stems", "word_count"]


_WORD = re.compile(r"[^\W_]+")
_UNSPACED = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")
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


def word_count(text: str) -> int:
    """Return the number of words; two characters of Chinese or Japanese count as one."""
    return sum(
        max(len(_UNSPACED.findall(word)) // 2, 1)
        for word in _WORD.findall(normalized("NFKC", text))
    )


def has_unspaced_script(text: str) -> bool:
    """Whether a string has Chinese, Japanese or Korean characters, whose words are short."""
    return bool(_UNSPACED.search(text) or _HANGUL.search(text))
