"""The rows of the facts of a searched place, and the encoding of terms in them. No I/O."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

import orjson
import pydantic_core

from factmem.ledger.entries import Entry
from factmem.ledger.items import Item, KeywordItems, values_of
from factmem.ledger.ledger import Ledger
from factmem.ledger.presentation import concept_of, presented
from factmem.models.facts import AnyFact, Concept
from factmem.models.places import Identity
from factmem.models.sources import SourceKind
from factmem.models.values import Canonical, JsonValue, canonical
from factmem.providers._postgres.session import numbers
from factmem.providers._sql.lines import micros
from factmem.providers.searched import SearchCandidate, SearchDocument

_KINDS = {kind: number for number, kind in enumerate(SourceKind, start=1)}

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


def key_of(keyword: str, fact_id: str) -> int:
    """Return the number of a fact."""
    return hashed(keyword, fact_id)


class Found(NamedTuple):
    """A current fact and its encoding in a row."""

    keyword: str
    stored: bytes
    fact: AnyFact
    expires_at: int | None
    """The earliest expiry of its values, in microseconds."""

    @property
    def key(self) -> int:
        """The number of the fact."""
        return key_of(self.keyword, self.fact.id)

    @property
    def digest(self) -> str:
        """The digest of the stored fact, in hex."""
        return blake2b(self.stored, digest_size=16).hexdigest()

    @property
    def message(self) -> tuple[int, int] | None:
        """The number of its conversation, and that of its message in it."""
        source = self.fact.source
        if source is None or source.conversation is None:
            return None
        return hashed(source.conversation), -1 if source.message is None else source.message


def found_facts(
    ledger: Ledger, keyword: str, now: str, only: "Touched | None" = None
) -> list[Found]:
    """Return the current facts of a keyword, with the type that they were saved with.

    Args:
        ledger: The place.
        keyword: The keyword.
        now: The time for expiry.
        only: The facts to return of a MULTIPLE keyword; None for all.
    """
    topic = ledger.state().by_keyword.get(keyword)
    items = [] if topic is None else topic.alive(now)
    if topic is None or not items:
        return []
    if topic.fact_type == "SINGLE":
        items = items[-1:]
    elif only is not None:
        ids = only.ids | {item.fact_id for key in only.values if (item := topic.get(key))}
        items = [item for item in items if item.fact_id in ids]
    groups: dict[str, list[Item]] = {}
    for item in items:
        groups.setdefault(item.fact_id, []).append(item)
    facts = presented(concept_of(keyword, topic, items), items)
    return [
        Found(keyword, _stored(keyword, topic, group), fact, _expiry(group))
        for group, fact in zip(groups.values(), facts, strict=True)
    ]


class Touched:
    """The facts of a keyword that entries may have changed."""

    def __init__(self) -> None:
        self.ids: set[str] = set()
        """The ids in the entries."""
        self.values: set[Canonical] = set()
        """The values in the entries; other facts may have the same."""
        self.is_whole = False
        """Whether any fact of the keyword may have changed."""
        self.before: tuple[str, str] | None = None
        """The description and the type in the keyword's rows; None without rows."""

    def keys(self, keyword: str) -> list[int]:
        """Return the numbers of the facts with these ids."""
        return [key_of(keyword, each) for each in self.ids]


def touched_by(entries: Iterable[Entry]) -> dict[str, Touched]:
    """Return the facts that entries may have changed, by keyword."""
    found: dict[str, Touched] = {}
    for entry in entries:
        for fact in entry.get("facts", ()):
            touched = found.setdefault(fact["keyword"], Touched())
            touched.ids.add(fact["id"])
            touched.values.update(canonical(value) for _, value in values_of(fact))
            touched.is_whole |= fact["type"] == "SINGLE"
        for keyword, fact_id, _ in entry.get("forget", ()):
            found.setdefault(keyword, Touched()).ids.add(fact_id)
        for retracted in entry.get("retract", ()):
            found.setdefault(retracted["keyword"], Touched()).is_whole = True
    return found


def conversations_of(entries: Iterable[Entry]) -> set[int]:
    """Return the numbers of the conversations in the sources of facts."""
    sources = (fact.get("source") for entry in entries for fact in entry.get("facts", ()))
    names = (source.get("conversation") for source in sources if source is not None)
    return {hashed(name) for name in names if name is not None}


def _stored(keyword: str, topic: KeywordItems, items: Iterable[Item]) -> bytes:
    # The numbers of items depend on the entries that were folded; a digest must not.
    fields = [[0, *item.fields()[1:]] for item in items]
    whole = [keyword, topic.description, topic.fact_type, fields]
    try:
        return orjson.dumps(whole)
    except TypeError:  # an integer beyond 64 bits
        return pydantic_core.to_json(whole)


def _expiry(items: Iterable[Item]) -> int | None:
    expiries = [item.expires_at for item in items if item.expires_at is not None]
    return micros(min(expiries)) if expiries else None


class StoredItem(NamedTuple):
    """A fact as a row stores it."""

    keyword: str
    description: str
    fact_type: str
    items: list[Item]

    @classmethod
    def load(cls, stored: bytes) -> "StoredItem":
        """Decode a stored fact."""
        keyword, description, fact_type, fields = json.loads(stored)
        return cls(keyword, description, fact_type, [Item.restored(each, {}) for each in fields])

    @property
    def about(self) -> tuple[str, str]:
        """The description and the type of its keyword."""
        return self.description, self.fact_type

    def fact(self, concept: Concept[Any, Any] | None = None) -> AnyFact:
        """Return the fact, in the type of a concept if one is given.

        Raises:
            StoredFactError: A value does not fit that type.
        """
        if concept is None:
            topic = KeywordItems()
            topic.description, topic.fact_type = self.description, self.fact_type
            concept = concept_of(self.keyword, topic, self.items)
        return presented(concept, self.items)[0]

    def found(self, stored: bytes) -> Found:
        """Return the fact together with its stored bytes."""
        return Found(self.keyword, stored, self.fact(), _expiry(self.items))


class ItemRow(NamedTuple):
    """A row of the table `items`, in the order of its columns after the place and the store."""

    topic: int
    key: int
    digest: str
    text: str
    conversation: int | None
    message: int | None
    heard_at: float
    said_at: float
    importance: float
    kind: int
    expires_at: int | None
    metadata: str
    held: str
    length: float
    words: str
    stored: bytes


def item_row(found: Found, document: SearchDocument, search: int) -> tuple[ItemRow, list[str]]:
    """Return the row of a fact, and its own terms as they are stored.

    Args:
        found: The fact.
        document: Its terms.
        search: The number of its place's search, the prefix of its terms.
    """
    fact, message = found.fact, found.message
    heard_at = fact.confirmed_at or fact.timestamp
    words, own = _words(document, search)
    row = ItemRow(
        hashed(found.keyword),
        found.key,
        found.digest,
        document.digest.hex(),
        None if message is None else message[0],
        None if message is None else message[1],
        heard_at.timestamp(),
        fact.timestamp.timestamp(),
        fact.importance,
        0 if fact.source is None else _KINDS[fact.source.kind],
        found.expires_at,
        numbers(metadata_hashes(fact.metadata)),
        numbers(held_values(StoredItem.load(found.stored).items)),
        document.length,
        words,
        found.stored,
    )
    return row, own


def kind_numbers(kinds: Iterable[SourceKind]) -> list[int]:
    """Return the numbers of kinds of sources."""
    return [_KINDS[kind] for kind in kinds]


def metadata_hashes(metadata: Mapping[str, JsonValue]) -> list[int]:
    """Return a hash of each pair of a key and its value."""
    pairs = metadata.items()
    return [hashed(key, orjson.dumps(value, option=orjson.OPT_SORT_KEYS)) for key, value in pairs]


def held_values(items: Iterable[Item]) -> list[int]:
    """Return a hash of each value."""
    return [hashed(canonical(item.value)) for item in items]


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


def patterns(search: int, terms: Iterable[str]) -> list[tuple[str, bytes]]:
    """Return terms with the bytes that `counts_in` searches for in rows of a search."""
    return [(term, f"{search}:{written_term(term)}\0".encode()) for term in terms]


def counts_in(words: bytes, wanted: Iterable[tuple[str, bytes]]) -> dict[str, tuple[float, bool]]:
    """Return the counts of some terms in a row, and whether they are the fact's own.

    Args:
        words: A tsvector in the server's binary format: each term ends in NUL and is followed by
            the number of its positions and the positions. Their first two bits are the weight.
        wanted: The result of `patterns`.
    """
    found: dict[str, tuple[float, bool]] = {}
    for term, pattern in wanted:
        at = words.find(pattern)
        if at >= 0:
            end = at + len(pattern) + 2
            position = words[end] << 8 | words[end + 1]
            found[term] = (position & 0x3FFF) / _STEP, position >> 14 == 3
    return found


def candidate_of(
    identity: Identity, wanted: Iterable[tuple[str, bytes]], row: Sequence[Any]
) -> SearchCandidate:
    """Return the candidate of a row with the columns `search_statements.COLUMNS` and two cosines.

    Args:
        identity: Its place.
        wanted: The result of `patterns` for this place.
        row: The row.
    """
    _, stored, topic, length, heard_at, said_at, importance, conversation, message = row[:9]

    def load(known: Mapping[str, Concept[Any, Any]]) -> AnyFact:
        item = StoredItem.load(stored)
        return item.fact(known.get(item.keyword))

    return SearchCandidate(
        identity,
        topic,
        counts_in(row[9], wanted),
        length,
        heard_at,
        said_at,
        importance,
        conversation,
        message is not None and message >= 0,
        row[11],
        row[12],
        load,
    )
