"""What a purge removes from texts around a value, and what its result reports as left."""

import pytest

from factmem import (
    AgentMemory,
    InMemoryProvider,
    MemoryScope,
    MemoryScopesProfile,
    MemorySubject,
    acting,
)
from factmem.models.facts import Concept, FactSource, FactType, MultipleFacts, SourceKind
from factmem.providers.results import Forgotten

ALLERGIES = Concept("allergies", "What the user must not eat", FactType.MULTIPLE)
USER = MemorySubject("user", "The person", 1, per_entity=True)

PARTS = {
    "a plural": ("peanut", "I cannot eat peanuts"),
    "a compound": ("Erdnuss", "Ich habe eine Erdnussallergie"),
    "an article": (
        "\u0641\u0633\u062a\u0642",
        "\u0644\u0627 \u0622\u0643\u0644 \u0627\u0644\u0641\u0633\u062a\u0642",
    ),
    "several words": ("peanut butter", "No peanut-butters!"),
    "a name inside": ("hiv", "I am hivPositive"),
    "marks apart": ("caf\u00e9", "all cafe\u0301s"),
    "another width": ("\uff50eanut", "PEANUTS"),
}
WORDS = {
    "Thai": (
        "\u0e16\u0e31\u0e48\u0e27",
        "\u0e09\u0e31\u0e19\u0e41\u0e1e\u0e49\u0e16\u0e31\u0e48\u0e27\u0e25\u0e34\u0e2a\u0e07",
    ),
    "Korean": ("\ub545\ucf69", "\uc800\ub294 \ub545\ucf69\uc744 \ubabb \uba39\uc5b4\uc694"),
    "an underscore": ("hiv", "I am hiv_positive"),
    "an apostrophe": ("peanut", "a peanut's shell"),
}


def memory_of() -> AgentMemory:
    scopes = MemoryScopesProfile(product="app")
    return AgentMemory(InMemoryProvider(), scopes=scopes, subjects=[USER]).of("alice")


async def purged(memory: AgentMemory, value: str) -> Forgotten:
    await memory.save(ALLERGIES, [value])
    return await memory.contents.forget(concept=ALLERGIES, value=value, purge="quotes")


async def stored(memory: AgentMemory) -> str:
    (place,) = await memory.store.list_places()
    turns = await memory.store.conversations.turns("c", place)
    entries = await memory.store.entries(place.subject, place.scope)
    return str([entries, [turn.message for turn in turns]])


@pytest.mark.parametrize("case", PARTS)
async def test_a_value_inside_of_a_word_stays_and_is_reported(case: str) -> None:
    """A receipt that is silent about it would be believed."""
    value, text = PARTS[case]
    memory = memory_of()
    await memory.conversation("c").append({"role": "user", "content": text})
    said = FactSource(SourceKind.USER, "c", 0, text)
    quoting = MultipleFacts(ALLERGIES, ["dust"], source=said)
    await memory.store.save(quoting, USER.of("alice"), MemoryScope.Product("app"))
    with acting("jane", reason=f"Because of: {text}"):
        await memory.save(ALLERGIES, ["pollen"])

    found = await purged(memory, value)

    assert found.quoting == (quoting.id,)
    assert len(found.messages) == 1
    assert len(found.mentioning) == 1
    assert text in await stored(memory)


@pytest.mark.parametrize("case", WORDS)
async def test_a_value_is_removed_where_it_is_a_word(case: str) -> None:
    """Also in languages without spaces, and in the reason of a change."""
    value, text = WORDS[case]
    memory = memory_of()
    await memory.conversation("c").append({"role": "user", "content": text})
    with acting("jane", reason=text):
        await memory.save(ALLERGIES, ["pollen"])

    found = await purged(memory, value)

    assert (found.quoting, found.mentioning, found.messages) == ((), (), ())
    assert value not in await stored(memory)


async def test_the_reason_of_the_purge_itself_does_not_keep_the_value() -> None:
    memory = memory_of()
    await memory.save(ALLERGIES, ["peanut"])

    with acting("jane", reason="She asked us to delete peanut"):
        await memory.contents.forget(concept=ALLERGIES, value="peanut", purge=True)

    assert "peanut" not in await stored(memory)
    assert "She asked us to delete" in await stored(memory)


async def test_a_value_of_two_letters_is_not_searched_in_words() -> None:
    """It is a part of too many."""
    memory = memory_of()
    await memory.conversation("c").append({"role": "user", "content": "No noise now"})

    found = await purged(memory, "no")

    assert found.messages == ()
    assert "[…] noise now" in await stored(memory)
