"""The LangGraph store, compared with LangGraph's own, in graphs and across processes."""

import random
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.tools import ToolRuntime, tool
from langchain_core.embeddings import Embeddings
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.base import (
    BaseStore,
    GetOp,
    IndexConfig,
    InvalidNamespaceError,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    SearchOp,
)
from langgraph.store.memory import InMemoryStore

from factmem import AgentMemory, InMemoryProvider, LocalFileMemoryProvider, StorageError
from factmem.events import MemoryEvent, MemoryOperation
from factmem.integrations.langgraph import ITEMS, FactmemStore
from tests.chat_server import calls_tools, says
from tests.doubles import BareProvider, BreakableProvider
from tests.integrations.chat_openai import ChatOpenAI
from tests.integrations.model_server import ModelServer
from tests.world import vim_memory


def store_of(**options: Any) -> FactmemStore:
    return FactmemStore(AgentMemory(InMemoryProvider(), **options))


def plain(result: Any) -> Any:
    """The part that is the same in all stores: no times, and no order where a search has none."""
    if isinstance(result, list):
        return sorted((plain(each) for each in result), key=repr)
    return (
        result
        if result is None or isinstance(result, tuple)
        else (result.namespace, result.key, result.value)
    )


NAMESPACES = [("users",), ("users", "alice"), ("users", "bob"), ("docs", "users", "alice")]
VALUES: list[dict[str, Any]] = [
    {"n": 1},
    {"n": 2, "s": "x"},
    {"n": None},
    {"deep": {"list": [1, "가"]}},
]
FILTERS: list[dict[str, Any] | None] = [
    None,
    {"n": 1},
    {"n": {"$ne": 1}},
    {"s": "x"},
    {"s": {"$eq": "y"}},
    {"deep": {}},
    {"deep": {"list": [1, "가"]}},
    {"deep": {"list": [{"n": 1}, "가"]}},
    {"deep": {"list": [1]}},
    {"n": {"n": 1}},
    {"deep": {"other": None}},
]


async def _call(store: BaseStore, dice: random.Random) -> Any:
    namespace, key = dice.choice(NAMESPACES), dice.choice(["a", "b", "c d"])
    match dice.choice(["put", "put", "get", "delete", "search", "namespaces"]):
        case "put":
            return await store.aput(namespace, key, dice.choice(VALUES))
        case "get":
            return await store.aget(namespace, key)
        case "delete":
            return await store.adelete(namespace, key)
        case "search":
            prefix = namespace[: dice.choice([0, 1, 2])]
            return await store.asearch(prefix, filter=dice.choice(FILTERS), limit=100)
        case _:
            options: dict[str, Any] = dice.choice(
                [{}, {"prefix": ("users",)}, {"suffix": ("alice",)}, {"prefix": ("*", "bob")}]
            )
            return await store.alist_namespaces(max_depth=dice.choice([None, 1]), **options)


async def test_random_calls_give_what_langgraphs_own_store_gives() -> None:
    for seed in range(60):
        theirs, ours = InMemoryStore(), store_of()
        for number in range(30):
            state = f"{seed}-{number}"
            expected = await _call(theirs, random.Random(state))
            actual = await _call(ours, random.Random(state))
            assert plain(actual) == plain(expected), state
            for empty in [each for each, items in theirs._data.items() if not items]:
                del theirs._data[empty]  # it lists namespaces without items


def test_sync_calls_work_without_a_loop() -> None:
    store = store_of()
    store.put(("users", "alice"), "editor", {"name": "vim"})
    (item,) = store.search(("users",))

    assert (item.value, item.created_at.tzinfo) == ({"name": "vim"}, UTC)
    store.delete(("users", "alice"), "editor")
    assert store.get(("users", "alice"), "editor") is None
    assert store.get((), "editor") is None


class Letters(Embeddings):
    """An embedder that counts letters, and records the texts that it got."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.texts += texts
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return [float(text.lower().count(each)) for each in "abcdefgxyz"]


FIELDS = ["title", "notes[*].text", "deep.{a,b}"]


def index(embed: Letters, *fields: str) -> IndexConfig:
    return {"dims": 10, "embed": embed, "fields": list(fields) or None}


async def test_an_index_scores_by_the_best_field_as_langgraphs_own_store_does() -> None:
    stores: list[BaseStore] = [
        InMemoryStore(index=index(Letters(), *FIELDS)),
        FactmemStore(AgentMemory(InMemoryProvider()), index=index(Letters(), *FIELDS)),
    ]
    found: list[Any] = []
    for store in stores:
        await store.aput(("n",), "one", {"title": "abc", "notes": [{"text": "xx"}, {"text": "gg"}]})
        await store.aput(("n",), "two", {"title": "xyz", "deep": {"a": "aab", "b": "x"}})
        await store.aput(("n", "m"), "own", {"title": "zz", "other": "ccd"}, index=["other"])
        await store.aput(("n",), "title", {"title": "abg", "kind": 1})
        await store.aput(("n",), "title", {"title": "def", "kind": 1})  # replaces the vector
        found += [
            [
                (item.key, pytest.approx(item.score, abs=1e-6))
                for item in await store.asearch(("n",), query=query, filter=wanted)
            ]
            for query in ("x", "aab", "gg", "ccd", "def")
            for wanted in (None, {"kind": 1})
        ]
    half = len(found) // 2
    assert found[:half] == found[half:]
    assert found[0][0][0] in ("one", "two")
    assert [each[0] for each in found[half + 1]] == ["title"]


async def test_an_index_embeds_a_field_once_and_keeps_namespaces_apart() -> None:
    letters = Letters()
    store = FactmemStore(AgentMemory(InMemoryProvider()), index=index(letters, "text"))
    assert store.index_config == index(letters, "text")  # as LangGraph's own store has it
    await store.aput(("alice",), "a", {"text": "aaa"})
    await store.aput(("alice",), "hidden", {"text": "bbb"}, index=False)
    await store.aput(("bob",), "b", {"text": "ccc"})
    assert [each.key for each in await store.asearch(("alice",), query="b")] == ["a", "hidden"]
    assert (await store.asearch(("alice",), query="b"))[1].score is None
    assert "ccc" not in letters.texts
    assert letters.texts.count("aaa") == 1

    await store.aput(("alice",), "hidden", {"text": "bbb"})
    assert [each.key for each in await store.asearch(("alice",), query="b")] == ["hidden", "a"]
    await store.adelete(("alice",), "a")
    assert [each.key for each in await store.asearch((), query="c")] == ["b", "hidden"]
    assert letters.texts.count("aaa") == letters.texts.count("bbb") == 1

    await store._store.erase(FactmemStore.subject(("alice",)), ITEMS)
    assert await store.asearch(("alice",), query="b") == []
    assert store._fields
    assert {namespace for namespace, _ in store._fields._kept} == {("bob",)}


async def test_an_index_forgets_the_vectors_of_the_namespaces_searched_long_ago(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("factmem.integrations.langgraph._MOST_VECTORS", 1)
    letters = Letters()
    store = FactmemStore(AgentMemory(InMemoryProvider()), index=index(letters))
    for name in ("one", "two"):
        await store.aput((name,), "k", {"text": name})
    for name in ("one", "one", "two", "one"):
        assert (await store.asearch((name,), query="x"))[0].key == "k"
    assert [text for text in letters.texts if "one" in text] == ['{"text": "one"}'] * 2


async def test_the_default_ttl_is_that_of_the_configuration() -> None:
    clock = [datetime.now(UTC)]
    memory = AgentMemory(InMemoryProvider(clock=lambda: clock[0]))
    store = FactmemStore(memory, ttl={"default_ttl": 10, "refresh_on_read": False})
    await store.aput(("a",), "k", {"n": 1})
    await store.aput(("a",), "forever", {"n": 2}, ttl=None)
    await store.aget(("a",), "k")

    clock[0] += timedelta(minutes=11)
    assert [item.key for item in await store.asearch(("a",))] == ["forever"]


async def test_a_read_that_refreshes_the_ttl_is_no_update() -> None:
    """`updated_at` is the time of the last put, before and after the next one."""
    store = store_of()
    times: list[datetime] = []
    for number in range(2):
        await store.aput(("a",), "k", {"n": number}, ttl=10)
        for _ in range(3):
            item = await store.aget(("a",), "k", refresh_ttl=True)
            assert item is not None
            times.append(item.updated_at)

    assert times[0] == times[1] == times[2] < times[3] == times[4] == times[5]


async def test_a_search_reads_only_the_namespaces_below_its_prefix(tmp_path: Path) -> None:
    """Other users cost nothing, in any store."""
    for provider in (InMemoryProvider(), LocalFileMemoryProvider(tmp_path)):
        events: list[MemoryEvent] = []
        async with provider:
            store = FactmemStore(AgentMemory(provider, listeners=[events.append]))
            for number in range(20):
                await store.aput(("users", f"u{number}"), "k", {"n": number})
            await store.aput(("users", "u1", "files"), "k", {"n": 0})
            events.clear()
            assert len(await store.asearch(("users", "u1"))) == 2
            await store.alist_namespaces(prefix=("users", "u1"))
        counts = [(event.operation, event.count) for event in events]
        assert counts[0] == (MemoryOperation.LIST, 2)
        assert [each for each, _ in counts].count(MemoryOperation.LOAD) == 2


async def test_filters_look_into_objects_and_compare_strings() -> None:
    store = store_of()
    await store.aput(("a",), "x", {"user": {"level": 3}, "at": "2026-01-02", "dotted.key": 1})
    await store.aput(("a",), "y", {"user": {"level": 5}, "at": "2026-03-04", "user.level": 9})
    await store.aput(("a",), "z", {"user": "level"})

    async def found(**wanted: Any) -> list[str]:
        return [item.key for item in await store.asearch(("a",), filter=wanted)]

    assert await found(**{"user.level": 3}) == ["x"]
    assert await found(**{"user.level": {"$gte": 3}}) == ["x", "y"]
    assert await found(**{"user.level": 9}) == ["y"]  # a field of this name comes first
    assert await found(**{"dotted.key": 1}) == ["x"]
    assert await found(at={"$gt": "2026-02"}) == ["y"]


async def test_a_range_leaves_out_items_of_other_types() -> None:
    """One note without a number does not make the filter useless for all others."""
    store = store_of()
    values: list[Any] = [10, "high", None, [10], {"n": 10}, True, "20"]
    for number, value in enumerate(values):
        await store.aput(("a",), str(number), {"score": value})
    for operator, wanted in (("$gt", ["0", "6"]), ("$gte", ["0", "6"]), ("$lt", ["5"])):
        found = await store.asearch(("a",), filter={"score": {operator: 5}})
        assert [each.key for each in found] == wanted, operator
    assert await store.asearch(("a",), filter={"score": {"$gt": []}}) == []


INVALID: list[Op] = [
    PutOp(("foo.bar",), "k", {}),
    PutOp(("foo", ""), "k", None),
    PutOp((), "k", {}),
    PutOp((), "k", None),
    GetOp(("foo", 1), "k"),  # type: ignore[arg-type]
    SearchOp(("foo.bar",)),
    ListNamespacesOp((MatchCondition("suffix", ("foo", "")),)),
    SearchOp(("foo",), limit=-1),
    SearchOp(("foo",), offset=-1),
    SearchOp(("foo",), {"n": [{"$regex": "x"}]}),
    ListNamespacesOp(limit=-1),
    PutOp(("foo",), "k" * 300, {"n": 1}),
    PutOp(("foo",), "k", {"at": datetime(2026, 1, 1, tzinfo=UTC)}),
    PutOp(("f" * 300,), "k", {"n": 1}),
    PutOp(("foo",), "k", {"n": float("nan")}),
    PutOp(("foo",), "k", {"n": "\ud800"}),
]


@pytest.mark.parametrize("number", range(len(INVALID)))
async def test_a_batch_is_checked_whole_before_its_first_write(number: int) -> None:
    """Also what is valid in it, in other namespaces and whatever the order, is not done."""
    store, op = store_of(), INVALID[number]
    await store.aput(("kept",), "k", {"n": 1})
    is_label = number < 7
    with pytest.raises(InvalidNamespaceError if is_label else ValueError) as error:
        await store.abatch([PutOp(("new",), "k", {}), op, PutOp(("kept",), "k", None)])
    assert "namespace" in str(error.value) or not is_label
    assert await store.aget(("new",), "k") is None
    assert await store.aget(("kept",), "k") is not None


async def test_reads_of_a_batch_see_the_state_before_it() -> None:
    given: list[Op] = [PutOp(("a",), "k", {"n": 1}), GetOp(("a",), "k"), SearchOp(("a",))]
    assert await store_of().abatch(given) == [None, None, []]


@dataclass
class Context:
    user: str


@tool
async def note(text: str, runtime: ToolRuntime[Context, Any]) -> str:
    """Save a note."""
    assert runtime.store is not None
    await runtime.store.aput(("notes", runtime.context.user), text[:20], {"text": text})
    return "kept"


@tool
async def find(question: str, runtime: ToolRuntime[Context, Any]) -> str:
    """Find notes."""
    assert runtime.store is not None
    found = await runtime.store.asearch(("notes", runtime.context.user), query=question)
    return "; ".join(item.value["text"] for item in found) or "nothing"


async def test_agents_share_a_store_and_keep_users_apart(server: ModelServer) -> None:
    """The user's next run finds what a tool saved; other users and checkpoints do not."""
    saver = InMemorySaver()
    agent: Any = create_agent(
        ChatOpenAI(url=server.url),
        tools=[note, find],
        store=store_of(),
        context_schema=Context,
        checkpointer=saver,
    )

    async def run(who: str, thread: str, name: str, **arguments: str) -> str:
        server.answer(calls_tools(("1", name, arguments)), says("Ok."))
        config = {"configurable": {"thread_id": thread}}
        given = {"messages": [("user", "Go.")]}
        result = await agent.ainvoke(given, context=Context(who), config=config)
        return str(result["messages"][-2].content)

    assert await run("alice", "t1", "note", text="The router is an X200.") == "kept"
    assert await run("bob", "t2", "find", question="router") == "nothing"
    assert "X200" in await run("alice", "t3", "find", question="router")
    assert "X200" not in str(list(saver.list({"configurable": {"thread_id": "t2"}})))


async def test_a_store_that_fails_raises() -> None:
    provider = BreakableProvider()
    store = FactmemStore(await vim_memory(provider=provider))
    provider.is_broken = True
    with pytest.raises(StorageError):
        await store.aget(("a",), "k")


def test_wrong_arguments_raise() -> None:
    with pytest.raises(TypeError, match="memory must be an AgentMemory"):
        FactmemStore(InMemoryProvider())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="FactStore"):
        FactmemStore(AgentMemory(BareProvider()))


async def test_an_item_that_is_not_indexed_is_found_last() -> None:
    store = FactmemStore(AgentMemory(InMemoryProvider()))
    await store.aput(("notes",), "a", {"text": "tea and more tea"}, index=False)
    await store.aput(("notes",), "b", {"text": "some tea"})
    found = await store.asearch(("notes",), query="tea")
    assert [(item.key, item.score is None) for item in found] == [("b", False), ("a", True)]

    await store.aput(("notes",), "a", {"text": "tea and more tea"})
    again = await store.asearch(("notes",), query="tea")
    assert [item.score is None for item in again] == [False, False]
