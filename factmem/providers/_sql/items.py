"""StoredItem: a current fact as bytes, with the type that it was saved with. No I/O."""

import json
from collections.abc import Iterable
from hashlib import blake2b
from typing import Any, NamedTuple

import orjson
import pydantic_core

from factmem.ledger._items import Item, KeywordItems, values_of
from factmem.ledger._presentation import concept_of, presented
from factmem.ledger.entries import StoredFact
from factmem.ledger.ledger import Ledger
from factmem.models.actors import NOBODY
from factmem.models.facts import AnyFact, Concept


class StoredItem(NamedTuple):
    """A current fact as a row stores it, with the type that it was saved with."""

    keyword: str
    description: str
    fact_type: str
    items: list[Item]
    stored: bytes

    @classmethod
    def load(cls, stored: bytes) -> "StoredItem":
        keyword, description, fact_type, fields = json.loads(stored)
        items = [Item.restored(each, {}) for each in fields]
        return cls(keyword, description, fact_type, items, stored)

    @classmethod
    def of_save(cls, saved: bytes, at: str) -> "StoredItem":
        """Return the fact of a save that nothing has changed since, by its JSON and its time."""
        fact: StoredFact = orjson.loads(saved)
        about = fact["keyword"], fact["description"], fact["type"]
        items = [Item(0, value, fact, at, NOBODY) for _, value in values_of(fact)]
        return cls(*about, items, _stored(about, items))

    @property
    def digest(self) -> str:
        return blake2b(self.stored, digest_size=16).hexdigest()

    def fact(self, concept: Concept[Any, Any] | None = None) -> AnyFact:
        """Return the fact, in the type of a concept if one is given, or raise `StoredFactError`."""
        if concept is None:
            topic = KeywordItems()
            topic.description, topic.fact_type = self.description, self.fact_type
            concept = concept_of(self.keyword, topic, self.items)
        return presented(concept, self.items)[0]


def current_facts(ledger: Ledger, keyword: str, now: str) -> list[StoredItem]:
    topic = ledger.at(now).get(keyword)
    items = [] if topic is None else topic.alive(now)
    if topic is None or not items:
        return []
    if topic.fact_type == "SINGLE":
        items = items[-1:]
    groups: dict[str, list[Item]] = {}
    for item in items:
        groups.setdefault(item.fact_id, []).append(item)
    about = keyword, topic.description, topic.fact_type
    return [StoredItem(*about, group, _stored(about, group)) for group in groups.values()]


def _stored(about: tuple[str, str, str], items: Iterable[Item]) -> bytes:
    # The numbers of items depend on the entries that were folded; a digest must not.
    whole = [*about, [[0, *item.fields()[1:]] for item in items]]
    try:
        return orjson.dumps(whole)
    except TypeError:  # an integer beyond 64 bits
        return pydantic_core.to_json(whole)
