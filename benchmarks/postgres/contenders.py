"""The contenders: two stores in PostgreSQL with the same work, each with four connections.

Both recall with the vectors of the same embedder, which takes no time, so that only the stores are
measured.
"""

from datetime import timedelta
from functools import cache
from hashlib import shake_128
from typing import Any, Protocol, Self

from factmem.embedding.base import CallableEmbedder
from factmem.memory.agent_memory import AgentMemory
from factmem.models.facts import Concept, SingleFact
from factmem.models.places import MemoryScope, MemoryScopesProfile, MemorySubject
from factmem.providers.postgres import PostgresMemoryProvider

FACTS = 20
"""The number of facts of each user."""

USERS = 200

CONNECTIONS = 4

DIMENSIONS = 384


@cache
def _vector(text: str) -> list[float]:
    return [byte - 127.5 for byte in shake_128(text.encode()).digest(DIMENSIONS)]


async def embed(texts: list[str]) -> list[list[float]]:
    """Return a different vector for each text."""
    return [_vector(text) for text in texts]


class Contender(Protocol):
    """A store of texts, by user and number."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *exc_info: object) -> None: ...

    async def put(self, user: str, number: int, text: str) -> None:
        """Save a fact."""
        ...

    async def get(self, user: str, number: int) -> str:
        """Load a fact."""
        ...

    async def all(self, user: str) -> int:
        """Load all facts of a user, and return their number."""
        ...

    async def prepare_recall(self, user: str) -> None:
        """Prepare the first recall of a user's facts."""
        ...

    async def recall(self, user: str, query: str) -> int:
        """Rank all facts of a user by a question, and return their number."""
        ...


class Factmem:
    """`PostgresMemoryProvider`."""

    def __init__(self, dsn: str, **options: Any) -> None:
        self._store = PostgresMemoryProvider(dsn, max_connections=CONNECTIONS, **options)
        self._user = MemorySubject("user", "", 1, per_entity=True)
        self._scope = MemoryScope.Product("bench")
        self._concepts = [Concept(f"concept-{n}", f"What is known of {n}") for n in range(FACTS)]
        self._memory = AgentMemory(
            self._store,
            scopes=MemoryScopesProfile(product="bench"),
            subjects=[self._user.of(f"user-{n}") for n in range(USERS)],
            embedder=CallableEmbedder(embed, model="hash"),
        )
        self._of_user = {
            f"user-{n}": self._memory.view(subjects=[self._user.of(f"user-{n}")])
            for n in range(USERS)
        }

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

    async def prepare_recall(self, user: str) -> None:
        """See `Contender.prepare_recall`. The first recall embeds the facts."""
        await self.recall(user, "first")

    async def recall(self, user: str, query: str) -> int:
        """See `Contender.recall`."""
        return len(await self._of_user[user].recall(query, limit=FACTS))


class LangGraph:
    """`AsyncPostgresStore`, which stores the newest value without history."""

    def __init__(self, dsn: str) -> None:
        from langgraph.store.postgres import AsyncPostgresStore

        size: Any = {"min_size": CONNECTIONS, "max_size": CONNECTIONS}
        index: Any = {"dims": DIMENSIONS, "embed": embed, "fields": ["value"]}
        self._manager: Any = AsyncPostgresStore.from_conn_string(dsn, pool_config=size, index=index)
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

    async def prepare_recall(self, user: str) -> None:
        """See `Contender.prepare_recall`. Stores facts with vectors in a separate namespace."""
        for number in range(FACTS):
            value = {"value": f"value {number} of {user}"}
            await self._store.aput(("recall", user), f"concept-{number}", value)

    async def recall(self, user: str, query: str) -> int:
        """See `Contender.recall`."""
        return len(await self._store.asearch(("recall", user), query=query, limit=FACTS))


def create_contender(name: str, dsn: str) -> Contender:
    """Return a contender by its name."""
    if name == "langgraph":
        return LangGraph(dsn)
    stale = timedelta(seconds=1 if name == "factmem, 1 s stale" else 0)
    return Factmem(dsn, store="bench", max_staleness=stale)
