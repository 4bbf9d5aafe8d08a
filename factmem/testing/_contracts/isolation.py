"""Isolation of places and entities."""

import unicodedata
from collections.abc import Callable

import pytest

from factmem.errors import UnboundSubjectError
from factmem.models.facts import Concept, SingleFact
from factmem.models.places import MemoryScope, MemorySubject
from factmem.providers.base import AgentMemoryProvider
from factmem.testing._facts import AGENT, LANGUAGES, PERSON, THEME, USER, languages, theme

NAMES = [
    "a",
    "ab",
    "abc",
    "A",
    "a/b",
    "a\\b",
    "a%",
    "a%2Fb",
    "a_",
    "a.b",
    "a b",
    " a",
    "a ",
    ".",
    "..",
    "../a",
    "/a",
    "~",
    "*",
    "a'b",
    'a"b',
    "null",
    "con",
    "CON",
    "nul.txt",
    "-rf",
    "caf\u00e9",
    "cafe",
    "\u1e9e",
    "ss",
    "\uff41",
    "다크",
    "👩‍👩‍👧",
    "x" * 200,
    "x" * 199,
    "\u00e9" * 200,
]
"""Names that a careless store mixes up; all of them are different."""

Role = Callable[[str], tuple[Concept, MemorySubject, MemoryScope]]

ROLES: dict[str, Role] = {
    "keyword": lambda name: (Concept(name, "A concept"), USER, AGENT),
    "subject": lambda name: (THEME, MemorySubject(name, "A subject", 1), AGENT),
    "entity": lambda name: (THEME, PERSON.of(name), AGENT),
    "scope": lambda name: (THEME, USER, MemoryScope.Product(name)),
}


class Isolation:
    """A place is a scope, a subject and its entity, and a concept is a keyword."""

    @pytest.mark.parametrize("role", ROLES)
    async def test_names_never_mix(self, provider: AgentMemoryProvider, role: str) -> None:
        """Users may have any names: each finds only its own facts."""
        for number, name in enumerate(NAMES):
            concept, subject, scope = ROLES[role](name)
            await provider.save(SingleFact(concept, str(number)), subject, scope)

        found: list[tuple[str, ...]] = []
        for name in NAMES:
            concept, subject, scope = ROLES[role](name)
            found += [fact.values for fact in await provider.load(concept, subject, scope)]

        assert found == [(str(number),) for number in range(len(NAMES))]

    @pytest.mark.parametrize("role", ROLES)
    async def test_both_normal_forms_are_one_name(
        self, provider: AgentMemoryProvider, role: str
    ) -> None:
        """Names that look the same are the same."""
        concept, subject, scope = ROLES[role](unicodedata.normalize("NFD", "café"))
        await provider.save(SingleFact(concept, "found"), subject, scope)

        concept, subject, scope = ROLES[role](unicodedata.normalize("NFC", "café"))
        loaded = await provider.load(concept, subject, scope)

        assert [fact.values for fact in loaded] == [("found",)]

    async def test_scopes_of_one_name_are_apart(self, provider: AgentMemoryProvider) -> None:
        """The kind of a scope is part of it."""
        scopes = [
            MemoryScope.Agent("x"),
            MemoryScope.Feature("x"),
            MemoryScope.Product("x"),
            MemoryScope.CrossProduct("x"),
        ]
        for scope in scopes:
            await provider.save(theme(str(scope)), USER, scope)

        for scope in scopes:
            loaded = await provider.load_all(USER, scope)
            assert [fact.values for fact in loaded] == [(str(scope),)]

    async def test_names_are_not_run_together(self, provider: AgentMemoryProvider) -> None:
        """The borders between the parts of a place's name are part of its identity."""
        places = [
            (MemorySubject("bc", "", 1), MemoryScope.Product("a")),
            (MemorySubject("c", "", 1), MemoryScope.Product("ab")),
            (MemorySubject("b", "", 1, per_entity=True).of("c"), MemoryScope.Product("a")),
            (MemorySubject("b/c", "", 1), MemoryScope.Product("a")),
            (MemorySubject("c", "", 1), MemoryScope.Product("a/b")),
            (MemorySubject("b(c)", "", 1), MemoryScope.Product("a")),
        ]
        for number, (subject, scope) in enumerate(places):
            await provider.save(theme(str(number)), subject, scope)

        for number, (subject, scope) in enumerate(places):
            loaded = await provider.load_all(subject, scope)
            assert [fact.values for fact in loaded] == [(str(number),)]

    async def test_entities_of_one_subject_are_apart(self, provider: AgentMemoryProvider) -> None:
        """Alice's facts are visible neither to Bob nor to a subject of the same name without entity."""
        plain = MemorySubject("person", "Everyone", 2)
        await provider.save(theme("dark"), PERSON.of("alice"), AGENT)
        await provider.save(languages("java"), PERSON.of("bob"), AGENT)

        assert await provider.load(THEME, PERSON.of("bob"), AGENT) == []
        assert await provider.load(LANGUAGES, PERSON.of("alice"), AGENT) == []
        assert await provider.load_all(plain, AGENT) == []
        assert await provider.load_by_description("theme", PERSON.of("bob"), AGENT) == []
        assert len(await provider.load_all(PERSON.of("alice"), AGENT)) == 1

    async def test_descriptions_are_no_part_of_a_place(self, provider: AgentMemoryProvider) -> None:
        """An application may change the description of a subject or concept and still finds its facts."""
        await provider.save(theme("dark"), USER, AGENT)
        renamed = MemorySubject("user", "The person who types", 9)

        loaded = await provider.load(Concept("ide-theme", "Colours"), renamed, AGENT)

        assert [fact.value for fact in loaded] == ["dark"]

    async def test_an_unbound_subject_is_refused(self, provider: AgentMemoryProvider) -> None:
        """An omitted entity is an error; it never means all entities."""
        await provider.save(theme("dark"), PERSON.of("alice"), AGENT)

        with pytest.raises(UnboundSubjectError, match=r"person\.of\("):
            await provider.save(theme("light"), PERSON, AGENT)
        with pytest.raises(UnboundSubjectError, match=r"person\.of\("):
            await provider.load(THEME, PERSON, AGENT)
        with pytest.raises(UnboundSubjectError, match=r"person\.of\("):
            await provider.load_all(PERSON, AGENT)
        with pytest.raises(UnboundSubjectError, match=r"person\.of\("):
            await provider.load_by_description("theme", PERSON, AGENT)
