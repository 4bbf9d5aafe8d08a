"""Validation of names: keywords, subjects, entities and scopes."""

from unicodedata import category

from factmem._arguments import expect
from factmem.models._text import normalized

MAX_NAME = 200
"""The longest name, in characters after normalisation."""


def is_text(text: str) -> bool:
    """Return whether `text` can be encoded as UTF-8; a lone surrogate cannot."""
    if text.isascii():  # most are, and CPython stores the answer in the string
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def with_article(what: str) -> str:
    """Return a noun with its article, as the beginning of a sentence: "An entity"."""
    return f"{'An' if what[0] in 'aeio' else 'A'} {what}"


def checked_name(name: str, what: str) -> str:
    """Return `name` in Unicode normal form NFC.

    Raises:
        TypeError: It is not a string.
        ValueError: It is empty or too long, or contains control characters or lone surrogates.
    """
    if type(name) is not str:  # the call takes as long as all other checks
        expect(name, str, what, '"alice"')
    if name.isascii() and name.isprintable() and 0 < len(name) <= MAX_NAME and not name.isspace():
        return str.__str__(name)  # an Enum's own __str__ names its class
    if not is_text(name):
        raise ValueError(
            f"{with_article(what)} contains a lone surrogate: it cannot be encoded as UTF-8"
        )
    name = normalized("NFC", name)
    if not name.strip():
        raise ValueError(f"{with_article(what)} is empty: give it a name")
    if len(name) > MAX_NAME:
        raise ValueError(
            f"{with_article(what)} has {len(name)} characters: at most {MAX_NAME} are allowed"
        )
    if any(category(char) == "Cc" for char in name):
        raise ValueError(f"{with_article(what)} contains control characters: remove them")
    return str.__str__(name)


def checked_text(text: str, what: str) -> str:
    """Return a string that can be encoded as UTF-8; raises the same errors as `checked_name`."""
    expect(text, str, what, '"words"')
    if not is_text(text):
        raise ValueError(
            f"{with_article(what)} contains a lone surrogate: it cannot be encoded as UTF-8"
        )
    return text
