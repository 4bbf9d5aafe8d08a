"""Save a fact about a user to a local file, and load it."""

import anyio

from factmem import Concept, LocalFileMemoryProvider, MemoryScope, MemorySubject, SingleFact

THEME = Concept("ide-theme", "The user's preferred IDE theme")
USER = MemorySubject("user", "The person the agent talks to", 1, per_entity=True)
APP = MemoryScope.Product("my-app")


async def main() -> None:
    """Save twice; the newest value is the current one."""
    async with LocalFileMemoryProvider("memory") as store:
        await store.save(SingleFact(THEME, "light"), USER.of("alice"), APP)
        await store.save(SingleFact(THEME, "dark"), USER.of("alice"), APP)

        for fact in await store.load(THEME, USER.of("alice"), APP):
            print(f"{fact.concept.description}: {fact.value}")


if __name__ == "__main__":
    anyio.run(main)
