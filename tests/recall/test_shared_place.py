"""Places that many views have in common: recalls of one do not queue for those of another."""

from collections.abc import Sequence

import anyio

from factmem.embedding.callable import CallableEmbedder
from factmem.models import Place
from factmem.providers.in_memory import InMemoryProvider
from tests.recall.world import AGENT, COMPANY, USER, memory_of, note

CUSTOMERS = [USER.of(name) for name in ("alice", "bob", "carol")]


async def test_customers_share_a_place_and_no_queue() -> None:
    """One of them has its texts embedded; the others then have their own embedded at once."""
    store = InMemoryProvider()
    await store.save(note("hours", "nine to five"), COMPANY, AGENT)
    for customer in CUSTOMERS:
        await store.save(note("plan", "gold"), customer, AGENT)
    is_met, inside = anyio.Event(), 0

    async def embed(texts: Sequence[str]) -> list[list[float]]:
        nonlocal inside
        if not any("hours" in text for text in texts):  # of one who found the place done
            inside += 1
            if inside == len(CUSTOMERS) - 1:
                is_met.set()
            await is_met.wait()
        return [[1.0, float(len(text))] for text in texts]

    async def asked(question: Sequence[str]) -> list[list[float]]:
        return [[1.0, 1.0] for _ in question]

    memory = memory_of(store, embedder=CallableEmbedder(embed, queries=asked, model="test"))
    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            for customer in CUSTOMERS:
                view = memory.view(places=[Place(AGENT, customer), Place(AGENT, COMPANY)])
                group.start_soon(view.recall, "Which plan?")

    assert inside == len(CUSTOMERS) - 1
