"""What a name may be: the rule for keywords, subjects, entities and scopes."""

import unicodedata

__all__ = ["MAX_NAME", "checked_name", "checked_text", "is_text"]

MAX_NAME = 200
"""The longest name, in characters after normalisation."""


def is_text(text: str) -> bool:
    """Whether `text` can be written as UTF-8: a lone surrogate cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def checked_name(name: str, what: str) -> str:
    """Return `name` in NFC.

    Raises:
        TypeError: It is no text.
        ValueError: It is empty, too long, or holds control characters or lone surrogates.
    """
    if not isinstance(name, str):
        raise TypeError(f"A {what} is a text, not {type(name).__name__}")
    if name.isascii() and name.isprintable() and 0 < len(name) <= MAX_NAME and not name.isspace():
        return str(name)
    if not is_text(name):
        raise ValueError(f"A {what} holds a lone surrogate: it cannot be written as UTF-8")
    name = unicodedata.normalize("NFC", name)
    if not name.strip():
        raise ValueError(f"A {what} is empty: give it a name")
    if len(name) > MAX_NAME:
        raise ValueError(f"A {what} has {len(name)} characters: at most {MAX_NAME} are allowed")
    if any(unicodedata.category(char) == "Cc" for char in name):
        raise ValueError(f"A {what} holds control characters: leave them out")
    return name


def checked_text(text: str, what: str) -> str:
    """Return `text` if it is one that can be written as UTF-8; raise as `checked_name` does."""
    if not isinstance(text, str):
        raise TypeError(f"A {what} is a text, not {type(text).__name__}")
    if not is_text(text):
        raise ValueError(f"A {what} holds a lone surrogate: it cannot be written as UTF-8")
    return text
