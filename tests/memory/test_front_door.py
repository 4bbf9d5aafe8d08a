"""Views by name, the memory as a string, opening in one line, and the repr."""

from pathlib import Path

import pytest

from factmem.encryption.aes256gcm import Aes256GCMEncryptor
from factmem.encryption.key import Key
from factmem.errors import UnboundSubjectError
from factmem.memory.agent_memory import AgentMemory
from factmem.models.facts import Concept, FactType, MultipleFacts, SingleFact
from factmem.models.places import MemorySubject
from factmem.providers.in_memory import InMemoryProvider
from factmem.providers.storages import EncryptedStorage
from factmem.testing._facts import SAID
from factmem.testing.chat import ScriptedChatModel
from tests.world import AGENT, ALICE, BOB, COMPANY, THEME, USER, languages, memory_of, theme


async def test_of_binds_every_unbound_subject() -> None:
    """A subject without entities and one that is already bound stay unchanged."""
    pet = MemorySubject("pet", "The user's pet", 4, per_entity=True)
    memory = memory_of(subjects=[USER, pet, BOB, COMPANY])

    alice = memory.of("alice")

    assert memory.subjects == (USER, pet, BOB, COMPANY)
    assert alice.subjects == (ALICE, pet.of("alice"), BOB, COMPANY)
    with pytest.raises(UnboundSubjectError):
        await memory.current(THEME)
    assert await alice.current(THEME) == []


def test_of_raises_for_a_memory_without_a_user() -> None:
    """Otherwise it would show everything to everyone, as if it were one user's."""
    with pytest.raises(ValueError, match="no unbound per-entity subject"):
        memory_of(subjects=[COMPANY]).of("alice")
    with pytest.raises(ValueError, match="bound to an entity already"):
        memory_of(subjects=[USER]).of("alice").of("bob")


async def test_the_text_for_a_question() -> None:
    """It has only relevant facts, and no more than the limit."""
    store = InMemoryProvider()
    await store.save_many([theme("dark"), languages("Korean")], ALICE, AGENT)
    memory = memory_of(store)

    text = await memory.text("Which theme?", limit=1)

    assert "dark" in text
    assert "Korean" not in text
    assert await memory.text("quantum chromodynamics") == ""
    assert await memory_of().text() == ""
    with pytest.raises(ValueError, match="limit and max_tokens need a question"):
        await memory.text(limit=5)


@pytest.mark.parametrize("is_encrypted", [False, True])
async def test_a_memory_of_one_user_opens_in_one_line(tmp_path: Path, is_encrypted: bool) -> None:
    """Its facts are stored for this user only; the store is closed at the end."""
    storage = EncryptedStorage(Aes256GCMEncryptor(Key.generate())) if is_encrypted else None
    fact = {"message": 0, "quote": "dark theme", "keyword": "ide-theme", "value": "dark"}
    model = ScriptedChatModel({"facts": [fact]})

    async with AgentMemory.open(
        tmp_path / "memory", user="alice", chat_model=model, storage=storage
    ) as memory:
        await memory.remember("I prefer the dark theme.")
    async with AgentMemory.open(tmp_path / "memory", user="alice", storage=storage) as memory:
        assert [match.fact.values for match in await memory.recall("Which theme?")] == [("dark",)]
    async with AgentMemory.open(tmp_path / "memory", storage=storage) as memory:
        assert await memory.of("bob").current() == []
        assert len(await memory.of("alice").current()) == 1

    assert model.calls
    with pytest.raises(ValueError, match="closed"):
        await memory.of("alice").current()


def test_the_repr_of_a_memory() -> None:
    """It has places and subjects, and no value and no key."""
    memory = memory_of(subjects=[USER])

    assert repr(memory) == (
        "<AgentMemory in InMemoryProvider: user in agent/support-bot, product/my-app>"
    )
    assert repr(memory.of("alice").view(read_only=True)) == (
        "<AgentMemory in InMemoryProvider: user(alice) in agent/support-bot, product/my-app, "
        "read-only view>"
    )
    assert repr(AgentMemory(InMemoryProvider())).endswith(": everything in no scope>")


def test_the_repr_of_a_fact_has_keyword_value_and_day() -> None:
    """It is shorter than 100 characters for any value."""
    day = SAID.date().isoformat()
    long = Concept("k" * 200, "Long", FactType.MULTIPLE, value_type=list[str])

    assert repr(theme("dark")) == f"<SingleFact ide-theme: 'dark' ({day})>"
    assert repr(languages("Korean", "German")) == (
        f"<MultipleFacts languages: 'Korean', 'German' ({day})>"
    )
    assert len(repr(theme("x" * 2000))) < 100
    assert len(repr(MultipleFacts(long, [["v" * 500]] * 100))) < 100
    assert len(repr(SingleFact(Concept("k" * 200, "d"), "v" * 200))) < 100
