"""Search for facts by a few words, for `load_by_description`."""

from collections.abc import Iterable, Iterator

import pydantic_core

from factmem.models._values import JsonValue, case_folded
from factmem.models.facts import AnyFact


def phrase_of(description: str) -> str:
    if not isinstance(description, str):
        raise TypeError(f"description must be a str, not {type(description).__name__}: 'theme'")
    if phrase := _folded(description):
        return phrase
    raise ValueError("description must have at least one word; load_all returns all facts")


def described(facts: Iterable[AnyFact], phrase: str) -> list[AnyFact]:
    """Return the facts, with plain JSON values, that match a folded phrase.

    Words also match parts of longer ones, as Chinese and Korean do not separate all words.
    """
    words = phrase.split()
    return [
        fact
        for fact in facts
        if phrase in _folded(fact.concept.description)
        or all(map(_folded("\n".join(_texts_of(fact))).__contains__, words))
    ]


def _folded(text: str) -> str:
    return " ".join(case_folded(text).split())


def _texts_of(fact: AnyFact) -> Iterator[str]:
    yield fact.concept.keyword
    yield fact.concept.description
    for value in fact.values:
        yield from _texts(value)


def _texts(value: JsonValue) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, part in value.items():
            yield key
            yield from _texts(part)
    elif isinstance(value, list):
        for part in value:
            yield from _texts(part)
    else:
        yield pydantic_core.to_json(value).decode()
