"""Bringing the forms of an English word together: "potters" and "potter" are one term."""

import threading
from collections.abc import Callable
from functools import cache
from logging import getLogger
from typing import Protocol, cast

from factmem.errors import MissingExtraError

__all__ = ["Stem", "default_stem", "plural_stem", "snowball_stem", "unstemmed"]


_logger = getLogger(__name__)

Stem = Callable[[str], str]
"""Takes a word in lower case and gives what its forms have in common."""


class _Stemmer(Protocol):
    def stemWord(self, word: str) -> str: ...  # noqa: N802


class _Stemmers(threading.local):
    """One Snowball stemmer for each thread: a stemmer keeps the word it works on in itself."""

    def __init__(self) -> None:
        try:
            from snowballstemmer import stemmer  # type: ignore[import-untyped]
        except ImportError as exc:
            raise MissingExtraError(
                "Snowball stems need the package snowballstemmer: pip install 'factmem[recall]'"
            ) from exc
        self.english = cast("_Stemmer", stemmer("english"))


@cache
def _stemmers() -> _Stemmers:
    return _Stemmers()


def snowball_stem(word: str) -> str:
    """Stem by the Snowball algorithm for English: "swimming" and "swims" become "swim".

    Needs the package `snowballstemmer`, which the extra `recall` brings. Any thread may call it.

    Raises:
        MissingExtraError: The package is not installed.
    """
    return _stemmers().english.stemWord(word)


def plural_stem(word: str) -> str:
    """Take an English plural ending off: "tablets" becomes "tablet", "swimming" stays.

    These are the rules of the "S stemmer": Donna Harman, "How effective is suffixing?", Journal of
    the American Society for Information Science 42(1), 1991. The first rule that fits decides.
    Words of up to three letters stay.
    """
    if len(word) <= 3 or not word.endswith("s"):
        return word
    if word.endswith("ies") and not word.endswith(("eies", "aies")):
        return word[:-3] + "y"
    if word.endswith("es") and not word.endswith(("aes", "ees", "oes")):
        return word[:-1]
    return word if word.endswith(("us", "ss")) else word[:-1]


def unstemmed(word: str) -> str:
    """Give the word back as it is, for texts in languages that English endings would spoil."""
    return word


@cache
def default_stem() -> Stem:
    """Choose Snowball where it can be imported, and plural endings alone where it cannot.

    One that is there and broken is told in the log.
    """
    try:
        snowball_stem("words")
    except Exception as exc:  # noqa: BLE001 - a broken package raises whatever it comes upon
        if not isinstance(exc.__cause__, ModuleNotFoundError):
            _logger.warning(
                "snowballstemmer is installed and cannot be used (%s): of English words, plurals "
                "alone are joined",
                type(exc.__cause__ or exc).__name__,
            )
        return plural_stem
    return snowball_stem
