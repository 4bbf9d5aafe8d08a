"""The quality of lexical recall, and the effect of each choice in it.

    python -m benchmarks.recall.lexical_quality

hit@5: the share of questions with a right fact among the first five hits.
recall@5: the share of a question's right facts that are among the first five hits, on average.
MRR: the reciprocal rank of the first right fact, 0 beyond rank 10, on average.

The first row of each table is the configuration of `factmem.recall`; each other row changes one
part of it.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial

from benchmarks.recall.corpus import Question, read_facts, read_questions, read_unanswerable
from benchmarks.recall.lexical_index import LexicalIndex
from factmem.recall._documents import FIELD_WEIGHTS, fact_fields
from factmem.recall._lexical.analysis import (
    STOP_WORDS,
    Word,
    plural_stem,
    snowball_stem,
    unstemmed,
    words,
)

FACTS = read_facts()
QUESTIONS = read_questions()
UNANSWERABLE = read_unanswerable()


def build_index(
    *,
    without: Collection[str] = (),
    weights: dict[str, float] = FIELD_WEIGHTS,
    k1: float = 1.2,
    b: float = 0.75,
    analyze: Callable[[str], Sequence[Word]] = words,
    stop_words: Collection[str] = STOP_WORDS,
) -> LexicalIndex[str]:
    index = LexicalIndex(weights=weights, k1=k1, b=b, analyze=analyze, stop_words=stop_words)
    for fact in FACTS:
        fields = fact_fields(
            keyword=fact.keyword,
            description=fact.description,
            values=fact.values,
            moment=fact.timestamp,
            entity=fact.entity,
            quote=fact.quote,
        )
        index.add(fact.id, {name: text for name, text in fields.items() if name not in without})
    return index


def with_single_characters(text: str) -> list[Word]:
    """Index the single characters of unspaced scripts in addition to the pairs."""
    return [
        (*word, *(c for term in word if len(term) == 2 and not term.isascii() for c in term))
        for word in words(text)
    ]


def quality(index: LexicalIndex[str], questions: Iterable[Question]) -> tuple[float, float, float]:
    hits = recalls = ranks = count = 0.0
    for question in questions:
        found = [hit.id for hit in index.search(question.text, limit=10)]
        count += 1
        right = question.facts.intersection(found[:5])
        hits += bool(right)
        recalls += len(right) / len(question.facts)
        ranks += next((1 / at for at, one in enumerate(found, 1) if one in question.facts), 0.0)
    return hits / count, recalls / count, ranks / count


def row(name: str, index: LexicalIndex[str], questions: Sequence[Question] = QUESTIONS) -> None:
    groups = [questions]
    groups += [[q for q in questions if q.language == language] for language in ("en", "ko")]
    cells = "    ".join(cell(index, group) for group in groups)
    print(f"{name:34} {len(questions):4}   {cells}")


def cell(index: LexicalIndex[str], questions: Sequence[Question]) -> str:
    if not questions:
        return " " * 19
    hits, recalls, ranks = quality(index, questions)
    return f"{hits:5.3f}  {recalls:5.3f}  {ranks:5.3f}"


def heading(title: str) -> None:
    columns = "    ".join(f"{group:19}" for group in ("all", "English", "Korean")).rstrip()
    print(f"\n{title:34}    n   {columns}")
    print(" " * 42 + "    ".join(["hit@5  rec@5  MRR  "] * 3))


def kinds(index: LexicalIndex[str]) -> None:
    heading("kind of question")
    row("all", index)
    for kind in sorted({kind for question in QUESTIONS for kind in question.kinds}):
        row(kind, index, [question for question in QUESTIONS if kind in question.kinds])


def choices() -> None:
    heading("analysis")
    row("Snowball stems (extra recall)", build_index(analyze=partial(words, stem=snowball_stem)))
    row("plural endings (no extra)", build_index(analyze=partial(words, stem=plural_stem)))
    row("no stems", build_index(analyze=partial(words, stem=unstemmed)))
    row("stop words searched too", build_index(stop_words=()))
    row("single characters besides pairs", build_index(analyze=with_single_characters))

    heading("fields")
    row("all of them", build_index())
    for field in ("entity", "keyword", "description", "value", "date", "quote"):
        row(f"without {field}", build_index(without={field}))
    row("quote counts in full", build_index(weights={}))
    for field, weight in (("entity", 2.0), ("value", 2.0), ("description", 0.5), ("date", 0.5)):
        row(f"{field} counts {weight}", build_index(weights={**FIELD_WEIGHTS, field: weight}))

    heading("BM25")
    row("k1 1.2, b 0.75", build_index())
    for k1, b in ((0.6, 0.75), (0.9, 0.4), (1.2, 0.0), (1.2, 0.4), (1.2, 1.0), (2.0, 0.75)):
        row(f"k1 {k1}, b {b}", build_index(k1=k1, b=b))


def gate(index: LexicalIndex[str]) -> None:
    """Print the effect of a threshold on coverage, with and without an answer."""
    print(
        f"\nhits below a coverage dropped      hit@5   of {len(UNANSWERABLE)} unanswerable, silent"
    )
    for threshold in (0.0, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5):
        answered = silent = 0
        for question in (*QUESTIONS, *UNANSWERABLE):
            hits = index.search(question.text, limit=5)
            kept = {hit.id for hit in hits if hit.coverage >= threshold}
            answered += bool(kept & question.facts)
            silent += not question.facts and not kept
        share = answered / len(QUESTIONS)
        print(f"  {threshold:4.2f} {'':26} {share:5.3f}   {silent / len(UNANSWERABLE):.2f}")


if __name__ == "__main__":
    default = build_index()
    print(f"{len(FACTS)} facts, {len(QUESTIONS)} questions")
    kinds(default)
    choices()
    gate(default)
