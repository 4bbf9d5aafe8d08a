"""The HTTP service of the examples: users, conditions, repeated appends, events, TypeScript."""

import json
import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

pytest.importorskip("starlette")
pytest.importorskip("jwt")

from starlette.testclient import TestClient

from factmem import AgentMemory, InMemoryProvider, LocalFileMemoryProvider, MemoryScopesProfile
from factmem.errors import StorageError
from tests.storms.http_service import example
from tests.world import AGE, USER

FOLDER = Path(__file__).parent.parent / "examples" / "http_service"
PACKAGES = Path(__file__).parent.parent / ".frameworks" / "http-service"
"""`npm install --prefix` of the example's package.json."""


http = example()
TOKENS = http.Tokens(b"x" * 32)


def memory(provider: Any = None) -> AgentMemory:
    scopes = MemoryScopesProfile(product="desk")
    return AgentMemory(provider or InMemoryProvider(), scopes=scopes, subjects=[USER])


def head(*entity: str, **options: Any) -> dict[str, str]:
    return {"Authorization": f"Bearer {TOKENS.mint(*entity, **options)}"}


@pytest.fixture
def client() -> Iterator[TestClient]:
    with TestClient(http.service(memory(), TOKENS, [AGE])) as made:
        yield made


ALICE, BOB = head("alice", role="erase"), head("bob")
FACTS = "/v1/facts"


def test_only_a_valid_token_names_a_user(client: TestClient) -> None:
    """A missing, forged or expired one is 401, a role that is too small 403."""
    start, _, sign = ALICE["Authorization"].rpartition(".")
    forged = f"{start}.{sign[::-1]}"
    unsigned = ".".join([*ALICE["Authorization"].split(".")[:2], ""])
    others = f"Bearer {http.Tokens(b'y' * 32).mint('alice')}"
    headers = [{"Authorization": each} for each in (forged, unsigned, others, "Bearer x", "Basic")]
    for wrong in ({}, *headers, head("alice", hours=-1)):
        answer = client.get(FACTS, headers=wrong)
        assert answer.status_code == 401
        assert answer.headers["content-type"] == "application/problem+json"
    read = head("alice", role="read")
    assert client.get(FACTS, headers=read).status_code == 200
    saved = client.post(FACTS, headers=read, json={"concept": "x", "value": 1})
    assert (saved.status_code, saved.json()["title"]) == (403, "Forbidden")
    assert client.delete("/v1/me", headers=BOB).status_code == 403


def test_a_fact_is_saved_changed_and_forgotten_by_its_user(client: TestClient) -> None:
    """With ETags: a stale one is 412, a known one 304, that of another user 404."""
    made = client.post(FACTS, headers=ALICE, json={"concept": "home-city", "value": "Seoul"})
    fact, path = made.json(), f"{FACTS}/{made.json()['id']}"
    condition = ALICE | {"If-Match": made.headers["etag"]}
    assert (made.status_code, fact["values"]) == (201, ["Seoul"])
    assert client.get(path, headers=BOB).status_code == 404
    assert client.delete(path, headers=BOB).status_code == 404
    known = ALICE | {"If-None-Match": made.headers["etag"]}
    assert client.get(path, headers=known).status_code == 304

    changed = client.patch(path, headers=condition, json={"value": "Busan"})
    assert (changed.status_code, changed.json()["values"]) == (200, ["Busan"])
    stale = client.patch(path, headers=condition, json={"value": "Jeju"})
    assert (stale.status_code, stale.json()["title"]) == (412, "Changed meanwhile")
    assert client.delete(path, headers=condition).status_code == 412
    first = ALICE | {"If-None-Match": "*"}
    again = client.post(FACTS, headers=first, json={"concept": "home-city", "value": "Jeju"})
    assert again.status_code == 412

    found = client.get("/v1/recall", headers=ALICE, params={"question": "Which city?"}).json()
    assert "Busan" in found[0]["text"]
    assert "Busan" in client.get("/v1/prompt", headers=ALICE).json()
    assert client.get("/v1/prompt", headers=BOB).json() == ""
    versions = client.get(f"{path}/history", headers=ALICE).json()
    assert [each["values"] for each in versions] == [["Seoul"], ["Busan"]]
    newest = ALICE | {"If-Match": changed.headers["etag"]}
    assert client.delete(path, headers=newest).status_code == 204
    assert client.get(path, headers=ALICE).status_code == 404


def test_many_values_typed_values_pages_and_erasure(client: TestClient) -> None:
    """A declared concept has its type; the last page says so."""
    for number in range(3):
        body = {"concept": f"pets-{number}", "values": ["Miso", "Tofu"]}
        assert client.post(FACTS, headers=ALICE, json=body).status_code == 201
    assert (
        client.post(FACTS, headers=ALICE, json={"concept": "age", "value": 36}).status_code == 201
    )
    page = client.get(FACTS, headers=ALICE, params={"limit": 3}).json()
    last = client.get(FACTS, headers=ALICE, params={"limit": 3, "offset": 3}).json()
    assert (len(page["facts"]), page["total"], page["is_last"]) == (3, 4, False)
    assert (len(last["facts"]), last["is_last"]) == (1, True)
    assert len(client.get("/v1/export", headers=ALICE).json()["places"]) == 1
    assert client.delete("/v1/me", headers=ALICE).json() == ["product/desk user(alice)"]
    assert client.get(FACTS, headers=ALICE).json()["total"] == 0


WRONG: list[dict[str, Any]] = [
    {"concept": "x" * 300, "value": 1},
    {"concept": "", "value": 1},
    {"concept": "age", "value": "old"},
    {"concept": "x", "value": 1, "user": "bob"},
    {"value": 1},
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_bad_input_is_400_without_the_input(client: TestClient, number: int) -> None:
    """Names, types, unknown fields."""
    answer = client.post(FACTS, headers=ALICE, json=WRONG[number])
    assert (answer.status_code, answer.json()["status"]) == (400, 400)
    assert "old" not in answer.text
    for query in ("limit=0", "limit=x", "offset=-1"):
        assert client.get(f"{FACTS}?{query}", headers=ALICE).status_code == 400
    assert client.post(FACTS, headers=ALICE, content=b" " * 1_100_000).status_code == 413
    assert client.get("/v1/recall", headers=ALICE).status_code == 400


def test_a_repeated_append_stores_nothing(client: TestClient) -> None:
    chat, said = "/v1/conversations/c1/messages", {"id": "1", "role": "user", "content": "Hi"}
    for wanted in (1, 0):
        answer = client.post(chat, headers=ALICE, json=[said])
        assert (answer.status_code, len(answer.json())) == (201, wanted)
    (turn,) = client.get(chat, headers=ALICE).json()
    assert client.get(chat, headers=ALICE, params={"before": turn["number"]}).json() == []
    assert client.get("/v1/conversations", headers=ALICE).json() == ["c1"]
    assert client.get("/v1/conversations", headers=BOB).json() == []


def test_a_store_that_fails_is_503_and_a_mistake_500() -> None:
    class Broken(InMemoryProvider):
        error: Exception = StorageError("The disk refused")

        async def list_places(self, **_: Any) -> Any:
            raise self.error

        places = list_places

    store = Broken()
    app = http.service(memory(store), TOKENS)
    with TestClient(app, raise_server_exceptions=False) as made:
        assert made.get(FACTS, headers=ALICE).status_code == 503
        store.error = ZeroDivisionError()
        assert made.get(FACTS, headers=ALICE).status_code == 500


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """The service on a port, over a folder."""
    uvicorn = pytest.importorskip("uvicorn")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    app = http.service(memory(LocalFileMemoryProvider(tmp_path / "memory")), TOKENS)
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="error"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        assert thread.is_alive()
    yield f"http://127.0.0.1:{port}"
    server.should_exit = server.force_exit = True
    thread.join()


def test_events_are_those_of_the_user_and_continue(url: str) -> None:
    """Two streams have one watcher; a client that comes back misses nothing."""

    def save(user: dict[str, str], value: str) -> None:
        httpx.post(url + FACTS, headers=user, json={"concept": "home-city", "value": value})

    def read(lines: Iterator[str], count: int) -> list[tuple[str, Any]]:
        found: list[tuple[str, Any]] = []
        name = ""
        for line in lines:
            name = line.removeprefix("id: ") if line.startswith("id: ") else name
            if line.startswith("data: "):
                found.append((name, json.loads(line.removeprefix("data: "))["facts"][0]["values"]))
                if len(found) == count:
                    break
        return found

    stream = partial(httpx.stream, "GET", f"{url}/v1/changes", timeout=60)
    with stream(headers=ALICE) as mine, stream(headers=BOB) as others:
        lines, theirs = mine.iter_lines(), others.iter_lines()
        assert [next(lines), next(theirs)] == [": ready", ": ready"]
        save(ALICE, "Seoul")
        save(BOB, "Bonn")
        assert [values for _, values in read(theirs, 1)] == [["Bonn"]]
        ((last, values),) = read(lines, 1)
        assert values == ["Seoul"]
    save(ALICE, "Busan")
    with stream(headers=ALICE | {"Last-Event-ID": last}) as again:
        lines = again.iter_lines()
        ((_, values),) = read(lines, 1)
        save(ALICE, "Jeju")
        assert [values, read(lines, 1)[0][1]] == [["Busan"], ["Jeju"]]


def test_the_generated_typescript_client_runs(url: str, tmp_path: Path) -> None:
    """Strict types from the document of this service, and the program of the page."""
    tools = PACKAGES / "node_modules"
    if shutil.which("node") is None or not (tools / "openapi-fetch").exists():
        pytest.skip(
            f"needs Node.js: cp {FOLDER}/package.json {PACKAGES} && npm i --prefix {PACKAGES}"
        )
    for name in ("client.ts", "tsconfig.json", "package.json"):
        shutil.copy(FOLDER / name, tmp_path)
    (tmp_path / "node_modules").symlink_to(tools)
    (tmp_path / "openapi.json").write_text(httpx.get(f"{url}/openapi.json").text)
    tokens = [TOKENS.mint("alice"), TOKENS.mint("bob")]
    generate = json.loads((FOLDER / "package.json").read_text())["scripts"]["types"]
    env = {"PATH": f"{tools / '.bin'}:{os.environ['PATH']}"}
    printed = ""
    for command in ([*generate.split()], ["tsc", "-p", "."], ["node", "client.js", url, *tokens]):
        done = subprocess.run(
            command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        printed = done.stdout
    assert printed.split() == ["[", "'Busan'", "]", "412", "true", "0", "forgotten"]
