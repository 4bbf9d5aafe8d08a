"""Conditions of forgettings: which current items they remove."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from factmem.ledger._items import Item
from factmem.ledger.entries import source_of
from factmem.models._metadata import includes
from factmem.models._values import Canonical, JsonValue
from factmem.models.sources import FactSource


@dataclass(frozen=True, slots=True)
class Condition:
    """The condition of a forgetting: an item must meet every field that is set."""

    keyword: str | None = None
    key: Canonical | None = None
    source: FactSource | None = None
    older_than: str | None = None
    keywords: frozenset[str] | None = None
    fact_ids: frozenset[str] | None = None
    metadata: Mapping[str, JsonValue] | None = None
    reading: Callable[[JsonValue], Canonical | None] | None = None
    """Returns the `key` of a stored value of an older type; None if its concept cannot read it."""
    is_single: bool = False
    """Whether `keywords` are those of one SINGLE concept. With the value that was said last, the
    earlier ones under its other keywords are removed: none of them becomes current."""

    @property
    def names(self) -> frozenset[str] | None:
        """The keywords and fact ids of the condition; None if it names none."""
        alone = None if self.keyword is None else (self.keyword,)
        named = [each for each in (alone, self.keywords, self.fact_ids) if each is not None]
        return frozenset().union(*named) if named else None

    @property
    def is_of_keywords(self) -> bool:
        """Whether it is met by all values of its keywords."""
        others = self.key, self.source, self.older_than, self.fact_ids, self.metadata
        return all(each is None for each in others)

    def is_met_by(self, keyword: str, key: Canonical, item: Item) -> bool:
        """Return whether an item meets all conditions. A source must be the only one of the item."""
        return (
            (self.keyword is None or keyword == self.keyword)
            and (self.keywords is None or keyword in self.keywords)
            and (self.key is None or key == self.key or self._reads_as_key(item))
            and (self.fact_ids is None or item.fact_id in self.fact_ids)
            and (self.older_than is None or item.confirmed_at < self.older_than)
            and (self.source is None or self._is_only_source(item))
            and (self.metadata is None or includes(item.metadata or {}, self.metadata))
        )

    def _reads_as_key(self, item: Item) -> bool:
        return self.reading is not None and self.reading(item.value) == self.key

    def _is_only_source(self, item: Item) -> bool:
        sources = [source_of(source) for source in item.sources]
        return self.source is not None and all(
            source is not None and self.source.covers(source) for source in sources
        )
