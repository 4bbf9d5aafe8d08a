"""Documents, vectors and questions for the suite of searched stores."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from math import hypot
from typing import Any

from factmem.models.facts import AnyFact
from factmem.models.places import Place
from factmem.providers.results import SearchAnswer, SearchDocument, SearchQuestion
from factmem.providers.store import FactStore
from factmem.testing._facts import AGENT, USER

HERE = Place(AGENT, USER)

MODEL = "words"
AXES = ("dark", "light", "green", "java", "rust", "python")
"""The words that vectors count, each with one dimension. There is one dimension more."""

_NEAR = 1
"""The distance of neighbouring messages."""


def words_in(fact: AnyFact) -> list[str]:
    """Return the words of a fact's values."""
    return [word for value in fact.values for word in str(value).lower().split()]


def digest_of(fact: AnyFact) -> bytes:
    """Return the digest of the text of a fact that is embedded."""
    text = " ".join([fact.concept.keyword, *words_in(fact)])
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def describe(facts: Sequence[AnyFact], entity: str | None) -> Iterator[SearchDocument]:
    """Yield the document of each fact: its words, and with half the count those of its neighbours."""
    for fact in facts:
        own = Counter(words_in(fact))
        around = {
            word: 0.5
            for other in facts
            if _is_beside(fact, other)
            for word in words_in(other)
            if word not in own
        }
        length = own.total() + sum(around.values())
        counts: Mapping[str, float] = {word: float(count) for word, count in own.items()}
        yield SearchDocument(counts, around, float(length), digest_of(fact))


def _is_beside(fact: AnyFact, other: AnyFact) -> bool:
    one, two = fact.source, other.source
    if one is None or two is None or one.message is None or two.message is None:
        return False
    is_near = 0 < abs(one.message - two.message) <= _NEAR
    return is_near and one.conversation is not None and one.conversation == two.conversation


def vector_of(text: str, axes: Sequence[str] = AXES) -> list[float]:
    """Return the vector of a text, of length 1."""
    counts = Counter(text.lower().split())
    numbers = [*(float(counts[word]) for word in axes), 0.25]
    length = hypot(*numbers)
    return [number / length for number in numbers]


def asking(*terms: str, vector: Sequence[float] | None = None, **fields: Any) -> SearchQuestion:
    """Return a question with some terms, for up to 50 candidates of each place."""
    given: dict[str, Any] = {"limit": 50, "model": MODEL if vector is not None else "", **fields}
    return SearchQuestion(terms, vector=vector, **given)


async def ask(
    store: FactStore, question: SearchQuestion, places: Sequence[Place] = (HERE,)
) -> SearchAnswer:
    """Return the answer of a store; fail if it does not search these places."""
    assert await store.is_searched(places), "The suite needs a store that searches any place"
    return await store.candidates(places, question, describe)


async def embed(
    store: FactStore,
    place: Place = HERE,
    *,
    model: str = MODEL,
    axes: Sequence[str] = AXES,
    limit: int = 50,
    refused: Sequence[str] = (),
) -> list[bytes]:
    """Pass a store the missing vectors of a place; return the digests that it asked for."""
    named: list[bytes] = []
    space: dict[str, Any] = {"model": model, "dimensions": len(axes) + 1}
    for _ in range(100):
        facts = await store.facts_to_embed(place, **space, limit=limit)
        if not facts:
            return named
        assert len(facts) <= limit
        named += facts
        vectors = {
            digest: None
            if any(word in refused for word in words_in(fact))
            else vector_of(" ".join(words_in(fact)), axes)
            for digest, fact in facts.items()
        }
        await store.add_vectors(place, vectors, **space)
    raise AssertionError("`facts_to_embed` returns facts again and again after `add_vectors`")


def found_in(answer: SearchAnswer) -> list[tuple[str, ...]]:
    """Return the values of the candidates, sorted."""
    return sorted(tuple(map(str, each.load({}).values)) for each in answer.candidates)
