"""The score of a match: the documented formula and its limits."""

from array import array
from collections import defaultdict
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from math import isclose, nan
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from factmem.ledger.resolution import PlacedFact
from factmem.models.places import Place
from factmem.models.recall_filter import RecallFilter
from factmem.recall._documents import LONGEST_TEXT, meaning_of, text_digest, words_of
from factmem.recall._fact_index import FactIndex
from factmem.recall._place_vectors import PlaceVectors, QuestionVectors, TextRows, unit
from factmem.recall._ranking import NAMED
from factmem.recall.match import Match, RecallQuery, RecallSettings, RecallWeights
from tests.world import AGENT, ALICE, BOB, NOW, bare_note, bare_notes

HERE = Place(AGENT, ALICE)


@pytest.fixture(autouse=True)
def _words_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Score by words alone, so that the expected scores are those of the formula."""
    monkeypatch.setattr("factmem.recall._bm25.SIMILAR", 1e-9)
    monkeypatch.setattr("factmem.recall._bm25.LETTERS", 0.0)


def asked(text: str, **settings: Any) -> RecallQuery:
    return RecallQuery.of_arguments(text, RecallSettings(**settings), limit=100)


@pytest.fixture(params=[0, 10**9], ids=["numpy", "python"], autouse=True)
def worth_numpy(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compute words alone with arrays, and with dictionaries."""
    monkeypatch.setattr("factmem.recall._fact_index._WORTH_NUMPY", request.param)


def index_of(*facts: Any) -> FactIndex:
    index = FactIndex([HERE])
    for fact in facts:
        index.put(HERE.identity, PlacedFact(HERE, fact), text_digest(fact.id))
    return index


class Near(PlaceVectors):
    """Returns fixed cosines by fact id; the vectors have no mean direction."""

    def __init__(self, known: dict[bytes, float]) -> None:
        super().__init__()
        self.known = known

    def cosines(self, vector: object, texts: TextRows) -> list[float]:
        return [self.known.get(digest, nan) for digest in texts.digests]

    def total(self, texts: TextRows, chosen: object, dimensions: int) -> None:
        return None


def near(**cosines: float) -> QuestionVectors:
    known = {text_digest(name): cosine for name, cosine in cosines.items()}
    return QuestionVectors(array("f"), defaultdict(lambda: Near(known)))


def ids(matches: list[Match]) -> list[str]:
    return [match.fact.id for match in matches]


FACTS = [
    bare_note("pet", "a cat called Miso", id="cat", importance=0.9),
    bare_note("trip", "Lisbon with the cat", id="trip", timestamp=NOW - timedelta(days=30)),
    bare_note("allergy", "hazelnuts", id="nuts", importance=0.0, timestamp=NOW),
]
COSINES = {"cat": 0.8, "trip": 0.5, "nuts": -0.2}


def test_the_score_is_the_weighted_sum_of_its_parts() -> None:
    """A reader can compute it from the parts and the weights."""
    index = index_of(*FACTS)
    custom = RecallWeights(lexical=0.2, semantic=0.6, recency=0.7, importance=0.1)
    for weights in (RecallWeights(), custom):
        for similar in (None, near(**COSINES)):
            found = index.search(asked("the cat Miso", weights=weights), NOW, similar)
            assert found
            for match in found:
                lexical = weights.lexical if similar else weights.relevance
                semantic = weights.semantic if similar else 0.0
                relevance = lexical * match.lexical + semantic * match.semantic
                prior = weights.recency * match.recency + weights.importance * match.importance
                whole = weights.relevance + weights.recency + weights.importance
                score = relevance / weights.relevance * (weights.relevance + prior) / whole
                assert isclose(match.score, score)


def test_parts_are_normalised_over_the_candidates() -> None:
    """The best has 1, the least similar has 0; words of other users do not count."""
    by_words = index_of(*FACTS).search(asked("the cat Miso"), NOW)
    by_both = index_of(*FACTS).search(asked("the cat Miso"), NOW, near(**COSINES))

    assert ids(by_words) == ["cat", "trip"]
    assert (by_words[0].lexical, by_words[0].semantic) == (1.0, 0.0)
    assert 0 < by_words[1].lexical < 1
    semantic = {match.fact.id: match.semantic for match in by_both}
    assert semantic["cat"] == 1.0
    assert isclose(semantic["trip"], 0.7)


def above(cosine: float, *all_cosines: float) -> float:
    """Return a cosine's share above that of a random fact of these and 20 more of 0."""
    usual = sum(all_cosines) / (len(all_cosines) + 20)
    return max(cosine - usual, 0.0) / (1 - usual)


def test_relevance_is_coverage_and_cosine() -> None:
    """It is not scaled over the candidates, which would make the best of bad matches perfect."""
    index, question = index_of(*FACTS), asked("Does Miso like hazelnuts more than kumquats?")
    weights = RecallWeights(lexical=0.2, semantic=0.6)
    coverage = {match.fact.id: match.relevance for match in index.search(question, NOW)}

    evenly = index.search(question, NOW, near(**COSINES))
    unevenly = index.search(
        replace(question, settings=RecallSettings(weights=weights)), NOW, near(**COSINES)
    )

    assert coverage.keys() == {"cat", "nuts"}
    assert all(0 < share < 0.5 for share in coverage.values())
    relevance = {match.fact.id: match.relevance for match in evenly}
    near_cat, near_trip = (above(COSINES[name], *COSINES.values()) for name in ("cat", "trip"))
    assert isclose(relevance["cat"], (coverage["cat"] + near_cat) / 2)
    assert isclose(relevance["nuts"], coverage["nuts"] / 2)
    assert isclose(relevance["trip"], near_trip / 2)
    uneven = {match.fact.id: match.relevance for match in unevenly}
    assert isclose(uneven["cat"], 0.25 * coverage["cat"] + 0.75 * near_cat)


def test_a_random_fact_is_one_of_the_named_entity() -> None:
    """Its name makes all its facts similar and adds no information, nor does it add coverage."""
    bob = Place(AGENT, BOB)
    index = FactIndex([HERE, bob])
    named = {f"b{n}": 0.5 for n in range(20)} | {"b7": 0.9}
    cosines = named | {f"a{n}": 0.0 for n in range(20)}
    for name in cosines:
        place = bob if name[0] == "b" else HERE
        fact = PlacedFact(
            place, bare_note(f"k{name}", "likes jazz" if name == "b7" else "x", id=name)
        )
        index.put(place.identity, fact, text_digest(name))

    found = {m.fact.id: m for m in index.search(asked("Does Bob paint?"), NOW, near(**cosines))}

    assert isclose(found["b7"].relevance, above(0.9, *named.values()) / 2)
    assert isclose(found["b0"].relevance, above(0.5, *named.values()) / 2)
    jazz, *_ = index.search(asked("Bob and jazz?"), NOW, near(**cosines))
    assert isclose(jazz.relevance, (1 + above(0.9, *named.values())) / 2)


def test_facts_of_the_named_entity_gain_a_fifth() -> None:
    """Of two equal facts, the one about Bob scores higher by the documented weight."""
    bob = Place(AGENT, BOB)
    index = FactIndex([HERE, bob])
    for place, name in ((HERE, "hers"), (bob, "his")):
        fact = PlacedFact(place, bare_note("hobby", "paints landscapes", id=name))
        index.put(place.identity, fact, text_digest(name))

    unnamed = {m.fact.id: m.score for m in index.search(asked("Who paints landscapes?"), NOW, None)}
    named = {
        m.fact.id: m.score for m in index.search(asked("Does Bob paint landscapes?"), NOW, None)
    }

    assert unnamed["his"] == unnamed["hers"]
    assert named["hers"] < unnamed["hers"]
    assert isclose(named["his"] / unnamed["his"], 1 + NAMED)


def vectors_of(question: list[float], **vectors: list[float]) -> QuestionVectors:
    """Return the vectors of texts, by the ids of their facts, in one table."""
    held = PlaceVectors()
    held.use("m", len(question))
    held.add({text_digest(name): vector for name, vector in vectors.items()})
    return QuestionVectors(unit(question), {HERE.identity: held})


def test_the_common_part_of_all_facts_does_not_affect_the_ranking() -> None:
    """A part of the cosine with their mean vector is subtracted; relevance keeps it."""
    vectors = {"cat": [0.9, 0.3], "trip": [1.0, 0.0], "nuts": [0.9, -0.1]}
    index, question = index_of(*FACTS), asked("unheard")
    near_all = vectors_of([1.0, 0.12], **vectors)

    found = index.search(question, NOW, near_all)

    assert ids(found) == ["trip", "cat", "nuts"]
    assert found[0].relevance > found[1].relevance
    alone = index_of(*FACTS[:2]).search(question, NOW, near_all)
    left_out = replace(question, filter=RecallFilter(["pet", "trip"]))
    assert index.search(left_out, NOW, near_all) == alone
    index.drop(HERE.identity, "allergy", ["nuts"])
    assert index.search(question, NOW, near_all) == alone


def test_a_fact_without_a_vector_gets_the_mean_cosine() -> None:
    """Words alone must rank it neither above facts with words and meaning nor last."""
    facts = [
        bare_note("a", "morning meeting", id="right"),
        bare_note("b", "meeting in the morning", id="none"),
        bare_note("c", "a walk in the morning", id="far"),
    ]
    index, question = index_of(*facts), asked("meeting in the morning")

    found = index.search(question, NOW, near(right=0.8, far=-0.2))

    assert ids(found) == ["right", "none", "far"]
    parts = {match.fact.id: match for match in found}
    assert isclose(parts["none"].semantic, 0.5)
    [alone] = [match for match in index.search(question, NOW) if match.fact.id == "none"]
    assert parts["none"].relevance == alone.relevance


def test_recency_halves_with_each_half_life() -> None:
    """It counts from the last confirmation, and is at most 1, also if clocks disagree."""
    ages = {"now": 0, "month": 30, "year": 365, "tomorrow": -1}
    facts = [
        replace(bare_note("pet", "cat", id=name), confirmed_at=NOW - timedelta(days=days))
        for name, days in ages.items()
    ]
    facts = [replace(fact, concept=bare_note(fact.id, "x").concept) for fact in facts]

    found = index_of(*facts).search(asked("cat", half_life=timedelta(days=15)), NOW)

    recency = {match.fact.id: match.recency for match in found}
    assert recency["now"] == recency["tomorrow"] == 1.0
    assert isclose(recency["month"], 0.25)
    assert isclose(recency["year"], 0.5 ** (365 / 15))


def test_the_last_confirmed_of_equal_matches_comes_first() -> None:
    """After that the oldest one, so that the order is deterministic."""
    none = RecallWeights(recency=0, importance=0)
    facts = [
        replace(bare_note(f"pet{n}", "cat", id=str(n)), confirmed_at=NOW - timedelta(days=days))
        for n, days in enumerate([3, 1, 1, 2])
    ]

    assert ids(index_of(*facts).search(asked("cat", weights=none), NOW)) == ["1", "2", "3", "0"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    relevances=st.lists(st.floats(0.01, 1), min_size=2, max_size=6, unique=True),
    importances=st.lists(st.floats(0, 1), min_size=6, max_size=6),
    ages=st.lists(st.integers(0, 2000), min_size=6, max_size=6),
)
def test_default_weights_change_the_score_by_at_most_a_tenth(
    relevances: list[float], importances: list[float], ages: list[int]
) -> None:
    """For any age and importance, a fact ten percent more relevant stays ahead."""
    facts = [
        replace(
            bare_note(f"k{n}", "x", id=f"f{n}", importance=importances[n]),
            confirmed_at=NOW - timedelta(days=ages[n]),
        )
        for n in range(len(relevances))
    ]
    only_meaning = replace(RecallWeights(), lexical=0.0, semantic=0.9)
    cosines = {f"f{n}": cosine for n, cosine in enumerate(relevances)}

    found = index_of(*facts).search(asked("unheard", weights=only_meaning), NOW, near(**cosines))

    for ahead, behind in pairwise(found):
        assert ahead.semantic >= 0.9 * behind.semantic - 1e-9


def test_equal_cosines_count_as_similar() -> None:
    """A single candidate does too: there is no range to scale over."""
    found = index_of(FACTS[0]).search(asked("unheard"), NOW, near(cat=0.7))
    both = index_of(*FACTS[:2]).search(asked("unheard"), NOW, near(cat=0.7, trip=0.7))

    assert [match.semantic for match in (*found, *both)] == [1.0, 1.0, 1.0]
    assert isclose(found[0].relevance, above(0.7, 0.7) / 2)


def test_an_index_follows_its_facts() -> None:
    """New facts are found, removed ones are not, and changed ones count with their new values."""
    index, here = FactIndex([HERE]), HERE.identity
    for fact in FACTS:
        index.put(here, PlacedFact(HERE, fact))
    assert ids(index.search(asked("cat"), NOW)) == ["trip", "cat"]

    confirmed = replace(FACTS[0], importance=1.0, confirmed_at=NOW)
    index.put(here, PlacedFact(HERE, confirmed))
    index.drop(here, "trip", ["trip", "unheard of"])
    index.drop(here, "unheard of", ["trip"])

    (match,) = index.search(asked("cat"), NOW)
    assert (match.fact, match.importance, match.recency) == (confirmed, 1.0, 1.0)
    assert len(index) == 2
    assert (set(index.ids(here, "trip")), set(index.ids(here, "pet"))) == (set(), {"cat"})
    index.drop(here, "pet", ["cat"])
    assert index.search(asked("cat"), NOW) == []
    index.put(here, PlacedFact(HERE, FACTS[1]))
    assert ids(index.search(asked("cat"), NOW)) == ["trip"]


def test_the_indexed_text_of_a_fact() -> None:
    """It has subject, topic and values; the day and the quote count only for words."""
    fact = bare_notes("favourite_drinks-ever", "green tea", "coffee")
    described: Any = replace(
        fact, concept=type(fact.concept)("drinks", "What they drink", fact.concept.fact_type)
    )

    assert meaning_of(fact, "alice") == "alice: favourite drinks ever: green tea, coffee"
    assert meaning_of(described, None) == "drinks (What they drink): green tea, coffee"
    assert "September 2025" in words_of(fact, "alice")["date"]
    assert len(meaning_of(bare_note("essay", "x" * 10_000), None)) == LONGEST_TEXT
    assert text_digest("a") != text_digest("b")
    assert len(text_digest("é")) == 16
