"""A support knowledge base with facts for all customers and private facts of each customer.

python examples/customer_views.py

Each request gets a view of the memory: the place of the product and the place of the customer.
Recalls and prompts contain only facts from these two places.
"""

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
    MultipleFacts,
    Place,
    SingleFact,
)
from factmem.models import AnyFact

# If facts contradict each other, the subject with the lowest number has priority: here the
# customer.
CUSTOMER = MemorySubject("customer", "The customer who asks", 1, per_entity=True)
PRODUCT = MemorySubject("product", "The product itself", 2)
APP = MemoryScope.Product("my-app")

LIMIT = Concept("upload-limit", "How large an upload may be")
HELP = Concept("help", "What to do about a problem", FactType.MULTIPLE)
CONTRACT = Concept("contract", "What was agreed in the contract", FactType.MULTIPLE)
TICKETS = Concept("tickets", "What the customer has reported", FactType.MULTIPLE)

KNOWN: list[tuple[MemorySubject, list[AnyFact]]] = [
    (
        PRODUCT,
        [
            SingleFact(LIMIT, "100 MB"),
            MultipleFacts(HELP, ["An export that stops after a minute: pick a shorter period."]),
            MultipleFacts(HELP, ["A forgotten password: the login page sends a new one."]),
            MultipleFacts(HELP, ["Uploads fail behind a proxy: allow uploads.my-app.example."]),
        ],
    ),
    (
        CUSTOMER.of("acme"),
        [
            SingleFact(LIMIT, "2 GB"),
            MultipleFacts(CONTRACT, ["Acme pays 9,000 euros a year, until 2028."]),
            MultipleFacts(TICKETS, ["The export of March stopped at 80 percent."]),
        ],
    ),
    (
        CUSTOMER.of("zenith"),
        [MultipleFacts(CONTRACT, ["Zenith tries it for free until the end of June."])],
    ),
]

REQUESTS = [
    ("acme", "How large may an upload be?"),
    ("zenith", "How large may an upload be?"),
    ("acme", "Why does my export stop?"),
    ("zenith", "Why does my export stop?"),
    ("acme", "What does the contract of Acme say?"),
    ("zenith", "What does the contract of Acme say?"),
]


def view_for(memory: AgentMemory, customer: str, *, read_only: bool = False) -> AgentMemory:
    """Return the view for a request of one customer: its own place and the product's."""
    places = [Place(APP, CUSTOMER.of(customer)), Place(APP, PRODUCT)]
    return memory.view(places=places, read_only=read_only)


async def answer(memory: AgentMemory, customer: str, question: str) -> None:
    """Print the facts that a customer's view has about a question."""
    print(f"{customer}: {question}")
    for match in await view_for(memory, customer).recall(question, limit=3):
        assert match.place.subject.entity in {customer, None}
        whose = match.place.subject.entity or "everybody"
        print(f"  {match.score:.2f}  {match.fact.values[0]}  ({whose})")


async def main() -> None:
    """Fill the knowledge base and answer some requests."""
    async with LocalFileMemoryProvider("knowledge") as store:
        for subject, facts in KNOWN:
            await store.save_many(facts, subject, APP)
        profile = MemoryScopesProfile(product="my-app")
        memory = AgentMemory(store, scopes=profile, subjects=[PRODUCT])

        for customer, question in REQUESTS:
            await answer(memory, customer, question)

        print("\nzenith names acme:")
        zenith = view_for(memory, "zenith", read_only=True)
        acme = CUSTOMER.of("acme")
        print("  recall returns", await zenith.recall("contract", subjects=[acme]))
        print("  the places are", [str(info.place) for info in await zenith.contents.places()])
        try:
            await zenith.store.save(SingleFact(LIMIT, "9 TB"), CUSTOMER.of("zenith"), APP)
        except MemoryAccessError as error:
            print(f"  a save raises: {error}")

        print("\nThe operator's view:")
        print(await memory.contents.tree())


if __name__ == "__main__":
    anyio.run(main)
