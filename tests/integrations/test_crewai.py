"""CrewAI with a server that speaks the OpenAI API: crews, agents, flows, tools, lessons."""

import json
import os
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import anyio
import pytest

if find_spec("crewai") is None:
    pytest.skip("it takes a gigabyte: make frameworks ONLY=crewai", allow_module_level=True)

# Read on import; without it, other tests need settings of their own.
os.environ |= {"CREWAI_DISABLE_TELEMETRY": "true", "OTEL_SDK_DISABLED": "true"}
os.environ |= {"CREWAI_TRACING_ENABLED": "false", "OPENAI_API_KEY": "x"}

from crewai import LLM, Agent, Crew, Task
from crewai.events import crewai_event_bus
from crewai.events.types.memory_events import (
    MemoryQueryCompletedEvent,
    MemoryQueryFailedEvent,
    MemoryQueryStartedEvent,
    MemorySaveCompletedEvent,
    MemorySaveFailedEvent,
    MemorySaveStartedEvent,
)
from crewai.flow.flow import Flow, start
from crewai.flow.human_feedback import human_feedback
from crewai.memory.storage.lancedb_storage import LanceDBStorage
from crewai.memory.types import MemoryRecord
from crewai.memory.unified_memory import Memory

from factmem import AgentMemory, InMemoryProvider, MemoryScope, MemoryScopesProfile
from factmem.errors import ChatModelError, MemoryAccessError, UnboundSubjectError
from factmem.integrations.crewai import FactmemMemory, lesson_concept
from factmem.memory.runs import UNREACHABLE
from factmem.models.facts import SourceKind
from factmem.testing.adapters import AdapterContract, AdapterHost
from factmem.transfer.memories import import_crewai
from tests.chat_server import ChatServer, calls_tools, says
from tests.doubles import BreakableProvider
from tests.world import ALICE, USER, found_fact, known_values, vim_memory

pytestmark = pytest.mark.filterwarnings("ignore")  # warnings of CrewAI and its packages

DONE = says("Thought: I know it.\nFinal Answer: done")
FISH = found_fact("I use fish", "shell", "fish")


class Server(ChatServer):
    def shown(self, number: int = -1) -> str:
        return json.dumps(self.requests[number].messages)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A server, and a folder in which CrewAI's own stores must create nothing."""
    monkeypatch.setenv("CREWAI_STORAGE_DIR", str(tmp_path))
    with Server() as made:
        yield made
        assert made.troubles == []
    assert [path for path in tmp_path.rglob("*") if "lance" in path.name.lower()] == []


def memory(*answers: Any, **options: Any) -> AgentMemory:
    async def made() -> AgentMemory:
        return await vim_memory(*answers, **options)

    return anyio.run(made)


def model(server: Server) -> LLM:
    return LLM(model="openai/gpt-4o-mini", base_url=server.url, api_key="x")


def agent_of(server: Server, **options: Any) -> Agent:
    return Agent(role="Desk", goal="help", backstory="b", llm=model(server), **options)


def crew_of(server: Server, description: str, mine: Any, **options: Any) -> Crew:
    agent = options.pop("agent", None) or agent_of(server)
    task = Task(description=description, expected_output="an answer", agent=agent)
    return Crew(agents=[agent], tasks=[task], memory=mine, **options)


def call(name: str, **arguments: Any) -> Any:
    return calls_tools(("1", name, arguments))


def test_what_a_tool_saves_is_there_in_the_second_turn(server: Server) -> None:
    about = memory(FISH, {"facts": []})
    mine = FactmemMemory.of(about, user="alice")
    server.answer(
        call("save_to_memory", contents=["I use fish"]),
        call("search_memory", queries=["shell"]),
        DONE,
    )

    crew_of(server, "Which editor do I use?", mine).kickoff()
    assert [("vim" in server.shown(n), "fish" in server.shown(n)) for n in (0, 2)] == [
        (True, False),
        (True, True),
    ]
    assert anyio.run(known_values, about) == {"editor": "vim", "shell": "fish"}


def test_an_unbound_user_raises_before_any_call() -> None:
    with pytest.raises(UnboundSubjectError):
        FactmemMemory.of(memory())


def test_a_failing_store_stops_no_run_and_the_model_reads_the_error(server: Server) -> None:
    provider, failures = BreakableProvider(), list[Exception]()
    about = memory(FISH, FISH, provider=provider)
    mine = FactmemMemory.of(about, user="alice", on_failure=failures.append)
    provider.is_broken = True
    server.answer(call("search_memory", queries=["editor"]), DONE)

    assert crew_of(server, "Which editor do I use?", mine).kickoff().raw
    assert UNREACHABLE in server.shown(0)
    assert UNREACHABLE in server.requests[1].messages[-1]["content"]
    assert len(failures) == 3


def test_the_model_reads_the_error_of_a_failing_save_tool(server: Server) -> None:
    about = memory(*[ChatModelError("down")] * 9)
    mine = FactmemMemory.of(about, user="alice", on_failure=lambda _: None)
    server.answer(call("save_to_memory", contents=["I use fish"]), DONE)

    crew_of(server, "Hello", mine).kickoff()
    assert "error" in str(server.requests[1].messages[-1]["content"]).lower()


def test_no_checkpoint_holds_a_fact(server: Server) -> None:
    mine = FactmemMemory.of(memory(), user="alice")
    crew = crew_of(server, "Which editor do I use?", mine, agent=agent_of(server, memory=mine))

    written = crew.model_dump_json(exclude={"execution_context"})
    assert "vim" not in written
    assert json.loads(written)["agents"][0]["memory"] is None


def test_a_task_becomes_facts_by_one_call_to_the_memorys_model(server: Server) -> None:
    reports: list[Any] = []
    about = memory(found_fact("I use fish", "shell", "fish"))
    mine = FactmemMemory.of(about, user="alice", on_report=reports.append)
    server.answer(DONE)

    crew_of(server, "I use fish. Which editor do I use?", mine).kickoff()
    assert anyio.run(known_values, about)["shell"] == "fish"
    (saved,) = reports[0].saved
    assert saved.fact.source.kind is SourceKind.ASSISTANT
    assert len(server.requests) == 1


def test_copies_of_crews_and_agents_keep_the_memory(server: Server) -> None:
    mine = FactmemMemory.of(memory(), user="alice")
    own = agent_of(server, memory=mine)
    server.answer(DONE, DONE, DONE, DONE)

    crew_of(server, "Which editor for {who}?", mine).kickoff_for_each([{"who": "a"}, {"who": "b"}])
    copied = crew_of(server, "Which editor?", None, agent=own).copy()
    assert copied.agents[0].memory is mine
    copied.kickoff()
    crew_of(server, "Which editor?", mine).copy().kickoff()
    assert ["vim" in server.shown(n) for n in range(4)] == [True] * 4


async def test_async_kickoffs(server: Server) -> None:
    mine = FactmemMemory.of(await vim_memory(), user="alice")
    server.answer(DONE, DONE)

    await crew_of(server, "Which editor?", mine).kickoff_async()
    await crew_of(server, "Which editor?", mine).akickoff()
    assert ["vim" in server.shown(n) for n in range(2)] == [True, True]


def test_an_agent_alone(server: Server) -> None:
    about = memory(FISH)
    server.answer(DONE)

    agent_of(server, memory=FactmemMemory.of(about, user="alice")).kickoff(
        "Which editor? I use fish"
    )
    assert "vim" in server.shown(0)
    mine = FactmemMemory.of(about, user="alice")
    mine.drain_writes()


def test_a_flow_recalls_and_remembers(server: Server) -> None:
    about = memory(FISH)

    class Desk(Flow[Any]):
        @start()
        def begin(self) -> list[str]:
            self.remember("I use fish")
            return [match.record.content for match in self.recall("which editor, which shell")]

    said = str(Desk(memory=FactmemMemory.of(about, user="alice")).kickoff())
    assert "vim" in said
    assert "fish" in said


def review_flow(server: Server, mine: Any, feedback: str) -> Any:
    """A flow whose draft is reviewed by a person who answers `feedback`."""

    class Human:
        def request_feedback(self, context: Any, flow: Any) -> str:
            drafts.append(context.method_output)
            return feedback

    drafts: list[str] = []

    class Writer(Flow[Any]):
        @start()
        @human_feedback(message="Review:", llm=model(server), learn=True, provider=Human())
        def draft(self) -> str:
            return "A text about tea"

    Writer(memory=mine).kickoff()
    return drafts


def test_lessons_from_feedback_are_recalled_before_the_next_task(server: Server) -> None:
    about = memory()
    mine = FactmemMemory.of(about, user="alice")
    server.answer(says('{"lessons": ["Always cite sources."]}'))
    assert review_flow(server, mine, "Please cite sources") == ["A text about tea"]

    (lesson,) = mine.recall("human feedback lessons for draft: tea", source="hitl")
    placed: Any = anyio.run(about.of("alice").contents.get, lesson.record.id)
    assert placed.place.subject.entity == ALICE.entity
    assert placed.fact.values == ("Always cite sources.",)
    assert placed.fact.source.kind is SourceKind.ASSISTANT
    assert placed.fact.source.conversation == "hitl"

    server.answer(
        says('{"improved_output": "A text about tea [1]"}'), says('{"lessons": []}'), DONE
    )
    assert review_flow(server, mine, "good") == ["A text about tea [1]"]
    assert "Always cite sources." in server.shown(1)
    crew_of(server, "Write, and cite sources, a text", mine).kickoff()
    assert "Always cite sources." in server.shown()
    bobs = FactmemMemory.of(about, user="bob")
    assert bobs.recall("human feedback lessons for draft: tea", source="hitl") == []


def test_lessons_need_no_model_and_all_are_found() -> None:
    mine = FactmemMemory.of(memory(concepts=[lesson_concept()]), user="alice")
    mine.remember_many(["Cite sources.", " ", "Short titles."], source="hitl")
    mine.remember("Cite sources.", source="hitl")

    lessons = mine.recall("titles", source="hitl")
    assert [match.record.content.rpartition(": ")[2] for match in lessons] == [
        '"Short titles."',
        '"Cite sources."',
    ]
    assert len(mine.recall("titles", source="hitl", limit=1)) == 1
    assert mine.forget(record_ids=[lessons[0].record.id]) == 1
    assert len(mine.recall("titles", source="hitl")) == 1


def test_records_are_listed_updated_and_erased() -> None:
    about = memory()
    mine = FactmemMemory.of(about, user="alice")
    mine.remember("Cite sources.", source="hitl")
    editor = next(each for each in mine.list_records() if each.categories == ["editor"])

    assert mine.update(editor.id, "emacs", importance=0.9).importance == 0.9
    assert anyio.run(known_values, about)["editor"] == "emacs"
    assert mine.list_categories() == {"editor": 1, "lessons-hitl": 1}
    assert mine.info().record_count == 2
    assert mine.info().categories == ["editor", "lessons-hitl"]
    assert mine.list_scopes() == []
    assert mine.tree() == "/ (2 records)"
    with pytest.raises(ValueError, match="No current fact"):
        mine.update("nothing", "x")
    with pytest.raises(ValueError, match="condition"):
        mine.forget()
    assert mine.forget(categories=["editor"]) == 1
    FactmemMemory.of(about, user="bob").reset_all()
    assert len(mine.list_records()) == 1
    mine.reset()
    assert mine.list_records() == []


def contents(found: Iterable[Any]) -> list[str]:
    return sorted(getattr(each, "record", each).content for each in found)


def test_paths_are_kept_apart() -> None:
    about = memory(FISH)
    mine = FactmemMemory.of(about, user="alice")
    api = mine.scope("/team/api")
    assert api.remember("I use fish").scope == "/team/api"
    mine.remember("Ship on Friday", scope="/team", categories=["plan"], importance=0.9)
    mine.remember("Deploy by hand", scope="/teams", categories=["plan", "ops"])

    assert anyio.run(known_values, about) == {"editor": "vim"}
    assert contents(api.recall("shell plan editor")) == ['shell: "fish"']
    assert contents(mine.list_records("/team")) == ["Ship on Friday", 'shell: "fish"']
    assert len(mine.list_records()) == 4
    assert contents(mine.recall("ship deploy", categories=["plan"])) == [
        "Deploy by hand",
        "Ship on Friday",
    ]
    assert contents(mine.slice(["/team/api", "/teams"]).recall("deploy fish")) == [
        "Deploy by hand",
        'shell: "fish"',
    ]
    assert (mine.list_scopes(), mine.list_scopes("/team")) == (["/team", "/teams"], ["/team/api"])
    assert mine.list_categories("/") == {"editor": 1, "ops": 1, "plan": 2, "shell": 1}
    assert mine.info("/teams").categories == ["ops", "plan"]
    assert mine.tree().splitlines()[:2] == ["/ (4 records)", "  /team (2 records)"]
    assert mine.scope("/team").forget() == 2
    mine.reset("/teams")
    assert contents(mine.list_records()) == ['The editor that the user prefers: "vim"']


def test_paths_of_others_are_out_of_reach() -> None:
    """The same path of another user, and of a memory with another scope, is another place."""
    store = InMemoryProvider()
    desk = MemoryScopesProfile(agent="desk")

    def of(user: str, scopes: MemoryScopesProfile = desk, **options: Any) -> FactmemMemory:
        about = AgentMemory(store, subjects=[USER], scopes=scopes)
        return FactmemMemory.of(about, user=user, **options)

    of("alice").remember("Ship on Friday", scope="/team")
    for other in (of("bob"), of("alice", MemoryScopesProfile(agent="till"))):
        assert other.recall("ship", scope="/team") == other.list_records() == []
        assert other.forget(scope="/team") == 0
        other.reset()
    bounded = AgentMemory(store, subjects=[USER], scopes=desk).of("alice")
    inside = FactmemMemory.of(bounded.view(scopes=[MemoryScope.Agent("desk")]))
    assert inside.list_records("/team") == []
    with pytest.raises(MemoryAccessError):
        inside.remember("Ship on Monday", scope="/team")
    rooted = of("alice", root_scope="/team")
    assert contents(rooted.list_records()) == ["Ship on Friday"]
    assert contents(of("alice").list_records()) == ["Ship on Friday"]


def test_the_categories_of_a_note_change_and_its_path_does_not() -> None:
    """CrewAI's `update` takes both; a change that is ignored looks like one that was made."""
    mine = FactmemMemory.of(memory(), user="alice")
    note = mine.remember("Tea at four", scope="/team", categories=["times"], metadata={"by": "x"})
    assert note

    assert mine.update(note.id, categories=["tea", "rules"]).categories == ["tea", "rules"]
    assert mine.update(note.id, scope="/team", importance=0.9).metadata == {"by": "x"}
    assert contents(mine.recall("tea", categories=["rules"])) == ["Tea at four"]
    assert mine.recall("tea", categories=["times"]) == []
    assert mine.update(note.id, metadata={"by": "y"}).categories == ["tea", "rules"]
    with pytest.raises(ValueError, match="keeps its path"):
        mine.update(note.id, scope="/other")


def test_a_private_note_is_for_its_source() -> None:
    mine = FactmemMemory.of(memory(FISH), user="alice")
    record = mine.remember("The door code is 12", source="guard", private=True)
    assert record
    mine.update(record.id, metadata={"checked": True})

    assert "The door code is 12" not in contents(mine.recall("door code"))
    assert "The door code is 12" not in contents(mine.recall("door code", source="other"))
    assert "The door code is 12" in contents(mine.recall("door code", source="guard"))
    assert "The door code is 12" in contents(mine.recall("door code", include_private=True))
    mine.remember("The spare key is red", private=True)
    assert "The spare key is red" not in contents(mine.recall("spare key"))
    assert "The spare key is red" in contents(mine.recall("spare key", include_private=True))
    assert mine.list_records()[0].private
    assert mine.list_scopes() == []


@pytest.mark.parametrize("path", [None, "/team"])
def test_private_notes_are_in_no_prompt_and_hide_no_shared_one(path: str | None) -> None:
    """A dozen that match better come before it in the search, and other adapters know no source."""
    about = memory()
    mine = FactmemMemory.of(about, user="alice")
    mine.remember("The API limit is 1000", categories=["api"], scope=path)
    for number in range(12):
        mine.remember(f"Secret API limit {number}", source="other", scope=path, private=True)

    assert contents(mine.recall("API limit", limit=10)) == ["The API limit is 1000"]
    found = contents(mine.recall("API limit", source="other", limit=20))
    assert len(found) == 13
    view = about.of("alice")
    assert "Secret" not in anyio.run(view.text) + anyio.run(view.text, "API limit")
    if path:
        assert mine.list_scopes() == [path]
    assert mine.forget(scope=path) if path else mine.forget(categories=["api"])
    mine.reset()
    assert mine.list_records() == []


def test_each_category_of_a_note_counts() -> None:
    """To search, list and forget; and only the notes that have it."""
    mine = FactmemMemory.of(memory(), user="alice")
    mine.remember("Tea for all teams", categories=["decisions", "teams", "tea"])
    mine.remember("Coffee for the decisions", categories=["decisions"])
    for category in ("teams", "tea"):
        assert contents(mine.recall("decisions teams", categories=[category])) == [
            "Tea for all teams"
        ]
    assert mine.recall("decisions teams", categories=["none"]) == []
    assert mine.list_categories()["tea"] == 1
    assert mine.forget(categories=["tea", "none"]) == 1
    assert contents(mine.recall("decisions", categories=["decisions"])) == [
        "Coffee for the decisions"
    ]


@pytest.mark.parametrize("is_background", [False, True])
def test_a_text_whose_detection_fails_is_learnt_later(is_background: bool) -> None:
    """CrewAI's own memory keeps the raw text; here its conversation stays due."""
    failures: list[Exception] = []
    down = ChatModelError("down")
    about = memory(down, FISH)
    mine = FactmemMemory.of(about, user="alice", on_failure=failures.append)
    if is_background:
        mine.remember_many(["I use fish"], agent_role="Writer")
        mine.drain_writes()
        assert len(failures) == 1
    else:
        with pytest.raises(ChatModelError):
            mine.remember("I use fish")
    assert len(mine.list_records()) == 1

    done = anyio.run(about.conversations.learn)

    assert done.learnt == 1
    (learnt,) = [each for each in anyio.run(about.of("alice").contents.records) if each.fact.source]
    assert learnt.fact.source
    assert learnt.fact.source.kind is SourceKind.ASSISTANT


def test_queries_and_saves_have_their_events_and_reasons() -> None:
    """Listeners of CrewAI see what happens, and that something failed."""
    seen: list[Any] = []
    kinds = (
        MemoryQueryStartedEvent,
        MemoryQueryCompletedEvent,
        MemoryQueryFailedEvent,
        MemorySaveStartedEvent,
        MemorySaveCompletedEvent,
        MemorySaveFailedEvent,
    )
    with crewai_event_bus.scoped_handlers():
        for kind in kinds:
            crewai_event_bus.on(kind)(lambda _, event: seen.append(event))
        mine = FactmemMemory.of(memory(), user="alice")
        mine.remember("The office closes at six", importance=0.9, agent_role="Desk clerk")
        (match,) = mine.recall("When does the office close?", limit=1)
        broken = FactmemMemory.of(broken_memory(), user="alice", on_failure=lambda _: None)
        broken.recall("office")
        with pytest.raises(ChatModelError):
            FactmemMemory.of(memory(ChatModelError("Secret word")), user="alice").remember("x")
        crewai_event_bus.flush()

    assert {type(event) for event in seen} == set(kinds)
    assert match.match_reasons == ["lexical", "recency", "importance"]
    assert [event.error for event in seen if hasattr(event, "error")] == [
        "StorageError",
        "ChatModelError",
    ]
    (record,) = [each for each in anyio.run(mine_records, mine) if "office" in each.fact.text]
    assert record.fact.actor == "Desk clerk"


async def mine_records(mine: FactmemMemory) -> Any:
    return await mine._view.contents.records()


def broken_memory() -> AgentMemory:
    provider = BreakableProvider()
    provider.is_broken = True
    return AgentMemory(provider, scopes=MemoryScopesProfile(agent="desk"), subjects=[USER])


def test_a_memory_is_made_with_of() -> None:
    with pytest.raises(TypeError, match=r"FactmemMemory\.of"):
        FactmemMemory()


def test_a_memory_is_an_attribute_of_a_flow() -> None:
    mine = FactmemMemory.of(memory(), user="alice")

    class Desk(Flow[Any]):
        memory = mine

    assert Desk().memory is mine


def test_read_only_and_without_a_model() -> None:
    read_only = FactmemMemory.of(memory(FISH), user="alice", read_only=True)
    assert read_only.remember("I use fish") is None
    read_only.remember_many(["Cite."], source="hitl")
    assert len(read_only.list_records()) == 1

    bare = FactmemMemory.of(memory(), user="alice")
    assert bare.extract_memories("I use fish") == []
    record = bare.remember("I use\nfish")
    assert record
    assert record.content == "I use\\nfish"  # it cannot end its line in a prompt


def test_a_memory_without_entities() -> None:
    plain = AgentMemory(BreakableProvider(), scopes=MemoryScopesProfile(agent="desk"))
    mine = FactmemMemory.of(plain)
    mine.remember("Cite.", source="hitl")

    assert isinstance(mine, Memory)
    assert len(mine.recall("x", source="hitl")) == 1


async def test_records_of_a_memory_are_imported_once(tmp_path: Path) -> None:
    """Rows of CrewAI's storage: updated in place, deleted, and of two categories."""
    table = LanceDBStorage(path=tmp_path / "memory", vector_dim=4)
    texts = {"r1": "Lives in Busan", "r2": "Prefers Kotlin to Java", "r3": "Gone"}
    when = datetime(2026, 3, 1, 9, 30, tzinfo=UTC)
    records = {
        each: MemoryRecord(
            id=each,
            content=text,
            scope="/home/alice",
            categories=["notes"],
            metadata={"k": 1},
            importance=0.8,
            created_at=when,
            embedding=[0.1, 0.2, 0.3, 0.4],
        )
        for each, text in texts.items()
    }
    table.save([*records.values()])
    table.update(records["r2"].model_copy(update={"content": "Prefers Rust to Java"}))
    table.delete(record_ids=["r3"])
    store, app = InMemoryProvider(), MemoryScope.Product("my-app")

    for new in (2, 0):
        dumped = [each.model_dump(mode="json") for each in table.list_records()]
        report = await import_crewai(dumped, store, scope=app, subject=USER, user_field="scope")
        assert (report.new, report.problems) == (new, ())

    facts = await store.load_all(USER.of("alice"), app)
    assert {fact.id: fact.values for fact in facts} == {
        "r1": ("Lives in Busan",),
        "r2": ("Prefers Rust to Java",),
    }
    assert {(fact.timestamp, fact.importance, fact.metadata["k"]) for fact in facts} == {
        (when, 0.8, 1)
    }


class Host(AdapterHost):
    """A crew for each run, as its memory belongs to one user."""

    def __init__(self, server: Server, memory: AgentMemory, options: dict[str, Any]) -> None:
        self.server, self.memory, self.options = server, memory, options
        self.outputs: list[Any] = []

    async def say(self, user: str, text: str) -> str:
        self.server.answer(DONE)
        marked = f"{text} ({user})"
        mine = FactmemMemory.of(self.memory, user=user, **self.options)
        crew = crew_of(self.server, marked, mine)
        self.outputs.append(await anyio.to_thread.run_sync(crew.kickoff))
        bodies = [json.dumps(request.body) for request in self.server.requests]
        return [body for body in bodies if marked in body][-1]


class TestContract(AdapterContract):
    keeps = False

    @pytest.fixture(autouse=True)
    def _server(self, server: Server) -> None:
        self.server = server

    async def new_host(self, memory: AgentMemory, **options: Any) -> Host:
        options.pop("auto_detect", None)  # a memory with a chat model detects
        return Host(self.server, memory, options)
