"""Listing places, erasing them, and closing a store."""

from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from factmem import FactStore, MemoryScope, MemorySubject, UnboundSubjectError
from factmem.providers.results import Learned
from factmem.testing._facts import AGENT, LANGUAGES, PERSON, THEME, USER, languages, theme
from factmem.testing.clock import START, SettableClock


class Places:
    """`places` and `erase`."""

    async def test_all_places_are_listed_by_identity(self, provider: FactStore) -> None:
        """With subjects and scopes for `load_all` and `erase`; per-entity subjects are bound."""
        where = [
            (USER, AGENT),
            (PERSON.of("alice"), AGENT),
            (PERSON.of("bob"), AGENT),
            (MemorySubject("person", "", 1), AGENT),
            (USER, MemoryScope.CrossProduct()),
            (USER, MemoryScope.Feature("a/b")),
            (USER, MemoryScope.Feature("a")),
        ]
        for subject, scope in where:
            await provider.save(theme(f"{scope} {subject.name} {subject.entity}"), subject, scope)

        found = await provider.places()

        assert [(str(info.scope), info.subject.name, info.subject.entity) for info in found] == [
            ("agent/painter", "person", None),
            ("agent/painter", "person", "alice"),
            ("agent/painter", "person", "bob"),
            ("agent/painter", "user", None),
            ("feature/a", "user", None),
            ("feature/a/b", "user", None),
            ("organization/default", "user", None),
        ]
        for info in found:
            (fact,) = await provider.load_all(info.subject, info.scope)
            assert fact.values == (f"{info.scope} {info.subject.name} {info.subject.entity}",)

    async def test_places_of_some_subjects_and_scopes_are_listed(self, provider: FactStore) -> None:
        """Each entry equals that among all places. Places with similar names are left out."""
        kinds = [MemoryScope.Agent, MemoryScope.Product]
        scopes = [kind(name) for kind in kinds for name in ("a", "A", "a/b", "café")]
        subjects = [USER, *(PERSON.of(name) for name in ("a", "A", "a/b", "a%", "caf\u00e9"))]
        subjects.append(MemorySubject("person", "", 1))
        for scope in scopes:
            for subject in subjects:
                await provider.save(theme("dark"), subject, scope)
        everything = await provider.places()

        async def check(
            subjects: list[MemorySubject] | None = None, scopes: list[MemoryScope] | None = None
        ) -> None:
            wanted = None if subjects is None else {(each.name, each.entity) for each in subjects}
            assert await provider.places(subjects=subjects, scopes=scopes) == [
                info
                for info in everything
                if (scopes is None or info.scope in scopes)
                and (wanted is None or (info.subject.name, info.subject.entity) in wanted)
            ]

        assert len(everything) == len(scopes) * len(subjects)
        for subject in subjects:
            await check(subjects=[subject])
            await check(subjects=[subject], scopes=[scopes[0], scopes[-1]])
        for scope in scopes:
            await check(scopes=[scope])
            await check(scopes=[scope], subjects=[USER, PERSON.of("a"), PERSON.of("nobody")])
        await check(scopes=[MemoryScope.Agent("cafe\u0301")])
        await check(subjects=[PERSON.of("cafe\u0301")])

    async def test_places_that_are_asked_for_may_not_be_there(self, provider: FactStore) -> None:
        """Nothing is listed for them and for an empty list, and nothing is created."""
        assert await provider.places(subjects=[USER], scopes=[AGENT]) == []
        await provider.save(theme("dark"), USER, AGENT)

        assert await provider.places(subjects=[PERSON.of("alice")], scopes=[AGENT]) == []
        assert await provider.places(subjects=[], scopes=[AGENT]) == []
        assert await provider.places(subjects=[USER], scopes=[]) == []
        assert await provider.places(subjects=[]) == await provider.places(scopes=[]) == []
        assert len(await provider.places(subjects=[USER, USER], scopes=[AGENT, AGENT])) == 1
        assert len(await provider.places()) == 1

    async def test_a_place_reports_its_size(
        self, provider: FactStore, clock: SettableClock
    ) -> None:
        """Current values, bytes with history, and the times of the oldest and the newest value."""
        await provider.save(theme("dark"), USER, AGENT)
        clock.advance(timedelta(days=1))
        await provider.save(languages("java", "rust"), USER, AGENT)
        clock.advance(timedelta(days=1))
        await provider.save(languages("c"), USER, AGENT)
        clock.advance(timedelta(days=1))
        await provider.forget(USER, AGENT, concept=LANGUAGES, value="c")

        (info,) = await provider.places()

        assert info.count == 3
        assert info.bytes > 0
        assert info.oldest == START
        assert info.newest == START + timedelta(days=1)

    async def test_a_place_of_history_is_listed(self, provider: FactStore) -> None:
        """Nothing in it is current, but it can still be erased."""
        await provider.save(theme("dark"), USER, AGENT)
        await provider.forget(USER, AGENT, concept=THEME)

        (info,) = await provider.places()

        assert (info.count, info.oldest, info.newest) == (0, None, None)
        assert info.bytes > 0

    async def test_an_erased_place_is_gone(self, provider: FactStore, clock: SettableClock) -> None:
        """With its history. The receipt has the numbers, and other places are not affected."""
        await provider.save(theme("dark"), PERSON.of("alice"), AGENT)
        await provider.save(languages("java", "c"), PERSON.of("alice"), AGENT)
        await provider.save(theme("dark"), PERSON.of("bob"), AGENT)
        later = clock.advance()

        receipt = await provider.erase(PERSON.of("alice"), AGENT)

        assert (receipt.scope, receipt.subject) == (AGENT, PERSON.of("alice"))
        assert (receipt.count, receipt.erased_at) == (3, later)
        assert receipt.bytes > 0
        assert await provider.load_all(PERSON.of("alice"), AGENT) == []
        assert await provider.entries(PERSON.of("alice"), AGENT) == []
        assert await provider.history(THEME, PERSON.of("alice"), AGENT) == []
        assert await provider.load(THEME, PERSON.of("alice"), AGENT, as_of=START) == []
        assert [info.subject.entity for info in await provider.places()] == ["bob"]

    async def test_a_place_is_erased_only_if_it_is_empty(self, provider: FactStore) -> None:
        """With `only_empty`: a place with a value, or only with history, stays."""
        await provider.save(theme("dark"), USER, AGENT)
        kept = await provider.erase(USER, AGENT, only_empty=True)
        assert [fact.values for fact in await provider.load_all(USER, AGENT)] == [("dark",)]
        await provider.forget(USER, AGENT, concept=THEME)
        await provider.erase(USER, AGENT, only_empty=True)
        assert len(await provider.entries(USER, AGENT)) == 2

        await provider.rewrite(lambda entries: [None for _ in entries], USER, AGENT)
        await provider.erase(USER, AGENT, only_empty=True)

        assert (kept.count, kept.bytes) == (0, 0)
        assert await provider.entries(USER, AGENT) == []
        assert await provider.places() == []

    async def test_a_call_without_effect_makes_no_place(self, provider: FactStore) -> None:
        """Nothing was saved, stated or there to be changed, and the counts say so."""
        assert await provider.learn([], USER, AGENT) == Learned()
        await provider.save_many([], USER, AGENT)
        assert await provider.amend(lambda entries, now: [], USER, AGENT) == 0
        assert await provider.rewrite(lambda _: [None], USER, AGENT) == 0
        assert await provider.forget(USER, AGENT, concept=THEME) == 0
        assert await provider.forget(USER, AGENT, concept=THEME, purge=True) == 0
        receipt = await provider.erase(USER, AGENT)

        assert (receipt.count, receipt.bytes) == (0, 0)
        assert await provider.places() == []

    async def test_no_call_takes_an_unbound_subject(self, provider: FactStore) -> None:
        """An omitted entity never means all entities. The error reveals nothing."""
        await provider.save(theme("dark"), PERSON.of("alice"), AGENT)

        assert await _answered(provider, PERSON, UnboundSubjectError, "person.of(") == []
        assert [info.count for info in await provider.places()] == [1]


Call = Callable[[FactStore, MemorySubject], Awaitable[object]]

CALLS: dict[str, Call] = {
    "save": lambda store, subject: store.save(theme("dark"), subject, AGENT),
    "save_many": lambda store, subject: store.save_many([theme("dark")], subject, AGENT),
    "load": lambda store, subject: store.load(THEME, subject, AGENT),
    "load as_of": lambda store, subject: store.load(THEME, subject, AGENT, as_of=START),
    "load_all": lambda store, subject: store.load_all(subject, AGENT),
    "load_by_description": lambda store, subject: store.load_by_description("a", subject, AGENT),
    "history": lambda store, subject: store.history(THEME, subject, AGENT),
    "forget": lambda store, subject: store.forget(subject, AGENT, concept=THEME),
    "erase": lambda store, subject: store.erase(subject, AGENT),
    "places": lambda store, subject: store.places(subjects=[subject]),
    "entries": lambda store, subject: store.entries(subject, AGENT),
    "replay": lambda store, subject: store.replay([], subject, AGENT),
    "amend": lambda store, subject: store.amend(lambda entries, now: [], subject, AGENT),
    "version": lambda store, subject: store.version(subject, AGENT),
    "changes": lambda store, subject: store.changes(subject, AGENT, since=""),
    "read_index": lambda store, subject: store.read_index(subject, AGENT),
    "write_index": lambda store, subject: store.write_index(subject, AGENT, b"", version=""),
}
"""The methods of every store that take a subject."""


async def _answered(
    store: FactStore, subject: MemorySubject, error: type[Exception], words: str
) -> list[str]:
    """Return the calls that do not raise an error with these words."""
    found: list[str] = []
    for name, call in CALLS.items():
        try:
            await call(store, subject)
        except error as exc:
            if words not in str(exc):
                found.append(f"{name}: {exc}")
        else:
            found.append(name)
    return found


class Closing:
    """A closed store raises an error."""

    async def test_a_closed_store_refuses(self, provider: FactStore) -> None:
        """Every call, after the first and the second closing."""
        await provider.save(theme("dark"), USER, AGENT)

        for _ in range(2):
            await provider.aclose()
            assert await _answered(provider, USER, ValueError, "closed") == []
            with pytest.raises(ValueError, match="closed"):
                await provider.__aenter__()

    async def test_leaving_the_context_closes(self, provider: FactStore) -> None:
        """Also if the block raises, and the exception is passed on."""

        async def work() -> None:
            async with provider as store:
                assert store is provider
                await store.save(theme("dark"), USER, AGENT)
                raise LookupError("mine")

        with pytest.raises(LookupError, match="mine"):
            await work()

        with pytest.raises(ValueError, match="closed"):
            await provider.load(THEME, USER, AGENT)
