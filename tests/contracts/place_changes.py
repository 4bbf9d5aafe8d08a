"""Operations that change a place, for the suites about versions and changes."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Any

from factmem import Concept, FactStore, FactType, MemoryScope, MultipleFacts, SingleFact
from factmem.models.facts import AnyFact
from factmem.testing._facts import AGENT, LANGUAGES, THEME, USER, languages, theme
from factmem.testing.clock import START, SettableClock
from tests.contracts.amending import instead

ELSEWHERE = MemoryScope.Product("elsewhere")

HOUR = timedelta(hours=1)


async def begin(store: FactStore) -> None:
    """Save the facts that `CHANGES` change."""
    await store.save(theme("dark"), USER, AGENT)
    await store.save(languages("java", "rust"), USER, AGENT)
    await store.save(languages("c", expires_at=START + HOUR), USER, AGENT)


async def _replay(store: FactStore) -> None:
    await store.save(languages("go"), USER, ELSEWHERE)
    await store.replay(await store.entries(USER, ELSEWHERE), USER, AGENT)


_Write = Callable[[FactStore], Awaitable[object]]

_renamed = SingleFact(Concept(THEME.keyword, "A new description"), "dark")
_retyped = MultipleFacts(Concept(THEME.keyword, THEME.description, FactType.MULTIPLE), ("dark",))

WRITES: dict[str, _Write] = {
    "a value saved": lambda store: store.save(languages("go"), USER, AGENT),
    "several saved": lambda store: store.save_many([theme("light"), languages("go")], USER, AGENT),
    "a value replaced": lambda store: store.save(theme("light"), USER, AGENT),
    "a value confirmed": lambda store: store.save(theme("dark"), USER, AGENT),
    "one of many confirmed": lambda store: store.save(languages("rust"), USER, AGENT),
    "more important": lambda store: store.save(theme("dark", importance=0.9), USER, AGENT),
    "described anew": lambda store: store.save(_renamed, USER, AGENT),
    "of another type": lambda store: store.save(_retyped, USER, AGENT),
    "a concept forgotten": lambda store: store.forget(USER, AGENT, concept=THEME),
    "a value forgotten": lambda store: store.forget(USER, AGENT, concept=LANGUAGES, value="java"),
    "a value purged": lambda store: store.forget(
        USER, AGENT, concept=LANGUAGES, value="java", purge=True
    ),
    "erased": lambda store: store.erase(USER, AGENT),
    "replayed": _replay,
    "amended": lambda store: store.amend(instead("go"), USER, AGENT),
}
"""One call for each way to change the current facts."""

REMOVALS = ("a value purged", "erased")
"""Those that also remove copies of the values."""

CHANGES = ("expired", *WRITES)
"""The names of changes that `change` can make."""


async def change(what: str, store: FactStore, clock: SettableClock) -> None:
    """Make one of `CHANGES` in a place filled by `begin`, at a later time."""
    if what == "expired":
        clock.now = START + HOUR
    else:
        clock.advance()
        await WRITES[what](store)


def by_keyword(facts: Sequence[AnyFact]) -> dict[str, list[AnyFact]]:
    """Return facts by keyword, in their order."""
    found: dict[str, list[AnyFact]] = {}
    for fact in facts:
        found.setdefault(fact.concept.keyword, []).append(fact)
    return found


def shown(facts: dict[str, list[AnyFact]]) -> dict[str, list[Any]]:
    """Return all fields of facts. A confirmation changes one, although the facts stay equal."""
    return {key: [(fact, fact.confirmed_at) for fact in found] for key, found in facts.items()}


async def current(store: FactStore, concepts: Sequence[Concept[Any, Any]] = ()) -> dict[str, Any]:
    """Return all current facts of the place."""
    return shown(by_keyword(await store.load_all(USER, AGENT, concepts=concepts)))
