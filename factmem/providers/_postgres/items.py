"""The rows of the facts of a searched place, and the encoding of terms in them. No I/O."""

import re
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import NamedTuple

from factmem.ledger.entries import Entry
from factmem.models._values import canonical
from factmem.models.facts import AnyFact
from factmem.models.recall_filter import marks_of
from factmem.providers._postgres.session import numbers
from factmem.providers._sql.items import StoredItem
from factmem.providers._sql.places import micros
from factmem.providers.results import SearchDocument

_LARGEST_WORDS = 900_000
"""The most bytes of a fact's terms in a row; PostgreSQL allows 2^20. A longer list of different words
is probably a mistake: such a fact is found by the first ones."""

_MOST_COUNTED = 1023
_STEP = 16
"""Counts are multiples of 1/16. A row stores them as positions of a term, from 1 to 2^14."""

_PLAIN = re.compile("[a-z0-9]+", re.ASCII)


def hashed(*parts: str | bytes) -> int:
    """Return a signed 64-bit hash of strings, which rows store and compare instead of them."""
    whole = blake2b(digest_size=8)
    for part in parts:
        each = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        whole.update(len(each).to_bytes(8, "big") + each)
    return int.from_bytes(whole.digest(), "big", signed=True)


def written_term(term: str) -> str:
    """Return a term in ASCII: the database may have any encoding, and refuses U+0000."""
    if _PLAIN.fullmatch(term):
        return term
    return "_" + term.encode("utf-8", "surrogatepass").hex()


def message_of(fact: AnyFact) -> tuple[int, int] | None:
    """Return the number of a fact's conversation, and that of its message in it, -1 without one."""
    source = fact.source
    if source is None or source.conversation is None:
        return None
    return hashed(source.conversation), -1 if source.message is None else source.message


def conversations_in(entries: Iterable[Entry]) -> set[int]:
    """Return the numbers of the conversations in the sources of facts."""
    sources = (fact.get("source") for entry in entries for fact in entry.get("facts", ()))
    names = (source.get("conversation") for source in sources if source is not None)
    return {hashed(name) for name in names if name is not None}


class ItemRow(NamedTuple):
    """A row of the table `items`, in the order of its columns after the place and the store."""

    topic: int
    digest: str
    text: str
    conversation: int | None
    message: int | None
    said_at: float
    expires_at: int | None
    marks: str
    held: str
    length: float
    words: str
    stored: bytes


def item_row(
    stored: StoredItem, fact: AnyFact, document: SearchDocument, search: int
) -> tuple[ItemRow, list[str]]:
    """Return the row of a fact, and its own terms as they are stored.

    Args:
        stored: The fact.
        fact: The same fact.
        document: Its terms.
        search: The number of its place's search, the prefix of its terms.
    """
    conversation, message = message_of(fact) or (None, None)
    expiries = [item.ends_at for item in stored.items if item.ends_at is not None]
    words, own = _words(document, search)
    row = ItemRow(
        hashed(stored.keyword),
        stored.digest,
        document.digest.hex(),
        conversation,
        message,
        fact.timestamp.timestamp(),
        micros(min(expiries)) if expiries else None,
        numbers(map(hashed, marks_of(fact))),
        numbers(hashed(canonical(item.value)) for item in stored.items),
        document.length,
        words,
        stored.stored,
    )
    return row, own


def _words(document: SearchDocument, search: int) -> tuple[str, list[str]]:
    """Return a document as tsvector text, and its own terms, which have weight A."""
    parts: list[str] = []
    own: list[str] = []
    size = 0
    for counts, weight in ((document.own, "A"), (document.around, "")):
        for term, count in counts.items():
            at = max(1, round(min(count, _MOST_COUNTED) * _STEP))
            written = written_term(term)
            parts.append(f"'{search}:{written}':{at}{weight}")
            size += len(parts[-1])
            if size > _LARGEST_WORDS:
                return " ".join(parts[:-1]), own
            if weight:
                own.append(written)
    return " ".join(parts), own


def counts_in(words: str, terms: Mapping[str, str], search: int) -> dict[str, tuple[float, bool]]:
    """Return the counts of some terms in a row, and whether they are the fact's own.

    Args:
        words: The tsvector as text: 'term':position, with an A after it for own terms.
        terms: The terms, each with its stored form.
        search: The number of the place's search.
    """
    found: dict[str, tuple[float, bool]] = {}
    for term, written in terms.items():
        pattern = f"'{search}:{written}':"
        at = words.find(pattern)
        if at >= 0:
            position = words[at + len(pattern) :].partition(" ")[0]
            found[term] = int(position.rstrip("A")) / _STEP, position.endswith("A")
    return found
