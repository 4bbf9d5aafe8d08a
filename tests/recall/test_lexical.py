"""Ranking by words: the formula, updates of the index, and the facts that affect a score."""

from math import log
from random import Random
from weakref import ref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factmem.recall._bm25 import TermIndex
from factmem.recall._documents import Document
from tests.recall.lexical_index import LexicalHit, LexicalIndex
from tests.tables import table

FACTS = {
    "kotlin": "preferred-language: the programming language the user prefers. Kotlin",
    "java": "previous-language: a programming language the user used earlier. Java",
    "cat": "pet: an animal that lives with Mara. A tortoiseshell cat named Biscuit",
    "dog": "pet: an animal that lives with Tobias. A beagle called Biscuit",
    "allergy": "allergy: Mara must not eat hazelnuts",
    "복숭아": "allergy: 사용자의 알레르기. 서윤은 복숭아를 못 먹어요",
    "고양이": "pet: 서윤과 함께 사는 동물. 고양이 콩이와 보리",
    "東京": "trip: 2023年5月に東京タワーへ行った",
    "四川": "food: 她最喜欢的菜是四川火锅",
}


@pytest.fixture(autouse=True)
def _words_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Score by words alone, so that the expected scores are those of the formula."""
    monkeypatch.setattr("factmem.recall._bm25.SIMILAR", 1e-9)
    monkeypatch.setattr("factmem.recall._bm25.LETTERS", 0.0)


def built(facts: dict[str, str], *, dense: bool = True) -> LexicalIndex[str]:
    index: LexicalIndex[str] = LexicalIndex(dense=dense)
    for key, text in facts.items():
        index.add(key, text)
    return index


@table(
    ("query", "best"),
    [
        ("Which programming language does the user prefer?", "kotlin"),
        ("PREFERRED LANGUAGES", "kotlin"),
        ("the language used earlier", "java"),
        ("Mara's cat", "cat"),
        ("what is the beagle called?", "dog"),
        ("hazelnut", "allergy"),
        ("서윤이가 못 먹는 과일이 복숭아야?", "복숭아"),
        ("고양이는 누구랑 살아?", "고양이"),
        ("東京へいつ行った?", "東京"),
        ("2023년 5월", "東京"),
        ("喜欢吃什么菜", "四川"),
        ("四川", "四川"),
    ],
)
def test_the_relevant_fact_ranks_first(query: str, best: str) -> None:
    """The languages are English, Korean, Japanese and Chinese."""
    assert built(FACTS).search(query)[0].id == best


def test_the_score_is_bm25() -> None:
    """The formula of the module's docstring is computed by hand."""
    index = built({"one": "red red cup", "two": "blue cup", "three": "spoon"})

    hits = {hit.id: hit.score for hit in index.search("red cup")}

    average = (3 + 2 + 1) / 3
    idf_red, idf_cup = log(1 + 2.5 / 1.5), log(1 + 1.5 / 2.5)
    norm = {3: 1.2 * (0.25 + 0.75 * 3 / average), 2: 1.2 * (0.25 + 0.75 * 2 / average)}
    assert hits["one"] == pytest.approx(
        idf_red * 2 * 2.2 / (2 + norm[3]) + idf_cup * 2.2 / (1 + norm[3])
    )
    assert hits["two"] == pytest.approx(idf_cup * 2.2 / (1 + norm[2]))
    assert "three" not in hits


def test_coverage_is_the_share_of_the_query() -> None:
    """It is 1 if all words are found; a rare word counts more than a common one."""
    index = built({"one": "red cup", "two": "blue cup", "three": "green cup"})

    [best, *others] = index.search("red cup")
    assert best.id == "one"
    assert best.coverage == pytest.approx(1.0)
    assert all(0 < hit.coverage < 0.5 for hit in others)

    [hit] = index.search("red zeppelin")
    red, as_among_fifty = log(1 + 2.5 / 1.5), log(1 + 50.5 / 0.5) / log(1 + 49.5 / 1.5)
    assert hit.coverage == pytest.approx((1 + red) / (1 + red + 1 + red * as_among_fifty))


@pytest.mark.parametrize(
    ("said", "asked"),
    [
        ("drives an IONIQ 5", "IONIQ5"),
        ("drives an IONIQ5", "ioniq 5"),
        ("calls from 010-1234-5678", "01012345678"),
        ("calls from 01012345678", "010-1234-5678"),
        ("calls from 010 1234 5678", "010-1234-5678"),
    ],
)
def test_parts_match_the_joined_form(said: str, asked: str) -> None:
    """They cover a question like the same form."""
    [hit] = built({"said": said, "other": "nothing of that"}).search(asked)

    assert (hit.id, hit.coverage) == ("said", 1.0)


def test_a_question_of_particles_alone_is_searched() -> None:
    """English stop words alone are searched too."""
    assert [hit.id for hit in built({"他": "他的", "猫": "猫"}).search("他的")] == ["他"]


@table(
    ("question", "best"),
    [
        ("In welcher Werkstatt?", "workshop"),
        ("¿Qué desayuna?", "breakfast"),
        ("breakfst", "english"),
        ("Brot und Desayunos", "breakfast"),
        ("cat", None),
        ("1234", None),
    ],
)
def test_a_question_without_a_known_word_finds_similar_words(
    question: str, best: str | None
) -> None:
    """Compounds, endings of other languages and misspellings; short words and numbers are exact."""
    index = built(
        {
            "workshop": "Arbeitgeber: eine Familienwerkstatt",
            "breakfast": "desayuno: pan de centeno",
            "english": "her breakfast at 12345",
            "car": "a car",
        }
    )

    assert next((hit.id for hit in index.search(question)), None) == best


@pytest.mark.parametrize("candidates", [None, ["cat", "dog", "unknown"], []])
def test_numpy_and_python_give_the_same_ranking(candidates: list[str] | None) -> None:
    """The extra `recall` may be missing."""
    for query in ("Biscuit, the cat of Mara", "서윤이의 고양이", "東京へいつ行った?", "nothing"):
        dense, plain = (built(FACTS, dense=dense) for dense in (True, False))

        found = plain.search(query, candidates=candidates)

        others = {hit.id: hit for hit in dense.search(query, candidates=candidates)}
        assert {hit.id for hit in found} == others.keys()
        for hit in found:
            assert hit[1:] == pytest.approx(others[hit.id][1:])


@pytest.mark.parametrize("dense", [True, False])
def test_messages_around_a_document_find_it_without_covering(dense: bool) -> None:
    """They are not part of the document: coverage and rarity ignore them."""
    index: LexicalIndex[str] = LexicalIndex(dense=dense)
    index.add("answer", "yes, with pleasure", around=[("a trip to Lisbon", 0.5)])
    index.add("trip", "Lisbon in May")
    index.add("other", "no")

    hits = {hit.id: hit for hit in index.search("Lisbon")}
    mixed = {hit.id: hit for hit in index.search("Lisbon pleasure")}

    assert list(hits) == ["trip", "answer"]
    assert (hits["trip"].coverage, hits["answer"].coverage) == (1.0, 0.0)
    assert 0 < mixed["answer"].coverage < 1
    assert index.remove("answer")
    assert [hit.id for hit in index.search("Lisbon")] == ["trip"]


vocabulary = st.sampled_from(
    ["cup", "cups", "plate", "red", "the", "서윤은", "서윤이", "東京", "2023", "5월"]
)
documents = st.lists(vocabulary, max_size=8).map(" ".join)
changes = st.lists(st.tuples(st.integers(0, 9), documents | st.none()), max_size=40)
queries = st.lists(vocabulary, min_size=1, max_size=5).map(" ".join)


def as_dict(hits: list[LexicalHit[int]]) -> dict[int, tuple[float, float]]:
    return {hit.id: (hit.score, hit.coverage) for hit in hits}


@given(changes, queries, st.randoms(use_true_random=False), st.booleans())
def test_an_index_depends_only_on_its_documents(
    changes: list[tuple[int, str | None]], query: str, chance: Random, dense: bool
) -> None:
    """After additions, replacements and removals it scores like a new one."""
    index: LexicalIndex[int] = LexicalIndex(dense=dense, weights={"": 0.3})
    kept = dict[int, str]()
    for key, text in changes:
        if text is None:
            assert index.remove(key) is (kept.pop(key, None) is not None)
        else:
            index.add(key, text)
            kept[key] = text
    afresh: LexicalIndex[int] = LexicalIndex(dense=dense, weights={"": 0.3})
    shuffled = list(kept.items())
    chance.shuffle(shuffled)
    for key, text in shuffled:
        afresh.add(key, text)

    assert as_dict(index.search(query)) == as_dict(afresh.search(query))
    assert len(index) == len(kept)


strange = st.text(st.characters(exclude_categories=()), max_size=60) | st.sampled_from(
    ["\ud800", "x" * 5000, "!?" * 99, "👩‍👩‍👧" * 9, "\u0300" * 999, "\0", "'" * 9]
)


@given(st.lists(strange, max_size=5), strange)
def test_any_string_can_be_indexed(texts: list[str], query: str) -> None:
    """Any string is indexed, searched and removed again."""
    index: LexicalIndex[int] = LexicalIndex()
    for key, text in enumerate(texts):
        index.add(key, text)
        index.search(text)
    index.search(query)

    assert all(index.remove(key) for key in range(len(texts)))
    assert index.search(query) == []


class _Term(str):  # noqa: SLOT000 - weak references need a dict or a slot of their own
    """A string whose deletion can be observed."""


def test_a_word_is_freed_with_its_last_document() -> None:
    """Otherwise a process that runs for months would keep every word that it indexed."""
    made: list[ref[_Term]] = []
    index, terms = TermIndex(), list[_Term]()
    for slot, text in enumerate(["tea mint", "tea"]):
        terms = [_Term(term) for term in text.split()]
        made.extend(map(ref, terms))
        index.put(slot, Document(dict.fromkeys(terms, 1.0), {}))
    terms.clear()
    assert [term() is not None for term in made] == [True, True, False]  # "tea" is stored once

    index.drop(0)
    assert [term() is not None for term in made] == [True, False, False]
    index.drop(1)
    assert [term() is not None for term in made] == [False, False, False]
