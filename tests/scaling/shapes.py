"""Strings that a user, a page or a model could write to make a parser slow."""

from collections.abc import Callable, Mapping
from typing import TypeAlias

Shape: TypeAlias = Callable[[int], str]
"""Makes a string of about the given number of characters."""


def _repeated(unit: str) -> Shape:
    return lambda size: unit * (size // len(unit))


def _around(before: str, unit: str, after: str) -> Shape:
    return lambda size: before + unit * (size // len(unit)) + after


TEXTS: Mapping[str, Shape] = {
    "letters": _repeated("a"),
    "words": _repeated("the user likes tea. "),
    "spaces": _around("a", " ", "b"),
    "spaces and a line break": _around("a", " ", "\nb"),
    "line breaks": _around("a", "\n", "b"),
    "tabs and line breaks": _around("a", "\t\n", "b"),
    "wide spaces": _around("a", "\u3000", "b"),
    "points": _repeated("."),
    "points and spaces": _repeated(". "),
    "hyphens": _around("a", "-", "b"),
    "hyphenated words": _repeated("a-"),
    "underscores": _around("a", "_", "b"),
    "apostrophes": _repeated("a'"),
    "combining marks": _around("a", "\u0301\u0316", "b"),
    "halfwidth katakana marks": _around("カ", "\uff9e\u0316", "b"),
    "marks of many classes": _around("a", "\u0338\u0327\u0301\u0345\u0316", "b"),
    "Korean without spaces": _repeated("서울에산다"),
    "Hangul letters": _repeated("\u1112\u1161\u11ab"),
    "ligatures": _repeated("ﷺ"),
    "invisible characters": _around("a", "\u200b", "b"),
    "emoji": _repeated("😀"),
    "digits": _repeated("1"),
    "grouped digits": _repeated("010-1234-"),
    "humps": _repeated("aB"),
    "angle brackets": _repeated("<"),
    "quotation marks": _repeated('"'),
    "backslashes": _around('"', "\\", '"'),
    "colons": _repeated('a: "b" '),
}
"""Prose and names."""

ARGUMENTS: Mapping[str, Shape] = {
    "spaces in a fence": _around("```json\n", " ", "x"),
    "line breaks in a fence": _around("```", "\n", "``"),
    "fences": _repeated("```\n"),
    "opening braces": _repeated("{"),
    "opening brackets and prose": _repeated("[a "),
    "brackets": _repeated("[1] "),
    "objects": _repeated('{"a": 1} '),
    "items": _around("[", "1,", "1]"),
    "members": _around('{"a": [', '{"b": "c"},', "{}]}"),
    "an object with spaces": _around('{"a":', " ", "1}"),
    "comments": _around("{", "// a\n", '"a": 1}'),
    "slashes": _around('{"a": 1', "/", "}"),
    "an open string": _around('{"a": "', "b", ""),
    "an open quoted string": _around("{'a': '", "b", ""),
    "escapes": _around("{'a': '", "\\'", "'}"),
    "thoughts": _around("", "<think>a</think>", '{"a": 1}'),
    "open thoughts": _repeated("<think>"),
    "closing thoughts": _repeated("</think>"),
    "JSON in strings": _around('"', '\\"', '"'),
    "numbers": _around("[", "1" + "0" * 30 + ",", "1]"),
}
"""Strings that a model writes where JSON is expected."""
