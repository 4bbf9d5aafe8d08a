"""Random sequences of operations."""

from collections.abc import Sequence
from datetime import date, timedelta
from random import Random
from typing import Any

from factmem import Concept, FactSource, FactStore, FactType, MultipleFacts, SingleFact, SourceKind
from factmem.models.facts import AnyFact
from factmem.testing._facts import AGENT, LANGUAGES, SAID, USER
from factmem.testing.clock import SettableClock
from tests.contracts.amending import instead
from tests.contracts.place_changes import ELSEWHERE

SEEDS = range(12)
"""The seeds of random sequences. Each is a test that can be repeated."""

LENGTH = 25
"""The number of steps of a sequence."""

DAYS = "days"
"""A keyword whose values are days, as strings or in a requested type."""

_VALUES: dict[str, Sequence[Any]] = {
    LANGUAGES.keyword: ("java", "rust", "c", "go", "ada", 7),
    DAYS: (date(2001, 1, 1), date(2001, 1, 2)),
}
_SOURCES = [None, None, *(FactSource(SourceKind.USER, conversation=name) for name in ("a", "b"))]
_TYPES = [FactType.SINGLE, *[FactType.MULTIPLE] * 5]


class Steps:
    """Makes random changes in one place, and in another one to copy from; the same for each seed.

    Args:
        stores: Instances that share their data: each step is done by one of them.
        clock: Their clock.
        seed: Which steps.
    """

    def __init__(self, stores: Sequence[FactStore], clock: SettableClock, seed: int) -> None:
        self._stores = stores
        self._clock = clock
        self._random = Random(seed)
        self._kinds = [
            *[self._save] * 9,
            *[self._forget] * 3,
            *[self._wait] * 2,
            *(self._save_many, self._replay, self._amend, self._erase),
        ]
        self._done: list[str] = []

    async def take(self) -> None:
        """Make the next change."""
        store = self._random.choice(self._stores)
        self._done.append(await self._random.choice(self._kinds)(store))

    def __str__(self) -> str:
        return "after:\n" + "\n".join(self._done)

    async def _save(self, store: FactStore) -> str:
        fact, scope = self._fact(), self._random.choice([AGENT, AGENT, AGENT, ELSEWHERE])
        await store.save(fact, USER, scope)
        return f"save {fact} in {scope}"

    async def _save_many(self, store: FactStore) -> str:
        facts = [self._fact(), self._fact()]
        await store.save_many(facts, USER, AGENT)
        return f"save_many {facts}"

    async def _forget(self, store: FactStore) -> str:
        keyword = self._random.choice(list(_VALUES))
        concept = Concept(keyword, "", value_type=Any)
        conditions: dict[str, Any] = self._random.choice(
            [
                {"concept": concept},
                {"concept": concept, "value": self._value(keyword)},
                {"fact_ids": ["one"]},
                {"source": FactSource(SourceKind.USER, conversation="a")},
                {"older_than": timedelta(hours=1)},
            ]
        )
        purge = self._random.random() < 0.3
        count = await store.forget(USER, AGENT, **conditions, purge=purge)
        return f"forget {conditions}, {purge=}: {count}"

    async def _wait(self, store: FactStore) -> str:
        span = timedelta(minutes=self._random.choice([1, 30, 90]))
        self._clock.advance(span)
        return f"wait {span}"

    async def _replay(self, store: FactStore) -> str:
        entries = await store.entries(USER, ELSEWHERE)
        return f"replay of {ELSEWHERE}: {await store.replay(entries, USER, AGENT)}"

    async def _amend(self, store: FactStore) -> str:
        value = self._random.choice(["java", "go"])
        return f"amend, {value!r} instead: {await store.amend(instead(value), USER, AGENT)}"

    async def _erase(self, store: FactStore) -> str:
        await store.erase(USER, AGENT)
        return "erase"

    def _value(self, keyword: str) -> Any:
        value = self._random.choice(_VALUES[keyword])
        return value.isoformat() if isinstance(value, date) else value

    def _fact(self) -> AnyFact:
        pick = self._random.choice
        keyword, description = pick(list(_VALUES)), pick(["", "", "", "A new description"])
        concept: Any = Concept(keyword, description, pick(_TYPES), value_type=Any)
        values = [self._value(keyword) for _ in range(pick([1, 1, 2, 3]))]
        fields: dict[str, Any] = {
            "timestamp": SAID,
            "importance": pick([0.5, 0.5, 0.9]),
            "source": pick(_SOURCES),
            "expires_at": pick([None, None, self._clock.now + timedelta(hours=pick([1, 2]))]),
        }
        if self._random.random() < 0.2:
            fields["id"] = pick(["one", "two"])
        if concept.fact_type is FactType.SINGLE:
            return SingleFact(concept, values[0], **fields)
        return MultipleFacts(concept, dict.fromkeys(values), **fields)
