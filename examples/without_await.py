"""A script without `await`: save, recall, list and forget facts."""

from tempfile import TemporaryDirectory

from factmem import (
    AgentMemory,
    Concept,
    FactType,
    LocalFileMemoryProvider,
    MemoryScope,
    MemoryScopesProfile,
    MemorySubject,
    MultipleFacts,
    SingleFact,
)
from factmem.sync import LocalStoreSync, MemorySync

EDITOR = Concept("editor", "The editor that the user prefers")
LANGUAGES = Concept("languages", "Programming languages the user knows", FactType.MULTIPLE)
USER = MemorySubject("user", "The person the agent talks to", 1, per_entity=True)
ALICE = USER.of("alice")
APP = MemoryScope.Product("my-app")


def main(folder: str) -> None:
    """Work with the facts of one user."""
    with LocalStoreSync(LocalFileMemoryProvider(folder)) as store:
        store.save_many(
            [SingleFact(EDITOR, "vim"), MultipleFacts(LANGUAGES, ["Kotlin", "Rust"])], ALICE, APP
        )
        profile = MemoryScopesProfile(product="my-app")
        memory = MemorySync(AgentMemory(store.wrapped, scopes=profile, subjects=[ALICE]))

        for match in memory.recall("Which editor does she prefer?"):
            print(match.fact.concept.keyword, match.fact.values)
        print(memory.contents.tree())
        print("forgotten:", memory.contents.forget(concept=LANGUAGES, value="Rust"))
        print([fact.values for fact in memory.current()])


if __name__ == "__main__":
    with TemporaryDirectory() as made:
        main(made)
