"""Providers of one's own, for what the memory owes them."""

from typing import Any, TypeVar

import anyio.lowlevel

from factmem.errors import StorageError
from factmem.models.facts import (
    AnyFact,
    Concept,
)
from factmem.models.places import MemoryScope, MemorySubject
from factmem.providers.in_memory import InMemoryProvider

L = TypeVar("L", bound="AnyFact")


class BareProvider:
    """The four methods that every provider has, and no more."""

    def __init__(self, store: InMemoryProvider | None = None) -> None:
        self.store = store or InMemoryProvider()

    async def save(self, fact: AnyFact, subject: MemorySubject, scope: MemoryScope) -> None:
        await self.store.save(fact, subject, scope)

    async def load(
        self, concept: Concept[Any, L], subject: MemorySubject, scope: MemoryScope
    ) -> list[L]:
        return await self.store.load(concept, subject, scope)

    async def load_all(self, subject: MemorySubject, scope: MemoryScope) -> list[AnyFact]:
        return await self.store.load_all(subject, scope)

    async def load_by_description(
        self, description: str, subject: MemorySubject, scope: MemoryScope
    ) -> list[AnyFact]:
        return await self.store.load_by_description(description, subject, scope)


class FailingProvider(BareProvider):
    """Fails in one scope; the other places wait for it, and must not be left running."""

    def __init__(self, scope: MemoryScope) -> None:
        super().__init__()
        self.scope = scope
        self.finished = 0

    async def load_all(self, subject: MemorySubject, scope: MemoryScope) -> list[AnyFact]:
        await anyio.lowlevel.checkpoint()
        if scope == self.scope:
            try:
                raise OSError(28, "No space left on device")
            except OSError as exc:
                raise StorageError("The disk refused") from exc
        await anyio.sleep_forever()
        self.finished += 1
        return []
