"""Two stores in PostgreSQL with the same work to do, each with four connections."""

from datetime import timedelta
from typing import Any, Protocol, Self

from factmem.models.facts import Concept, SingleFact
from factmem.models.places import MemoryScope, MemorySubject
from factmem.providers.postgres import PostgresMemoryProvider

FACTS = 20
"""Facts of each user."""

CONNECTIONS = 4


class Contender(Protocol):
    """A store that keeps texts under a user and a number."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *exc_info: object) -> None: ...

    async def put(self, user: str, number: int, text: str) -> None:
        """Save a fact."""
        ...

    async def get(self, user: str, number: int) -> str:
        """Load a fact."""
        ...

    async def all(self, user: str) -> int:
        """Load all facts of a user, and return how many they are."""
        ...


class Factmem:
    """`PostgresMemoryProvider`."""

    def __init__(self, dsn: str, **options: Any) -> None:
        self._store = PostgresMemoryProvider(dsn, max_connections=CONNECTIONS, **options)
        self._user = MemorySubject("user", "", 1, per_entity=True)
        self._scope = MemoryScope.Product("bench")
        self._concepts = [Concept(f"concept-{n}", f"What is known of {n}") for n in range(FACTS)]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._store.aclose()

    async def put(self, user: str, number: int, text: str) -> None:
        """See `Contender.put`."""
        fact = SingleFact(self._concepts[number], text)
        await self._store.save(fact, self._user.of(user), self._scope)

    async def get(self, user: str, number: int) -> str:
        """See `Contender.get`."""
        found = await self._store.load(self._concepts[number], self._user.of(user), self._scope)
        return found[0].value

    async def all(self, user: str) -> int:
        """See `Contender.all`."""
        return len(await self._store.load_all(self._user.of(user), self._scope))


class LangGraph:
    """`AsyncPostgresStore`, which keeps the newest value and no history."""

    def __init__(self, dsn: str) -> None:
        from langgraph.store.postgres import AsyncPostgresStore

        size: Any = {"min_size": CONNECTIONS, "max_size": CONNECTIONS}
        self._manager: Any = AsyncPostgresStore.from_conn_string(dsn, pool_config=size)
        self._store: Any = None

    async def __aenter__(self) -> Self:
        self._store = await self._manager.__aenter__()
        await self._store.setup()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._manager.__aexit__(*exc_info)

    async def put(self, user: str, number: int, text: str) -> None:
        """See `Contender.put`."""
        value = {"value": text, "description": f"What is known of {number}"}
        await self._store.aput(("bench", user), f"concept-{number}", value, index=False)

    async def get(self, user: str, number: int) -> str:
        """See `Contender.get`."""
        found = await self._store.aget(("bench", user), f"concept-{number}")
        return str(found.value["value"])

    async def all(self, user: str) -> int:
        """See `Contender.all`."""
        return len(await self._store.asearch(("bench", user), limit=FACTS))


def made(name: str, dsn: str) -> Contender:
    """Return a contender by its name."""
    if name == "langgraph":
        return LangGraph(dsn)
    stale = timedelta(seconds=1 if name == "factmem, 1 s stale" else 0)
    return Factmem(dsn, store="bench", max_staleness=stale)
