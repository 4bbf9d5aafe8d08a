"""Japanese and Chinese, which are written without spaces: from a run of characters to words.

No dictionary: a run is cut behind the characters that say how rather than what, which are hiragana
in Japanese ("京都への|旅行は|いつ") and a few dozen pronouns, particles and question words in Chinese
("她的|猫叫什么|名字"). Runs of scripts without such characters, as Thai, stay whole. What is left is
cut into overlapping pairs.
"""

import re

__all__ = ["content_terms", "pairs", "unspaced_words"]

_CHINESE = "的是叫了吗嗎呢吧什么麼谁誰哪怎她他你我您们們"
_FUNCTION = f"\u3041-\u309f{_CHINESE}"
_segments = re.compile(rf"(?P<head>[^{_FUNCTION}]*)(?P<tail>[{_FUNCTION}]*)")
_function = re.compile(rf"[{_FUNCTION}]")
_says_nothing = re.compile(rf"[\u3041-\u309f]|[{_CHINESE}]+")
"""A lone hiragana is a particle or a prefix; longer ones may be a noun, as "そば"."""


def pairs(run: str) -> list[str]:
    """Cut a run into overlapping pairs; a lone character stays."""
    return [run[i : i + 2] for i in range(len(run) - 1)] or [run]


def unspaced_words(run: str) -> list[tuple[str, ...]]:
    """Cut a run into words: each pair is one, and what is inflected is one with its ending.

    So the hiragana behind a noun belong to its last pair, and a single character ("食べて", "猫的")
    is a term besides the pairs that it begins: then "食べた" finds it.
    """
    words: list[tuple[str, ...]] = []
    for segment in _segments.finditer(run):
        head, tail = segment["head"], segment["tail"]
        if len(head) > 1:
            *before, last = pairs(head)
            words += [(pair,) for pair in before]
            words.append((last, *(pairs(head[-1] + tail) if tail else ())))
        elif head:
            words.append((head, *(pairs(head + tail) if tail else ())))
        elif tail:
            words.append(tuple(pairs(tail)))
    return words


def content_terms(word: tuple[str, ...]) -> tuple[str, ...]:
    """Leave out of a question's word what says how it is asked; nothing may be left.

    Where one term of a word is free of such characters, those that are not are left out.
    """
    if all(term.isascii() for term in word):
        return word
    plain = tuple(term for term in word if not _function.search(term))
    return plain or (() if all(map(_says_nothing.fullmatch, word)) else word)
