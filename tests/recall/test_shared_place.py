"""Places that many views share: their recalls do not wait for each other."""

from collections.abc import Sequence

import anyio

from factmem.embedding.base import CallableEmbedder
from factmem.models.places import Place
from factmem.providers.in_memory import InMemoryProvider
from tests.world import AGENT, COMPANY, USER, bare_note, recall_memory

CUSTOMERS = [USER.of(name) for name in ("alice", "bob", "carol")]


async def test_customers_share_a_place_without_waiting() -> None:
    """Shared texts are embedded once, and no memory waits for the texts of another."""
    store = InMemoryProvider()
    await store.save(bare_note("hours", "nine to five"), COMPANY, AGENT)
    for customer in CUSTOMERS:
        await store.save(bare_note("plan", "gold"), customer, AGENT)
    others_are_done, done, shared = anyio.Event(), 0, 0

    async def embed(texts: Sequence[str]) -> list[list[float]]:
        nonlocal shared
        shared += sum("hours" in text for text in texts)
        if any("alice" in text for text in texts):
            await others_are_done.wait()
        return [[1.0, float(len(text))] for text in texts]

    class Questions(CallableEmbedder):
        async def embed_queries(self, queries: Sequence[str]) -> list[list[float]]:
            return [[1.0, 1.0] for _ in queries]

    memory = recall_memory(store, embedder=Questions(embed, model="test"))

    async def recall(number: int) -> None:
        nonlocal done
        view = memory.view(places=[Place(AGENT, CUSTOMERS[number]), Place(AGENT, COMPANY)])
        assert (await view.recall("Which plan?")).is_semantic
        done += 1
        if done == len(CUSTOMERS) - 1:
            others_are_done.set()

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            for number in range(len(CUSTOMERS)):
                group.start_soon(recall, number)

    assert (done, shared) == (len(CUSTOMERS), 1)
