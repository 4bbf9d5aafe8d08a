"""Letters: other endings, spellings and scripts of a word, in small indexes and in large ones."""

from pathlib import Path

import pytest

from factmem import (
    AgentMemory,
    Concept,
    FactType,
    InMemoryProvider,
    MemoryScope,
    MemoryScopesProfile,
    MemorySubject,
    MultipleFacts,
)
from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.recall._letters import Vocabulary, folded, grams

USER = MemorySubject("user", "The user", 1)
APP = MemoryScope.Agent("app")
SAID = Concept("said", "What was said", FactType.MULTIPLE)
TEXTS = (
    "My neighbour Jürgen Müller sails on Sundays",
    "We moved to Zürich for the new job",
    "Kamil pracuje w Łodzi jako piekarz",
    "Asumme kolmannessa kerroksessa ilman hissiä",
    "I take my thyroid tablets in the morning",
    "Наша бабушка Татьяна печёт пироги",
    "The dentist fixed a broken filling",
    "Minha irmã trabalha num hospital infantil",
    "My nephew learns the violin",
    "Koupili jsme nové červené auto",
)
QUESTIONS = (
    ("What does Mueller do?", 0),
    ("Where is Juergen?", 0),
    ("When did they move to Zuerich?", 1),
    ("Gdzie pracuja ludzie z Lodzi?", 2),
    ("Monesko kerros?", 3),
    ("thyriod tabelts", 4),
    ("What does Tatyana bake?", 5),
    ("dentits", 6),
    ("Onde fica o hospitais das irmãs?", 7),
    ("Who plays the voilin?", 8),
    ("Jakou barvu má autíčko?", 9),
)


@pytest.fixture(params=["memory", "numpy", "database"])
async def memory(request: pytest.FixtureRequest, tmp_path: Path) -> AgentMemory:
    """Return a memory of the texts: alone, and among 300 others."""
    facts = [MultipleFacts(SAID, [text], id=str(n)) for n, text in enumerate(TEXTS)]
    others = [f"note {n} about {'abcdefgh'[n % 8] * 5}{n:04}" for n in range(300)]
    if request.param != "memory":
        facts += [MultipleFacts(SAID, [text], id=f"o{n}") for n, text in enumerate(others)]
    store: InMemoryProvider | LocalFileMemoryProvider = InMemoryProvider()
    if request.param == "database":
        store = LocalFileMemoryProvider(tmp_path)
        assert store._search is not None
        store._search._from = 0
    await store.save_many(facts, USER, APP)
    return AgentMemory(store, scopes=MemoryScopesProfile(agent="app"), subjects=[USER])


@pytest.mark.parametrize(("question", "right"), QUESTIONS)
async def test_other_spellings_are_found(memory: AgentMemory, question: str, right: int) -> None:
    """Umlauts, letters without marks, endings, typing errors and Cyrillic names."""
    found = [match.fact.id for match in await memory.recall(question, limit=3)]

    assert str(right) in found
    await memory.aclose()


async def test_equal_words_say_little_in_a_language_without_known_function_words() -> None:
    """In Finnish "missä" and "hän" must not outweigh other forms of a noun and a verb."""
    others = [
        f"{('Missä kerros on', 'Missä hän on')[n % 2]} {'aeiou'[n % 5] * 4}{n}" for n in range(300)
    ]
    texts = ["Asumme kolmannessa kerroksessa ilman hissiä", *others]
    store = InMemoryProvider()
    facts = [MultipleFacts(SAID, [text], id=str(n)) for n, text in enumerate(texts)]
    await store.save_many(facts, USER, APP)
    memory = AgentMemory(store, scopes=MemoryScopesProfile(agent="app"), subjects=[USER])

    found = await memory.recall("Missä kerroksissa hän asuu?", limit=1)

    assert [match.fact.id for match in found] == ["0"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("STRASSE", "straße"),
        ("Łódź", "Lodz"),
        ("smørrebrød", "smorrebrod"),
        ("Ελλάδα", "ellada"),
        ("Москва", "moskva"),
        ("\uff37\uff29\uff24\uff25", "wide"),
        ("קָפֶה", "קפה"),
    ],
)
def test_folding(one: str, other: str) -> None:
    """Case, width, marks and other scripts."""
    assert folded(one) == folded(other)


def test_many_terms_are_compared_as_a_few_are() -> None:
    """By a table of numpy arrays, and from lists; also after terms were removed and added."""
    terms = [
        f"{a}{b}{c}word{n}"
        for n, (a, b, c) in enumerate(zip("abc" * 500, "xyz" * 500, "qrstu" * 300, strict=True))
    ]
    held = list(terms)
    many, few, asked = Vocabulary(held), Vocabulary(terms[1:60:2]), ("axqword7",)
    assert len(many) == len(terms)
    for number in [*range(0, 60, 2), *range(60, len(terms))]:
        many.drop(number)
        held[number] = ""
    held.append("axqword8")

    found = dict(many.similar(asked))

    assert found.pop("axqword8") == pytest.approx(13 / 17)
    assert found.items() <= few.similar(asked).items()
    assert len(many) == len(few) + 1
    groups = sorted(grams("axqword") - grams("axqword8"))
    assert many.counts(groups) == few.counts(groups)
