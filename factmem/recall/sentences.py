"""What somebody writes in a chat, cut into what he may be asking about: pure."""

import re

from factmem.recall.analysis import STOP_WORDS, words

__all__ = ["sentences"]

_MOST = 8
_END = re.compile(r"(?<=[.!?…])\s+|(?<=[。\uff01\uff1f])\s*|\s*\n\s*")


def sentences(text: str) -> list[str]:
    """Return the last eight sentences of a text that say anything; the text itself if none does.

    "Hello! I was away for a week. Now the router is down." is about a router; as one question it
    would be about hellos and weeks for the most part, and a fact about the router would cover too
    little of it.
    """
    parts = [part.strip() for part in _END.split(text)]
    telling = [part for part in parts if _says_anything(part)]
    return list(dict.fromkeys(telling))[-_MOST:] or [text]


def _says_anything(part: str) -> bool:
    return any(not STOP_WORDS.issuperset(word) for word in words(part))
