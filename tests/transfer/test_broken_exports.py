"""Exports as people have them, each with one broken part: the rest is imported.

Each form was built by hand after the public structure of its program.
"""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from typer.testing import CliRunner

from factmem._cli.application import app
from tests.tables import table

ONE, TWO = "I am vegan", "I live in Busan"
AT, EARLY = "2026-01-01T00:00:00Z", "0001-01-01T00:00:00+09:00"


def chatgpt(*bad: Any, current: Any = "c", more: Any = None, **nodes: Any) -> dict[str, Any]:
    """Return a chat of ONE, the broken messages and TWO, each the parent of the next."""

    def node(name: str, parent: str | None, message: Any) -> dict[str, Any]:
        return {"id": name, "parent": parent, "children": [], "message": message}

    tree = {"root": node("root", None, None), "a": node("a", "root", gpt("a", ONE))}
    last = "a"
    for number, message in enumerate(bad):
        last, before = f"b{number}", last
        tree[last] = node(last, before, message)
    tree["c"] = node("c", last, gpt("c", TWO))
    tree |= nodes
    return {
        "id": "1",
        "create_time": 1.7e9,
        "mapping": tree,
        "current_node": current,
        **(more or {}),
    }


def gpt(name: str, *parts: Any, **fields: Any) -> dict[str, Any]:
    content = {"content_type": "text", "parts": [*parts]}
    said = {"author": {"role": "user"}, "create_time": 1.7e9, "content": content, "metadata": {}}
    return {"id": name, "recipient": "all", **said, **fields}


def claude(*bad: Any, **more: Any) -> dict[str, Any]:
    messages = [human("a", ONE), *bad, human("c", TWO)]
    return {"uuid": "2", "name": "Me", "created_at": AT, "chat_messages": messages, **more}


def human(name: str, text: Any, **fields: Any) -> dict[str, Any]:
    content = [{"type": "text", "text": text}]
    said = {"sender": "human", "text": text, "content": content, "created_at": AT}
    return {"uuid": name, **said, **fields}


def mem0(name: str, text: Any, **fields: Any) -> dict[str, Any]:
    return {"id": name, "memory": text, "user_id": "alice", "created_at": AT, **fields}


def crew(name: str, text: Any, **fields: Any) -> dict[str, Any]:
    return {"id": name, "content": text, "created_at": AT, "categories": [], **fields}


def edge(name: str, text: Any, **fields: Any) -> dict[str, Any]:
    return {
        "uuid": name,
        "fact": text,
        "name": "SAID",
        "group_id": "alice",
        "created_at": AT,
        **fields,
    }


def entity(name: Any, *observations: Any) -> dict[str, Any]:
    return {"type": "entity", "name": name, "entityType": "person", "observations": [*observations]}


def lines(*records: Any) -> str:
    return "".join(f"{each if isinstance(each, str) else json.dumps(each)}\n" for each in records)


def koog(folder: Path, *facts: Any, name: str = "alice") -> Path:
    file = folder / "product" / "app" / "subject" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"said": [*facts]}))
    return folder


def saved(value: Any, **fields: Any) -> dict[str, Any]:
    concept = {"keyword": "said", "description": "d", "factType": "MULTIPLE"}
    return {"type": "x.SingleFact", "concept": concept, "timestamp": 1, "value": value, **fields}


def archive(folder: Path, **files: Any) -> Path:
    with ZipFile(folder / "export.zip", "w") as made:
        for name, content in files.items():
            made.writestr(f"conversations-{name[1:]}.json", json.dumps(content))
    return folder / "export.zip"


def unpacked(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        (folder / f"conversations-{name[1:]}.json").write_text(text)
    return folder


BAD_NODE = {"id": "b", "parent": "gone", "message": gpt("b", "Between")}
CUT = json.dumps([chatgpt(), chatgpt(more={"id": "9"})])[:-40]

Form = tuple[str, Any, int]
CHATS: list[Form] = [
    ("content null", chatgpt(gpt("b", content=None)), 1),
    ("author null", chatgpt(gpt("b", "x", author=None)), 1),
    ("role null", chatgpt(gpt("b", "x", author={"role": None})), 1),
    ("role unknown", chatgpt(gpt("b", "x", author={"role": "usr"})), 1),
    ("time is text", chatgpt(gpt("b", "x", create_time=AT)), 0),
    ("time is not one", chatgpt(gpt("b", "x", create_time="soon")), 1),
    ("time null", chatgpt(gpt("b", "x", create_time=None)), 0),
    ("time of the chat null", chatgpt(more={"create_time": None}), 0),
    ("part null", chatgpt(gpt("b", None, "x")), 0),
    ("parts null", chatgpt(gpt("b", content={"content_type": "text", "parts": None})), 1),
    ("parts a string", chatgpt(gpt("b", content={"content_type": "text", "parts": "x"})), 0),
    ("metadata a list", chatgpt(gpt("b", "x", metadata=[])), 0),
    ("recipient null", chatgpt(gpt("b", "x", recipient=None)), 0),
    ("message a string", chatgpt("x"), 1),
    ("node null", chatgpt(b9=None), 1),
    ("current node gone", chatgpt(current="gone"), 1),
    ("current node null", chatgpt(current=None), 0),
    ("current node a list", chatgpt(current=["c"]), 1),
    ("parent gone", chatgpt(gpt("b", "x"), b0=BAD_NODE), 1),
    ("parent null", chatgpt(gpt("b", "x"), b0={**BAD_NODE, "parent": None}), 1),
    ("parent a number", chatgpt(gpt("b", "x"), b0={**BAD_NODE, "parent": 7}), 1),
    ("parent in a circle", chatgpt(gpt("b", "x"), b0={**BAD_NODE, "parent": "c"}), 1),
    ("id of a message null", chatgpt(gpt("b", "x", id=None)), 0),
    ("one id twice", chatgpt(gpt("c", "x")), 0),
    ("id of the chat null", chatgpt(more={"id": None}), 0),
    ("mapping null", [{"id": "9", "mapping": None}, chatgpt()], 1),
    ("a chat null", [None, chatgpt()], 1),
    ("a chat empty", [{}, chatgpt()], 1),
    ("author a number", [{"id": "9", "mapping": {"a": {"message": {"author": 7}}}}, chatgpt()], 1),
    ("claude: text null", claude(human("b", None)), 0),
    ("claude: text and content null", claude(human("b", None, content=None)), 1),
    ("claude: content a string", claude(human("b", "x", content="x")), 0),
    ("claude: part null", claude(human("b", "x", content=[None])), 0),
    ("claude: sender null", claude(human("b", "x", sender=None)), 1),
    ("claude: no time", claude(human("b", "x", created_at=None)), 0),
    ("claude: time is not one", claude(human("b", "x", created_at="soon")), 1),
    ("claude: message null", claude(None), 1),
    ("claude: no id", claude(human("b", "x", uuid=None)), 0),
    ("claude: one id twice", claude(human("a", "x")), 0),
    ("claude: parent gone", claude(human("b", "x", parent_message_uuid="gone")), 2),
    ("claude: messages null", [{"uuid": "9", "chat_messages": None}, claude()], 1),
    ("claude: no uuid", claude(uuid=None), 0),
    ("claude: uuid blank", [claude(uuid="\n"), claude()], 1),
    ("claude: sender unknown", claude(human("b", "x", sender="robot")), 1),
    ("claude: a time of the year 0", claude(human("b", "x", created_at=EARLY)), 1),
    ("claude: one chat", json.dumps(claude(), indent=1), 0),
    ("claude: a chat a line", lines(claude(), claude(None, uuid="3")), 1),
    ("cut off", CUT, 1),
    ("a byte that is not UTF-8", json.dumps([chatgpt(gpt("b", "x#"))]).replace("#", "\udcff"), 1),
    ("UTF-16", json.dumps([chatgpt()]).encode("utf-16"), 0),
    ("archive, one file damaged", lambda it: archive(it, _0=[chatgpt()], _1="no list"), 1),
    ("folder, one file cut off", lambda it: unpacked(it, _0=json.dumps([chatgpt()]), _1="[{"), 1),
]
MEMORIES: list[Form] = [
    ("mem0: text null", lines(mem0("1", ONE), mem0("2", None), mem0("3", TWO)), 1),
    ("mem0: no time", lines(mem0("1", ONE), mem0("2", "x", created_at=None), mem0("3", TWO)), 1),
    ("mem0: user a list", lines(mem0("1", ONE), mem0("2", "x", user_id=["a"]), mem0("3", TWO)), 1),
    (
        "mem0: category a string",
        [mem0("1", ONE), mem0("2", "x", categories="y"), mem0("3", TWO)],
        0,
    ),
    ("mem0: a line that is no JSON", lines("{no", mem0("1", ONE), mem0("3", TWO)), 1),
    (
        "mem0: indented, wrapped",
        json.dumps({"results": [mem0("1", ONE), 7, mem0("3", TWO)]}, indent=2),
        1,
    ),
    (
        "mem0: a page of the platform",
        json.dumps({"count": 2, "next": None, "results": [mem0("1", ONE), None, mem0("3", TWO)]}),
        1,
    ),
    (
        "mem0: relations beside them",
        {"results": [mem0("1", ONE), mem0("3", TWO)], "relations": [{}]},
        1,
    ),
    (
        "mem0: a list with a broken line",
        f"[\n {json.dumps(mem0('1', ONE))},\n {{no}},\n {json.dumps(mem0('3', TWO))}\n]",
        1,
    ),
    ("mem0: list cut off", json.dumps([mem0("1", ONE), mem0("3", TWO), mem0("4", "x")])[:-9], 1),
    ("crewai: content null", [crew("1", ONE), crew("2", None), crew("3", TWO)], 1),
    (
        "crewai: metadata a string",
        [crew("1", ONE), crew("2", "x", metadata="y"), crew("3", TWO)],
        0,
    ),
    (
        "graphiti: episodes a number",
        [edge("1", ONE), edge("2", "x", episodes=7), edge("3", TWO)],
        1,
    ),
    ("graphiti: fact null", [edge("1", ONE), edge("2", None), edge("3", TWO)], 1),
    ("mcp: observation null", lines(entity("me", ONE, None, TWO)), 1),
    (
        "mcp: observations null",
        lines(entity("me", ONE, TWO), {**entity("it"), "observations": None}),
        0,
    ),
    ("mcp: name null", lines(entity(None, "x"), entity("me", ONE, TWO)), 1),
    (
        "mcp: relation without an end",
        lines(entity("me", ONE, TWO), {"type": "relation", "from": "me", "relationType": "x"}),
        1,
    ),
    ("mcp: read_graph", {"entities": [entity("me", ONE, TWO), None], "relations": []}, 1),
    ("koog: value null", lambda it: koog(it, saved(ONE), saved(None), saved(TWO)), 1),
    ("koog: a file that is no JSON", lambda it: broken(koog(it, saved(ONE), saved(TWO))), 1),
]


def broken(folder: Path) -> Path:
    (folder / "product" / "app" / "subject" / "bob").write_text("{")
    return folder


def place_of(title: str, content: Any) -> list[str]:
    if title.startswith("koog"):
        return []
    has_users = title.startswith(("mem0", "graphiti"))
    return ["--place", "product/app/user" if has_users else "product/app/user/alice"]


def file_of(content: Any, folder: Path) -> Path:
    """Write an export, and return its path, which does not name its format."""
    folder.mkdir()
    if callable(content):
        make: Callable[[Path], Path] = content
        return make(folder)
    if not isinstance(content, str | bytes):
        is_chat = isinstance(content, dict) and {"mapping", "chat_messages"} & content.keys()
        content = json.dumps([content] if is_chat else content)
    if isinstance(content, str):
        content = content.encode(errors="surrogateescape")
    (folder / "export.json").write_bytes(content)
    return folder / "export.json"


def run(*command: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, [*command])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.stdout


@table(
    ("title", "content", "failed"),
    [*CHATS, *MEMORIES],
    ids=[title for title, *_ in [*CHATS, *MEMORIES]],
)
def test_the_rest_of_a_broken_export_is_imported(
    tmp_path: Path, title: str, content: Any, failed: int
) -> None:
    """What is broken is counted and named, and the exit code says so."""
    name = title.replace(" ", "-").replace(":", "")
    store, bundle = ["--store", str(tmp_path / name)], tmp_path / f"{name}.jsonl"
    file = file_of(content, tmp_path / f"{name}-files")
    code, printed = run(*store, "import", str(file), *place_of(title, content), "--json")
    report = json.loads(printed)

    assert (code, report["failed"], len(report["problems"])) == (int(failed > 0), failed, failed)
    run(*store, "export", str(bundle))
    assert [text in bundle.read_text() for text in (ONE, TWO)] == [True, True]
    assert '"None"' not in bundle.read_text()


def test_a_pipe_is_read_once(tmp_path: Path) -> None:
    """To detect its format consumed the first block."""
    for number, count in enumerate((3, 300)):
        pipe, store = tmp_path / f"pipe{number}", ["--store", str(tmp_path / f"m{number}")]
        os.mkfifo(pipe)
        text = lines(*(mem0(f"m{n}", f"Fact {n}") for n in range(count)))
        writer = threading.Thread(target=pipe.write_text, args=[text])
        writer.start()
        code, printed = run(*store, "import", str(pipe), "--place", "product/app/user", "--json")
        writer.join()

        assert (code, json.loads(printed)["new"]) == (0, count)


@pytest.mark.storm
def test_a_hostile_file_is_imported_whole_or_not_at_all(tmp_path: Path, thorough: bool) -> None:
    """Nests of 300 levels and 1e400 were noticed by the store, after earlier places."""
    count = 50 if thorough else 20
    command = [sys.executable, "-m", "tests.transfer.hostile_files", str(count), "7"]
    done = subprocess.run([*command, str(tmp_path)], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    printed = [json.loads(line) for line in done.stdout.splitlines()]
    results, used = printed[::2], printed[1::2]
    assert (len(results), len(used)) == (count, count)
    for (name, code, problems, places, is_expected), (seconds, megabytes) in zip(
        results, used, strict=True
    ):
        assert is_expected, name
        if name in {"m.jsonl", "koog"} and places:  # one bad record drops no other, and is named
            assert bool(code) == bool(problems), name
        else:
            assert places == 0 or code == 0, name
        assert code or name not in {"b.jsonl", "r.jsonl", "t.csv"} or (problems, places) == (0, 2)
        assert seconds < 30, name
        assert megabytes < 200, name
