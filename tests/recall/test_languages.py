"""Search by words in eight languages, and over notes of three origins, without any threshold."""

import pytest

from benchmarks.recall.simple import FIRST, LANGUAGES, ORIGINS, Rank, grep, read_sets, recall

SETS = {each.name: each for each in read_sets()}


@pytest.mark.parametrize("name", LANGUAGES)
async def test_each_language_answers_36_of_40_questions(name: str) -> None:
    """The same facts and questions: English alone used to have function words and endings."""
    known = SETS[name]
    rank = await recall(known.texts, [asked for asked, _ in known.questions], None)

    found = [bool(right.intersection(rank(asked))) for asked, right in known.questions]

    assert len(found) == 40
    assert sum(found) >= 36


@pytest.mark.parametrize("name", ORIGINS)
async def test_notes_of_three_origins_are_found_better_than_by_grep(name: str) -> None:
    """A chat, a diary and customer service, in three languages; few questions find nothing."""
    known = SETS[name]
    rank = await recall(known.texts, [asked for asked, _ in known.questions], None)
    simple = grep(known.texts)

    def hits(of: Rank) -> int:
        return sum(bool(right.intersection(of(asked)[:FIRST])) for asked, right in known.questions)

    assert hits(rank) / len(known.questions) >= 0.85
    assert hits(rank) >= hits(simple)
    assert sum(not rank(asked) for asked, _ in known.questions) <= 1
