"""Documents: the terms of facts for a searched store, the same as for a search in this process."""

from collections.abc import Iterator, Sequence
from functools import cache

from factmem.models.facts import AnyFact
from factmem.providers.searched import SearchDocument
from factmem.recall._conversations import said_around
from factmem.recall._documents import (
    FIELD_WEIGHTS,
    RECURRING_FIELDS,
    meaning_of,
    text_digest,
    words_of,
)
from factmem.recall._lexical.bm25 import TermIndex

__all__ = ["analyzer", "described"]


@cache
def analyzer() -> TermIndex:
    """Return an empty index. It analyzes facts and questions like any other index."""
    return TermIndex(weights=FIELD_WEIGHTS, recurring=RECURRING_FIELDS)


def described(facts: Sequence[AnyFact], entity: str | None) -> Iterator[SearchDocument]:
    """Yield the document of each fact of an entity, with the words of neighbours among `facts`."""
    messages: dict[tuple[str, int], list[AnyFact]] = {}
    for fact in facts:
        source = fact.source
        if source is not None and source.conversation is not None and source.message is not None:
            messages.setdefault((source.conversation, source.message), []).append(fact)

    def at(conversation: str, message: int) -> Sequence[AnyFact]:
        return messages.get((conversation, message), ())

    for fact in facts:
        around = said_around(fact.source, at)
        document = analyzer().document(words_of(fact, entity), around)
        digest = text_digest(meaning_of(fact, entity))
        yield SearchDocument(*document, document.length, digest)
