"""What the tests of all adapters share: Alice, who prefers vim, and stores that break."""

from typing import Any

from factmem import (
    AgentMemory,
    Concept,
    InMemoryProvider,
    MemoryScope,
    MemoryScopesProfile,
    MemorySubject,
    SingleFact,
    StorageError,
)
from factmem.testing.chat import ScriptedChatModel

USER = MemorySubject("user", "The person the agent talks to", 1, per_entity=True)
ALICE = USER.of("alice")
BOB = USER.of("bob")
DESK = MemoryScope.Agent("desk")
EDITOR = Concept("editor", "The editor that the user prefers")


class BreakableProvider(InMemoryProvider):
    """A store that fails as soon as `is_broken` is set."""

    is_broken = False

    def _check(self) -> None:
        if self.is_broken:
            raise StorageError("The disk refused")

    async def save(self, *args: Any, **options: Any) -> None:
        self._check()
        await super().save(*args, **options)

    async def load(self, *args: Any, **options: Any) -> Any:
        self._check()
        return await super().load(*args, **options)

    async def load_all(self, *args: Any, **options: Any) -> Any:
        self._check()
        return await super().load_all(*args, **options)

    async def places(self, **options: Any) -> Any:
        self._check()
        return await super().places(**options)

    async def version(self, *args: Any) -> Any:
        self._check()
        return await super().version(*args)


def found(quote: str, keyword: str, value: str, message: int = 0) -> dict[str, object]:
    """Return the answer of a detecting model with one fact."""
    return {"facts": [{"message": message, "quote": quote, "keyword": keyword, "value": value}]}


async def memory_of(
    *answers: Any, provider: InMemoryProvider | None = None, **options: Any
) -> AgentMemory:
    """Return a memory in which Alice prefers vim; `answers` are those of the detecting model."""
    store = provider or InMemoryProvider()
    await store.save(SingleFact(EDITOR, "vim"), ALICE, DESK)
    return AgentMemory(
        store,
        chat_model=ScriptedChatModel(*answers) if answers else None,
        scopes=MemoryScopesProfile(agent="desk"),
        subjects=[USER],
        **options,
    )


async def known(memory: AgentMemory, who: MemorySubject = ALICE) -> dict[str, object]:
    """Return the current values of a user, by keyword."""
    facts = await memory.current_all(subjects=[who])
    return {fact.concept.keyword: fact.values[0] for fact in facts}
