"""Calls that users of other libraries, of dicts and of synchronous code try first.

Each raises an error that says what to write here, and none shows a value. What Python says about a
missing `await` is Python's own.
"""
# mypy: disable-error-code="call-arg,arg-type,call-overload,attr-defined"

from collections.abc import Callable
from datetime import UTC, datetime
from inspect import isawaitable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import factmem
from factmem import (
    Aes256GCMEncryptor,
    Agent,
    AgentMemory,
    Concept,
    EncryptedStorage,
    FactSource,
    FactStore,
    FactType,
    InMemoryProvider,
    Key,
    LocalFileMemoryProvider,
    MemoryScope,
    MemoryScopesProfile,
    MemorySubject,
    MultipleFacts,
    Profile,
    SingleFact,
    remembered,
)
from factmem.memory.runs import MemoryRuns
from factmem.testing.chat import ScriptedChatModel
from tests.tables import table

SECRET = "Busan-4711"
USER = MemorySubject("user", "The user", 1, per_entity=True)
CITY = Concept("city", "Where the user lives")
AGE = Concept("age", "The age of the user", value_type=int)
TAGS = Concept("tags", "The tags of the user", FactType.MULTIPLE)
APP = MemoryScope.Product("app")
PROFILE = MemoryScopesProfile(product="app")
CHAT = [{"role": "user", "content": SECRET}]


class Me(Profile):
    """A profile."""

    city: str | None = remembered("Where the user lives")


class World(NamedTuple):
    """What the calls use."""

    folder: Path
    store: FactStore
    everyone: AgentMemory
    memory: AgentMemory
    agent: Agent
    fact: Any

    def open(self, **options: Any) -> Any:
        return AgentMemory.open(self.folder / "memory", **options)


Call = Callable[[Any], object]


def named(name: str) -> Call:
    return lambda w: getattr(w.memory, name)


def of_store(name: str) -> Call:
    return lambda w: getattr(w.store, name)


def run(program: str) -> Call:
    def call(w: World) -> None:
        exec(program, {"w": w, "Me": Me, "CITY": CITY})

    return call


ATTRIBUTES: list[tuple[str, Call, str]] = [
    *(
        ("memory." + each, named(each), "memory.save(CONCEPT, value)")
        for each in ("add", "put", "set")
    ),
    *(("memory." + each, named(each), "memory.value(CONCEPT)") for each in ("get", "read", "city")),
    *(
        ("memory." + each, named(each), "memory.current()")
        for each in ("get_all", "list", "load", "items")
    ),
    *(("memory." + each, named(each), "memory.recall(") for each in ("search", "query", "find")),
    *(
        ("memory." + each, named(each), "memory.clear(CONCEPT)")
        for each in ("delete", "forget", "pop")
    ),
    *(
        ("memory." + each, named(each), "contents.reset")
        for each in ("delete_all", "reset", "erase")
    ),
    ("memory.history", named("history"), "memory.why(fact)"),
    ("memory.update", named("update"), "contents.update(fact_id"),
    ("memory.learn", named("learn"), "conversations.learn()"),
    ("memory.close", named("close"), "memory.aclose()"),
    ("memory.commit", named("commit"), "is durable"),
    ("memory.keys", named("keys"), "contents.concepts()"),
    ("memory.get_context", named("get_context"), "memory.text()"),
    ("a typo", named("recal"), "did you mean 'recall'"),
    ("store.get", of_store("get"), "store.load("),
    ("store.put", of_store("put"), "store.save(SingleFact("),
    ("store.search", of_store("search"), "recall(question)"),
    ("store.delete", of_store("delete"), "store.forget("),
    ("store.get_all", of_store("get_all"), "store.load_all("),
    ("store.backup", of_store("backup"), "only LocalFileMemoryProvider has it"),
    ("chat.add", lambda w: w.memory.conversation("c").add, "chat.append("),
    ("chats.list", lambda w: w.memory.conversations.list, "conversations.infos()"),
    ("contents.list", lambda w: w.memory.contents.list, "contents.records("),
    ("review.approve", lambda w: w.memory.review.approve, "review."),
    ("agent.invoke", lambda w: w.agent.invoke, "agent.run("),
    ("MultipleFacts.value", lambda w: MultipleFacts(TAGS, ["a"]).value, ".values"),
]

SYNCHRONOUS: list[tuple[str, Call, str]] = [
    ("open().save", lambda w: w.open(user="alice").save, "async with AgentMemory.open("),
    ("await open()", lambda w: w.open(user="alice"), "async with AgentMemory.open("),
    ("with open()", run("with w.open(user='a'): pass"), "async with AgentMemory.open("),
    ("with memory", run("with w.memory: pass"), "opened with `async with`"),
    ("with store", run("with w.store: pass"), "opened with `async with`"),
    ("with edit", run("with w.memory.edit(Me): pass"), "async with"),
    ("edit().city", lambda w: w.memory.edit(Me).city, "async with"),
]

DICTS: list[tuple[str, Call, str]] = [
    ("memory['city']", lambda w: w.memory["city"], "memory.value(CONCEPT)"),
    ("memory[CITY]", lambda w: w.memory[CITY], "memory.value(CONCEPT)"),
    ("memory['city'] = ...", run("w.memory['city'] = 1"), "save(CONCEPT, value)"),
    ("del memory[CITY]", run("del w.memory[CITY]"), "clear(CONCEPT)"),
    ("in memory", lambda w: CITY in w.memory, "memory.value(CONCEPT)"),
    ("for in memory", lambda w: list(w.memory), "current()"),
    ("memory.city = ...", lambda w: setattr(w.memory, "city", SECRET), "save(CONCEPT, value)"),
]

PLACES: list[tuple[str, Call, str]] = [
    ("value of no user", lambda w: w.everyone.value(CITY), "user.of("),
    ("save of no user", lambda w: w.everyone.save(CITY, SECRET), "user.of("),
    ("recall of no user", lambda w: w.everyone.recall("x"), "user.of("),
    ("load of no user", lambda w: w.everyone.load_facts_to_agent([]), "user.of("),
    ("conversation of no user", lambda w: w.everyone.conversation("x"), "user.of("),
    ("of(42)", lambda w: w.everyone.of(42), "of(str(42))"),
    ("of(None)", lambda w: w.everyone.of(None), "of('alice')"),
    ("of(subject)", lambda w: w.everyone.of(USER), "of('alice')"),
    ("of twice", lambda w: w.memory.of("bob"), "bound to an entity already"),
    ("USER.of(42)", lambda w: USER.of(42), "of(str(42))"),
    (
        "view(USER)",
        lambda w: w.everyone.view(subjects=USER.of("a")),
        "must be a list of MemorySubject",
    ),
    ("view([USER])", lambda w: w.everyone.view([USER]), "subjects=None"),
    ("no scope", lambda w: AgentMemory(w.store, subjects=[USER.of("a")]).value(CITY), "scopes="),
    ("scopes='app'", lambda w: AgentMemory(w.store, scopes="app"), "MemoryScopesProfile("),
    ("scopes=[APP]", lambda w: AgentMemory(w.store, scopes=[APP]), "MemoryScopesProfile("),
    (
        "subjects=USER",
        lambda w: AgentMemory(w.store, subjects=USER),
        "must be a list of MemorySubject",
    ),
    ("save(user_id=)", lambda w: w.memory.save(CITY, SECRET, user_id="a"), "memory.of('alice')"),
    ("recall(user_id=)", lambda w: w.memory.recall("x", user_id="a"), "memory.of('alice')"),
    ("AgentMemory(user=)", lambda w: AgentMemory(w.store, user="a"), "memory.of('alice')"),
    ("open(user_id=)", lambda w: w.open(user_id="a"), "user='alice'"),
    ("open(user=42)", lambda w: w.open(user=42).__aenter__(), "of(str(42))"),
    ("cross_product=", lambda w: MemoryScopesProfile(cross_product="a"), "organization="),
    ("project=", lambda w: MemoryScopesProfile(project="a"), "product="),
    ("MemoryScope('app')", lambda w: MemoryScope("app"), "MemoryScope.Product("),
    ("MemorySubject('user')", lambda w: MemorySubject("user"), "MemorySubject('user', "),
]

SAVES: list[tuple[str, Call, str]] = [
    ("save(CITY)", lambda w: w.memory.save(CITY), "The value is missing"),
    ("save('city', value)", lambda w: w.memory.save("city", SECRET), "memory.save(Concept("),
    ("save(text)", lambda w: w.memory.save(SECRET), "memory.remember(text)"),
    ("save(value, CITY)", lambda w: w.memory.save(SECRET, CITY), "The concept comes first"),
    ("save(fact)", lambda w: w.memory.save(w.fact), "memory.save(fact.concept, fact.value)"),
    ("save(Me)", lambda w: w.memory.save(Me), "an instance of a profile"),
    ("save(me, value)", lambda w: w.memory.save(Me(city="x"), "y"), "memory.save(profile)"),
    ("save(dict)", lambda w: w.memory.save({"city": SECRET}, "x"), "Concept(keyword"),
    ("save(messages)", lambda w: w.memory.save(CHAT), "auto_detect_facts(messages)"),
    ("save(AGE, str)", lambda w: w.memory.save(AGE, SECRET), "is not a valid int"),
    ("save(TAGS, str)", lambda w: w.memory.save(TAGS, SECRET), "[value]"),
    ("save(TAGS, [])", lambda w: w.memory.save(TAGS, []), "at least one value"),
    ("save(CITY, None)", lambda w: w.memory.save(CITY, None), "memory.clear(concept)"),
    ("save(subject=)", lambda w: w.memory.save(CITY, SECRET, subject=USER), "memory.of('alice')"),
    (
        "save(metadata=)",
        lambda w: w.memory.save(CITY, SECRET, metadata={}),
        "store.save(SingleFact(",
    ),
    (
        "save(timestamp=)",
        lambda w: w.memory.save(CITY, SECRET, timestamp=0),
        "store.save(SingleFact(",
    ),
    (
        "store.save(CITY, value, ...)",
        lambda w: w.store.save(CITY, SECRET, USER.of("a"), APP),
        "SingleFact(",
    ),
    ("store.save(fact)", lambda w: w.store.save(w.fact), "subject, scope"),
    ("store.save swapped", lambda w: w.store.save(w.fact, APP, USER.of("a")), "in this order"),
    ("note(5)", lambda w: w.memory.note(5), "memory.note("),
    ("SingleFact of many", lambda w: SingleFact(TAGS, SECRET), "use MultipleFacts"),
    ("MultipleFacts of one", lambda w: MultipleFacts(CITY, [SECRET]), "use SingleFact"),
    ("SingleFact('city')", lambda w: SingleFact("city", SECRET), "SingleFact(Concept("),
    (
        "naive",
        lambda w: SingleFact(CITY, SECRET, timestamp=datetime.now(UTC).replace(tzinfo=None)),
        "time zone",
    ),
    ("importance", lambda w: SingleFact(CITY, SECRET, importance=5), "from 0 to 1"),
    ("FactSource('chat')", lambda w: FactSource("chat"), "SourceKind.USER"),
]

READS: list[tuple[str, Call, str]] = [
    ("value()", lambda w: w.memory.value(), "value(concept)"),
    ("value('city')", lambda w: w.memory.value("city"), "Concept(keyword"),
    ("value(TAGS)", lambda w: w.memory.value(TAGS), "memory.values(concept)"),
    ("value(CITY, default=)", lambda w: w.memory.value(CITY, default="x"), "or default"),
    ("value(Me)", lambda w: w.memory.value(Me), "memory.current("),
    ("values(Me)", lambda w: w.memory.values(Me), "memory.current("),
    ("values('city')", lambda w: w.memory.values("city"), "concept must be a Concept, not str"),
    ("clear('city')", lambda w: w.memory.clear("city"), "concept must be a Concept, not str"),
    ("current('city')", lambda w: w.memory.current("city"), "Concept(keyword"),
    ("current(Me())", lambda w: w.memory.current(Me(city="x")), "memory.current("),
    ("current([CITY])", lambda w: w.memory.current([CITY]), "must be a Concept, not list"),
    ("clear()", lambda w: w.memory.clear(), "clear(concept)"),
    ("edit(CITY)", lambda w: w.memory.edit(CITY).__aenter__(), "must be a class of Profile"),
    ("recall(CITY)", lambda w: w.memory.recall(CITY), "memory.value(CONCEPT)"),
    ("recall(top_k=)", lambda w: w.memory.recall("x", top_k=3), "limit=5"),
    ("recall(filters=)", lambda w: w.memory.recall("x", filters={}), "where=RecallFilter("),
    ("recall(where={})", lambda w: w.memory.recall("x", where={}), "RecallFilter("),
    ("recall(limit=0)", lambda w: w.memory.recall("x", limit=0), "at least 1"),
    ("text(limit=3)", lambda w: w.memory.text(limit=3), "need a question"),
    ("load('hi')", lambda w: w.memory.load_facts_to_agent("hi"), "must be a list of dicts"),
    ("load(())", lambda w: w.memory.load_facts_to_agent(()), "messages = list(messages)"),
    ("why(CITY)", lambda w: w.memory.why(CITY), "memory.why(facts[0])"),
    ("store.load('city')", lambda w: w.store.load("city", USER.of("a"), APP), "Concept(keyword"),
    ("store.load(str subject)", lambda w: w.store.load(CITY, "alice", APP), "USER.of("),
    ("store.load(str scope)", lambda w: w.store.load(CITY, USER.of("a"), "app"), "MemoryScope."),
    ("store.load(USER)", lambda w: w.store.load(CITY, USER, APP), "user.of("),
    ("forget()", lambda w: w.memory.contents.forget(), "concept, value"),
    ("forget(CITY)", lambda w: w.memory.contents.forget(CITY), "contents.forget(concept=CONCEPT)"),
    ("update(id)", lambda w: w.memory.contents.update(w.fact.id), "value="),
    ("reset()", lambda w: w.everyone.contents.reset(confirm=True), "everything=True"),
]

LEARNING: list[tuple[str, Call, str]] = [
    ("remember without a model", lambda w: w.memory.remember(SECRET), "chat_model="),
    ("remember(messages)", lambda w: w.memory.remember(CHAT), "auto_detect_facts(messages)"),
    ("detect(text)", lambda w: w.memory.auto_detect_facts(SECRET), "memory.remember(text)"),
    ("detect(message)", lambda w: w.memory.auto_detect_facts(CHAT[0]), "must be a list"),
    ("chat.append(text)", lambda w: w.memory.conversation("c").append(SECRET), '"role"'),
    ("chat.append(list)", lambda w: w.memory.conversation("c").append(CHAT), "append(*messages)"),
    (
        "chat without a role",
        lambda w: w.memory.conversation("c").append({"content": "x"}),
        "have a role",
    ),
    ("conversation()", lambda w: w.memory.conversation(), "conversation(name"),
    ("Agent('gpt')", lambda w: Agent("gpt"), "OpenAIChatModel("),
    ("Agent(memory=)", lambda w: Agent(ScriptedChatModel(), memory=w.memory), "agent.install("),
    (
        "install(AgentMemory, store)",
        lambda w: Agent(ScriptedChatModel()).install(AgentMemory, w.store),
        "provider=",
    ),
    (
        "install(memory)",
        lambda w: Agent(ScriptedChatModel()).install(w.memory),
        "agent.install(AgentMemory",
    ),
    (
        "install without scopes",
        lambda w: Agent(ScriptedChatModel()).install(AgentMemory, provider=w.store),
        "scopes=",
    ),
    ("run without a user", lambda w: w.agent.run(SECRET), "subjects=[USER.of("),
    ("run(user=)", lambda w: w.agent.run(SECRET, user="alice"), "subjects=[USER.of("),
    ("run(messages)", lambda w: w.agent.run(CHAT), "agent.run('"),
    ("run(subjects=['alice'])", lambda w: w.agent.run("x", subjects=["alice"]), "MemorySubject"),
    ("runs(store)", lambda w: MemoryRuns(w.store), "AgentMemory(provider)"),
]

SETTING_UP: list[tuple[str, Call, str]] = [
    ("AgentMemory()", lambda w: AgentMemory(), "AgentMemory(provider"),
    ("AgentMemory('path')", lambda w: AgentMemory("memory"), "LocalFileMemoryProvider("),
    ("AgentMemory(class)", lambda w: AgentMemory(InMemoryProvider), "InMemoryProvider()"),
    (
        "AgentMemory(store, model)",
        lambda w: AgentMemory(w.store, ScriptedChatModel()),
        "chat_model=",
    ),
    ("AgentMemory(llm=)", lambda w: AgentMemory(w.store, llm=1), "chat_model="),
    ("chat_model='gpt'", lambda w: AgentMemory(w.store, chat_model="gpt"), "OpenAIChatModel("),
    ("embedder='x'", lambda w: AgentMemory(w.store, embedder="x"), "ollama"),
    ("concepts=CITY", lambda w: AgentMemory(w.store, concepts=CITY), "concepts=["),
    ("open()", lambda w: AgentMemory.open(), "folder"),
    ("Aes(password)", lambda w: Aes256GCMEncryptor(SECRET), "Key.from_passphrase("),
    ("Aes('password')", lambda w: Aes256GCMEncryptor("password"), "Key.from_passphrase("),
    ("EncryptedStorage(str)", lambda w: EncryptedStorage(SECRET), "Aes256GCMEncryptor("),
    (
        "storage=encryptor",
        lambda w: LocalFileMemoryProvider(w.folder, storage=Aes256GCMEncryptor(Key.generate())),
        "EncryptedStorage(",
    ),
    ("LocalFile(5)", lambda w: LocalFileMemoryProvider(5), "must be a path"),
    ("Concept('city')", lambda w: Concept("city"), "description"),
    ("Concept(int)", lambda w: Concept("age", "Age", int), "value_type=int"),
    ("Concept(many=)", lambda w: Concept("age", "Age", many=True), "FactType.MULTIPLE"),
    ("import a typo", run("from factmem import AgentMemry"), "AgentMemory"),
    (
        "import from elsewhere",
        run("from factmem import RecallFilter"),
        "from factmem.recall import",
    ),
    ("import Memory", run("from factmem import Memory"), "AgentMemory"),
]

CALLS = [*ATTRIBUTES, *SYNCHRONOUS, *DICTS, *PLACES, *SAVES, *READS, *LEARNING, *SETTING_UP]


@pytest.fixture
async def world(tmp_path: Path) -> World:
    """Return a memory with a fact."""
    store = InMemoryProvider()
    everyone = AgentMemory(store, scopes=PROFILE, subjects=[USER])
    memory = everyone.of("alice")
    fact = await memory.save(CITY, SECRET)
    agent = Agent(ScriptedChatModel())
    agent.install(AgentMemory, provider=store, scopes=PROFILE, subjects=[USER])
    return World(tmp_path, store, everyone, memory, agent, fact)


async def _finish(call: Call, world: World) -> None:
    result = call(world)
    if isawaitable(result):
        await result


@table(("title", "call", "says"), CALLS, ids=[title for title, _, _ in CALLS])
async def test_a_wrong_call_says_what_to_do(
    title: str, call: Call, says: str, world: World
) -> None:
    with pytest.raises((TypeError, ValueError, AttributeError, ImportError)) as caught:
        await _finish(call, world)
    assert says in str(caught.value), title
    assert SECRET not in str(caught.value), title


def test_there_are_many_wrong_calls() -> None:
    assert len({title for title, _, _ in CALLS}) >= 120


async def test_what_is_no_mistake_stays_as_it_is(world: World) -> None:
    """Attributes that do not exist are still missing, for `hasattr`, copies and pickles."""
    assert not hasattr(world.memory, "get")
    assert not hasattr(factmem, "PostgresMemoryProvider")
    assert getattr(world.store, "search", None) is None
    assert bool(world.memory)

    class Own(AgentMemory):
        """A subclass may have attributes of its own."""

    own = Own(world.store, scopes=PROFILE, subjects=[USER])
    own.extra = 1
    assert own.of("alice").extra == 1


async def test_an_error_inside_a_method_is_not_taken_for_a_wrong_call() -> None:
    def clock() -> datetime:
        raise TypeError("unexpected keyword argument 'top_k'")

    memory = AgentMemory(InMemoryProvider(), scopes=PROFILE, subjects=[USER.of("a")], clock=clock)
    with pytest.raises(TypeError, match=r"^unexpected keyword argument 'top_k'$"):
        await memory.save(CITY, "x")
