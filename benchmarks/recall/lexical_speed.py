"""The speed and the memory use of lexical recall.

    python -m benchmarks.recall.lexical_speed [documents ...]

A generated document has the keyword and description of a random fact of the corpus, six random
words of the corpus's values, a random day and one of five names: about thirty terms. The queries
are the questions of the corpus. Times are processor times with a warm index, medians over the
questions.
"""

import random
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from statistics import median, quantiles
from time import process_time

from benchmarks.recall.corpus import Fact, read_facts, read_questions
from benchmarks.recall.lexical_index import LexicalIndex
from factmem.recall._documents import (
    FIELD_WEIGHTS,
    fact_fields,
    value_words,
)


def made_up(count: int, facts: list[Fact], seed: int = 7) -> Iterator[tuple[int, dict[str, str]]]:
    chance = random.Random(seed)
    vocabulary = " ".join(value_words(value) for fact in facts for value in fact.values).split()
    people = sorted({fact.entity for fact in facts})
    start = datetime(2022, 1, 1, tzinfo=UTC)
    for number in range(count):
        fact = chance.choice(facts)
        yield (
            number,
            fact_fields(
                keyword=fact.keyword,
                description=fact.description,
                values=[" ".join(chance.choices(vocabulary, k=6))],
                moment=start + timedelta(minutes=chance.randrange(2_100_000)),
                entity=chance.choice(people),
            ),
        )


def milliseconds(work: Callable[[str], object], queries: list[str]) -> tuple[float, float]:
    """Return the median and the 95th percentile of one call per query, after a warm-up."""
    for query in queries:
        work(query)
    times = []
    for query in queries:
        started = process_time()
        work(query)
        times.append((process_time() - started) * 1000)
    return median(times), quantiles(times, n=20)[18]


def measure(count: int) -> None:
    facts, questions = read_facts(), read_questions()
    documents = list(made_up(count, facts))
    started = process_time()
    index: LexicalIndex[int] = LexicalIndex(weights=FIELD_WEIGHTS)
    for number, fields in documents:
        index.add(number, fields)
    built = process_time() - started
    queries = [question.text for question in questions]
    print(f"\n{count:,} documents, built in {built:.2f} s ({built / count * 1e6:.0f} µs each)")

    everyone = range(count)
    some = range(0, count, 10)
    searches: dict[str, Callable[[str], object]] = {
        "the 5 best": lambda query: index.search(query, limit=5),
        "all that match": index.search,
        "the 5 best of all, named": lambda query: index.search(query, limit=5, candidates=everyone),
        "the 5 best of a tenth": lambda query: index.search(query, limit=5, candidates=some),
    }
    for name, search in searches.items():
        middle, slow = milliseconds(search, queries)
        print(f"  {name:26} median {middle:7.2f} ms   p95 {slow:7.2f} ms")

    chance = random.Random(1)
    changes = [documents[chance.randrange(count)] for _ in range(200)]
    started = process_time()
    for number, fields in changes:
        index.add(number, fields)
    print(f"  replacing one document     mean   {(process_time() - started) * 5:7.3f} ms")

    del index
    tracemalloc.start()
    index = LexicalIndex(weights=FIELD_WEIGHTS)
    for number, fields in documents:
        index.add(number, fields)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    print(
        f"  memory                     {held / 2**20:7.1f} MiB  ({held / count:.0f} B a document)"
    )


if __name__ == "__main__":
    for size in map(int, sys.argv[1:] or ["5000", "100000"]):
        measure(size)
