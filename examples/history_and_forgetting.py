"""Read past values and the history, forget values, and erase a user."""

from datetime import UTC, datetime, timedelta
from tempfile import TemporaryDirectory

import anyio

from factmem import (
    AgentMemory,
    Concept,
    FactSource,
    FactType,
    LocalFileMemoryProvider,
    MemoryScope,
    MemoryScopesProfile,
    MemorySubject,
    MultipleFacts,
    SingleFact,
    SourceKind,
)

CITY = Concept("city", "Where the user lives")
LANGUAGES = Concept("languages", "Programming languages the user knows", FactType.MULTIPLE)
ALICE = MemorySubject("user", "The person the agent talks to", 1, per_entity=True).of("alice")
APP = MemoryScope.Product("my-app")
CHAT = FactSource(SourceKind.USER, conversation="chat-17", message=2, quote="I moved to Busan")


async def main(folder: str) -> None:
    """Show that only the newest value is current, and that others stay in history until purged."""
    async with LocalFileMemoryProvider(folder) as store:
        await store.save(SingleFact(CITY, "Seoul"), ALICE, APP)
        before = datetime.now(UTC)
        await store.save(SingleFact(CITY, "Busan", source=CHAT), ALICE, APP)
        await store.save(MultipleFacts(LANGUAGES, ("Kotlin", "Java", "Python")), ALICE, APP)

        memory = AgentMemory(store, scopes=MemoryScopesProfile(product="my-app"), subjects=[ALICE])
        then = [fact.value for fact in await store.load(CITY, ALICE, APP, as_of=before)]
        print(f"now {await memory.value(CITY)}, before {', '.join(then)}")

        await store.forget(ALICE, APP, concept=LANGUAGES, value="Java")
        print(f"languages: {', '.join(await memory.values(LANGUAGES))}")

        gone = await store.forget(ALICE, APP, source=FactSource(SourceKind.USER, "chat-17"))
        print(f"forgotten with its conversation: {gone}")
        for entry in await store.history(CITY, ALICE, APP):
            print(f"  {entry.action}: {entry.fact.values[0] if entry.fact else 'a value'}")

        old = await store.forget(ALICE, APP, older_than=timedelta(days=365))
        purged = await store.forget(ALICE, APP, concept=LANGUAGES, value="Python", purge=True)
        print(f"older than a year: {old}; removed from disk and from history: {purged}")

        receipt = await store.erase(ALICE, APP)
        print(f"erased: {receipt.count} current values, places left: {len(await store.places())}")


if __name__ == "__main__":
    with TemporaryDirectory() as memory:
        anyio.run(main, memory)
