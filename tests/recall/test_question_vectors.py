"""Question vectors are cached, and never reveal the questions of other users."""

import pytest

from factmem.recall import _semantic as meaning
from tests.doubles import TopicEmbedder
from tests.world import AGENT, ALICE, LocalStore, bare_note, recall_memory


async def test_a_repeated_question_makes_no_request(store: LocalStore) -> None:
    """Each view embeds its own questions, also one of the same places."""
    await store.save(bare_note("pet", "cat"), ALICE, AGENT)
    memory = recall_memory(store, embedder=TopicEmbedder())
    one, another = memory.view(subjects=[ALICE]), memory.view(subjects=[ALICE])
    calls: list[int] = []

    for asked in (memory, memory, one, one, another, another):
        result = await asked.recall("any animal?")
        assert result.is_semantic
        calls.append(result.embedding_calls)

    assert calls == [2, 0, 1, 0, 1, 0]  # the first view also had the fact embedded


async def test_only_the_last_questions_are_cached(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The least recently used ones are removed."""
    monkeypatch.setattr(meaning, "_MOST_QUESTIONS", 2)
    await store.save(bare_note("pet", "cat"), ALICE, AGENT)
    memory = recall_memory(store, embedder=TopicEmbedder())

    costs = [(await memory.recall(question)).embedding_calls for question in "abcbca"]

    assert costs == [2, 1, 1, 0, 0, 1]
