"""Documents: strings under paths, atomic changes, not in prompts, erased with the subject."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factmem import (
    AgentMemory,
    InMemoryProvider,
    LocalFileMemoryProvider,
    MemoryAccessError,
    MemoryScope,
    UnboundSubjectError,
)
from factmem.memory import MemoryDocuments
from tests.doubles import BareProvider
from tests.properties import examples
from tests.world import AGENT, ALICE, BOB, DEVICE, THEME, USER, memory_of, theme

NOTES = MemoryScope.Feature("notes")


@pytest.fixture
async def memory(tmp_path: Path) -> AsyncIterator[AgentMemory]:
    async with LocalFileMemoryProvider(tmp_path) as store:
        yield memory_of(store)


@pytest.fixture
def notes(memory: AgentMemory) -> MemoryDocuments:
    return memory.documents(NOTES)


async def test_infos_have_sizes_in_bytes_and_folders_filter(notes: MemoryDocuments) -> None:
    for path, text in (("/a.md", "é"), ("/x/b.md", "12"), ("/x/y/c.md", ""), ("/xy.md", "1")):
        await notes.write(path, text)

    assert [(info.path, info.size) for info in await notes.infos()] == [
        ("/a.md", 2),
        ("/x/b.md", 2),
        ("/x/y/c.md", 0),
        ("/xy.md", 1),
    ]
    assert [info.path for info in await notes.infos("/x")] == ["/x/b.md", "/x/y/c.md"]
    assert await notes.texts("/a.md") == {"/a.md": "é"}
    assert await notes.texts("/nothing") == {}


async def test_versions_are_kept(notes: MemoryDocuments) -> None:
    await notes.write("/a.md", "1")
    await notes.write("/a.md", "2")
    await notes.remove("/a.md")

    assert len(await notes.history("/a.md")) == 3
    assert await notes.history("/b.md") == []


async def test_paths_are_normalized_and_bad_ones_raise(notes: MemoryDocuments) -> None:
    await notes.write("//x/./a.md", "1")
    assert await notes.read("/x/a.md") == "1"
    await notes.write("/caf\u0065\u0301.md", "2")
    assert await notes.edit("/caf\u00e9.md", lambda text: text + "!") == "2!"
    for path in ("a.md", "", "/", "/../a", "/x/../../a", "/" + "a" * 200, "/a\x00b"):
        with pytest.raises(ValueError, match=r"path|absolute"):
            await notes.write(path, "")
    with pytest.raises(TypeError, match="path must be a str, not int"):
        await notes.read(7)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="text must be a str, not bytes"):
        await notes.write("/a.md", b"")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="changed must be a function"):
        await notes.edit("/x/a.md", "text")  # type: ignore[arg-type]


async def test_a_new_document_replaces_none(notes: MemoryDocuments) -> None:
    await notes.write("/b.md", "2")

    with pytest.raises(FileExistsError):
        await notes.write("/b.md", "", must_be_new=True)
    for missing in (notes.read("/c"), notes.remove("/c"), notes.edit("/c", str.upper)):
        with pytest.raises(FileNotFoundError, match="no such document"):
            await missing

    assert await notes.texts() == {"/b.md": "2"}


async def test_concurrent_edits_lose_nothing(memory: AgentMemory, tmp_path: Path) -> None:
    """They use two instances of the store, like two processes."""
    async with LocalFileMemoryProvider(tmp_path) as other:
        both = [memory.documents(NOTES), memory_of(other).documents(NOTES)]
        await both[0].write("/log.md", "")
        async with anyio.create_task_group() as tasks:
            for number in range(40):
                edit = lambda text, n=number: f"{text}{n}\n"
                tasks.start_soon(both[number % 2].edit, "/log.md", edit)

        lines = (await both[0].read("/log.md")).split()
    assert sorted(map(int, lines)) == list(range(40))


async def test_documents_are_in_no_prompt_recall_and_tool(memory: AgentMemory) -> None:
    notes = memory.documents(NOTES)
    await notes.write("/agent.md", "secret plan")
    await memory.store.save(theme("dark"), ALICE, AGENT)
    messages: list[dict[str, Any]] = []

    await memory.load_facts_to_agent(messages)
    tools = {tool.name: tool for tool in memory.tools(save=True)}

    assert "secret" not in str(messages)
    assert not list(await memory.recall("secret plan"))
    assert json.loads(await tools["memory_list_concepts"].call())["found"] == 1
    assert json.loads(await tools["memory_recall"].call("secret plan"))["found"] == 0


async def test_documents_belong_to_one_user_and_are_erased_with_that_user(
    memory: AgentMemory,
) -> None:
    both = memory_of(memory.provider, subjects=[USER])
    alice, bob = (both.view(subjects=[who]) for who in (ALICE, BOB))
    await alice.documents(NOTES).write("/a.md", "Alice's")
    await bob.documents(NOTES).write("/a.md", "Bob's")

    assert await bob.documents(NOTES).read("/a.md") == "Bob's"
    with pytest.raises(MemoryAccessError):
        await bob.documents(NOTES, ALICE).write("/a.md", "")
    with pytest.raises(FileNotFoundError):
        await bob.documents(NOTES, ALICE).read("/a.md")
    await alice.contents.reset(confirm=True)
    assert await alice.documents(NOTES).texts() == {}
    assert await bob.documents(NOTES).texts() == {"/a.md": "Bob's"}


async def test_wrong_scopes_and_subjects_raise() -> None:
    with pytest.raises(ValueError, match="must not be one of the memory's own scopes"):
        memory_of().documents(AGENT)
    with pytest.raises(ValueError, match="subject is required"):
        memory_of(subjects=[ALICE, DEVICE]).documents(NOTES)
    with pytest.raises(UnboundSubjectError):
        memory_of(subjects=[USER]).documents(NOTES)
    with pytest.raises(TypeError, match="FactStore"):
        memory_of(BareProvider()).documents(NOTES)
    assert THEME.keyword not in repr(memory_of().documents(NOTES))


PATHS = st.sampled_from(["/a", "/b", "/a/x", "/a/y", "/b/x", "/c/d/e"])
COMMANDS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), PATHS, st.text(max_size=3)),
        st.tuples(st.just("edit"), PATHS, st.text(max_size=3)),
        st.tuples(st.just("remove"), PATHS, st.none()),
        st.tuples(st.just("rename"), PATHS, PATHS),
    ),
    max_size=12,
)


@given(COMMANDS)
@settings(max_examples=examples(60))
def test_documents_behave_like_a_naive_model(commands: list[tuple[str, str, Any]]) -> None:
    """The model is a dict of paths; a refused change raises and changes nothing else."""

    async def compare() -> None:
        notes, model = memory_of(InMemoryProvider()).documents(NOTES), Model()
        for name, path, argument in commands:
            given_argument = (lambda text, a=argument: text + a) if name == "edit" else argument
            arguments = [path] if name == "remove" else [path, given_argument]
            expected = _outcome_of(lambda n=name, a=arguments: getattr(model, n)(*a))
            try:
                outcome: object = await getattr(notes, name)(*arguments)
            except OSError as exc:
                outcome = type(exc)
            assert outcome == expected
            assert await notes.texts() == model.files

    anyio.run(compare)


def _outcome_of(call: Any) -> object:
    try:
        return call()
    except OSError as exc:
        return type(exc)


class Model:
    """Documents in a dict."""

    def __init__(self) -> None:
        self.files: dict[str, str] = {}

    def below(self, path: str) -> list[str]:
        return [each for each in self.files if each == path or each.startswith(f"{path}/")]

    def check_free(self, path: str, *, may_exist: bool) -> None:
        if any(not (may_exist and each == path) for each in self.below(path)):
            raise FileExistsError
        if any(path.startswith(f"{each}/") for each in self.files):
            raise NotADirectoryError

    def write(self, path: str, text: str) -> None:
        self.check_free(path, may_exist=True)
        self.files[path] = text

    def edit(self, path: str, changed: Any) -> str:
        if path not in self.files:
            raise FileNotFoundError
        self.files[path] = changed(self.files[path])
        return self.files[path]

    def remove(self, path: str) -> int:
        gone = self.below(path)
        if not gone:
            raise FileNotFoundError
        for each in gone:
            del self.files[each]
        return len(gone)

    def rename(self, old: str, new: str) -> None:
        moved = self.below(old)
        if not moved:
            raise FileNotFoundError
        if new == old or new.startswith(f"{old}/"):
            raise FileExistsError
        self.check_free(new, may_exist=False)
        for each in moved:
            self.files[new + each[len(old) :]] = self.files.pop(each)


async def test_an_edit_does_not_read_the_history(
    memory: AgentMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The number of versions does not matter."""

    async def refused(*args: Any) -> None:
        raise AssertionError("the whole ledger was requested")

    notes = memory.documents(NOTES)
    await notes.write("/a.md", "first")
    monkeypatch.setattr(LocalFileMemoryProvider, "amend", refused)
    monkeypatch.setattr(LocalFileMemoryProvider, "entries", refused)
    assert await notes.edit("/a.md", str.upper) == "FIRST"
    await notes.rename("/a.md", "/b.md")
    assert await notes.remove("/b.md") == 1
