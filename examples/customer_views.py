"""A support knowledge base: what the product knows, and what each customer's requests may see."""

import anyio

from factmem import (
    AgentMemory,
    Concept,
    FactType,
    LocalFileMemoryProvider,
    MemoryAccessError,
    MemoryScope,
    MemoryScopesProfile,
    MemorySubject,
    SingleFact,
)
from factmem.models import MultipleFacts, Place

PRODUCT_FACTS = MemorySubject("product", "The product itself", 2)
CUSTOMER = MemorySubject("customer", "The customer who asks", 1, per_entity=True)
LIMIT = Concept("upload-limit", "How large an upload may be")
PROBLEMS = Concept("known-problems", "Problems that are known", FactType.MULTIPLE)
APP = MemoryScope.Product("my-app")


def view_for(memory: AgentMemory, customer: str) -> AgentMemory:
    """Return what a request of one customer may see: its own place, and the product's."""
    mine = CUSTOMER.of(customer)
    return memory.view(places=[Place(APP, mine), Place(APP, PRODUCT_FACTS)])


async def main() -> None:
    """Fill the knowledge base, and look at it as two customers do."""
    async with LocalFileMemoryProvider("knowledge") as store:
        memory = AgentMemory(
            store, scopes=MemoryScopesProfile(product="my-app"), subjects=[PRODUCT_FACTS]
        )
        await store.save(SingleFact(LIMIT, "100 MB"), PRODUCT_FACTS, APP)
        await store.save(MultipleFacts(PROBLEMS, ("slow on Mondays",)), PRODUCT_FACTS, APP)
        await store.save(SingleFact(LIMIT, "2 GB, by contract"), CUSTOMER.of("acme"), APP)

        acme, zenith = view_for(memory, "acme"), view_for(memory, "zenith")
        for name, view in (("acme", acme), ("zenith", zenith)):
            (limit,) = await view.current(LIMIT)
            print(f"{name}: uploads up to {limit.value}")

        print("zenith asks for acme:", await zenith.current(LIMIT, subjects=[CUSTOMER.of("acme")]))
        try:
            reader = zenith.view(read_only=True)
            await reader.provider.save(SingleFact(LIMIT, "9 TB"), PRODUCT_FACTS, APP)
        except MemoryAccessError as error:
            print(error)
        print(await memory.contents.tree())


if __name__ == "__main__":
    anyio.run(main)
