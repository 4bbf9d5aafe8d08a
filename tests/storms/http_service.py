"""The service of examples/http_service under load, killed and started again.

    python -m tests.storms.http_service               50 clients, 60 seconds

Two clients are one user. Each saves notes, repeats messages after a break, and adds one to a number
that both change, by its ETag; one follows the changes. All that was acknowledged must be there at
the end, once, and in the stream. The only error is 412.
"""

import argparse
import importlib.util
import json
import os
import signal
import socket
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
import httpx

from factmem import AgentMemory, LocalFileMemoryProvider, MemoryScopesProfile
from tests.world import USER

ROOT = Path(__file__).parent.parent.parent
SECRET = b"x" * 32
FACTS, CHAT, CHANGES = "/v1/facts", "/v1/conversations/c1/messages", "/v1/changes"


def example() -> Any:
    """Return the module of the example."""
    path = ROOT / "examples" / "http_service" / "service.py"
    spec = importlib.util.spec_from_file_location("http_service_example", path)
    assert spec
    assert spec.loader
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@dataclass
class Outcome:
    """The results of a run."""

    answers: Counter[int] = field(default_factory=Counter[int])
    unanswered: int = 0
    killed: int = 0
    events: int = 0
    errors: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        """Return True if nothing was lost and no answer was an error but 412."""
        return not (self.errors or self.lost)

    def __str__(self) -> str:
        first = next(iter([*self.errors, *self.lost]), "")
        return (
            f"answers {dict(self.answers)}, {self.unanswered} unanswered, {self.events} events; "
            f"killed {self.killed}; errors {len(self.errors)}, lost {len(self.lost)} {first}"
        )


class Client:
    """One of the two clients of a user, and what it was promised."""

    def __init__(self, name: str, token: str, url: str, outcome: Outcome) -> None:
        self.name, self.outcome = name, outcome
        self.http = httpx.AsyncClient(
            base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=60
        )
        self.notes: set[str] = set()
        self.added = self.perhaps = 0
        self.said: list[str] = []
        self.seen: set[str] = set()

    async def request(self, method: str, path: str, **options: Any) -> httpx.Response | None:
        """Return an answer; None if the server ended before it answered."""
        try:
            answer = await self.http.request(method, path, **options)
        except httpx.TransportError:
            self.outcome.unanswered += 1
            await anyio.sleep(0.05)
            return None
        self.outcome.answers[answer.status_code] += 1
        if answer.status_code >= 400 and answer.status_code != 412:
            self.outcome.errors.append(f"{method} {path}: {answer.status_code} {answer.text}")
            return None
        return answer

    async def act(self, number: int) -> None:
        """Save a note, say something, and add one to the number of the user."""
        note = f"{self.name}-{number}"
        body: Any = {"concept": "notes", "values": [note]}
        if await self.request("POST", FACTS, json=body):
            self.notes.add(note)
        said = [{"id": note, "role": "user", "content": note}]
        while not await self.request("POST", CHAT, json=said):
            pass  # repeated, as the server was killed
        self.said.append(note)
        await self.add()

    async def add(self) -> None:
        """Add one to the number, if nobody was faster."""
        found = await self.request("GET", FACTS, params={"concept": "number"})
        if found is None:
            return
        facts = found.json()["facts"]
        if facts:
            (fact,) = facts
            done = await self.request(
                "PATCH",
                f"{FACTS}/{fact['id']}",
                headers={"If-Match": f'"{fact["etag"]}"'},
                json={"value": fact["values"][0] + 1},
            )
        else:
            first = {"If-None-Match": "*"}
            body = {"concept": "number", "value": 1}
            done = await self.request("POST", FACTS, headers=first, json=body)
        self.added += done is not None and done.status_code < 400
        self.perhaps += done is None

    async def follow(self) -> None:
        """Read the changes, and continue where a stream has ended."""
        last = ""
        while True:
            try:
                headers = {"Last-Event-ID": last} if last else {}
                async with self.http.stream("GET", CHANGES, headers=headers, timeout=60) as stream:
                    async for line in stream.aiter_lines():
                        if line.startswith("id: "):
                            last = line.removeprefix("id: ")
                        elif line.startswith("data: "):
                            self.outcome.events += 1
                            facts = json.loads(line.removeprefix("data: "))["facts"]
                            self.seen |= {str(v) for fact in facts for v in fact["values"]}
            except httpx.TransportError:
                await anyio.sleep(0.05)


async def _serving(folder: Path, port: int) -> Any:
    """Start the service and wait until it answers."""
    command = [sys.executable, "-m", "tests.storms.http_service", "--serve", str(folder), str(port)]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = await anyio.open_process(command, env=env, stdin=None, stdout=None, stderr=None)
    async with httpx.AsyncClient() as client:
        for _ in range(1200):
            try:
                await client.get(f"http://127.0.0.1:{port}/openapi.json")
            except httpx.TransportError:
                await anyio.sleep(0.05)
            else:
                return process
    raise TimeoutError("The service does not answer")


async def http_service(folder: Path, *, clients: int = 50, seconds: float = 60) -> Outcome:
    """Run the service under load, kill it every two seconds, and return what was found."""
    outcome, tokens = Outcome(), example().Tokens(SECRET)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    process = await _serving(folder, port)
    url, ends = f"http://127.0.0.1:{port}", time.monotonic() + seconds
    all_of_them = [
        Client(f"{number}", tokens.mint(f"user{number // 2}"), url, outcome)
        for number in range(clients)
    ]

    async def work(client: Client) -> None:
        await client.add()
        for number in count():
            if time.monotonic() > ends:
                break
            await client.act(number)

    async def kill() -> None:
        nonlocal process
        while not outcome.killed or time.monotonic() < ends - 1:
            await anyio.sleep(min(2.0, seconds / 4))
            process.send_signal(signal.SIGKILL)
            await process.wait()
            outcome.killed += 1
            process = await _serving(folder, port)

    try:
        async with anyio.create_task_group() as followers:
            for client in all_of_them[::2]:
                followers.start_soon(client.follow)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(kill)
                for client in all_of_them:
                    tasks.start_soon(work, client)
            with anyio.move_on_after(60):  # until the streams have what was saved last
                while any(missed(pair) for pair in _pairs(all_of_them)):  # noqa: ASYNC110
                    await anyio.sleep(0.05)
            followers.cancel_scope.cancel()
        for number, pair in enumerate(_pairs(all_of_them)):
            outcome.lost += [f"event of {note}" for note in missed(pair)]
            await _compare(number, pair, outcome)
    finally:
        process.kill()
        with anyio.CancelScope(shield=True):
            await process.wait()
            for client in all_of_them:
                await client.http.aclose()
    return outcome


def _pairs(clients: list[Client]) -> list[list[Client]]:
    return [clients[at : at + 2] for at in range(0, len(clients), 2)]


def missed(pair: list[Client]) -> set[str]:
    """Return the notes of a user that the stream has not shown."""
    return set().union(*(client.notes for client in pair)) - pair[0].seen


async def _compare(user: int, pair: list[Client], outcome: Outcome) -> None:
    """Compare what a user finds with what her clients were promised."""
    http = pair[0].http
    notes: set[str] = set()
    for offset in count(step=200):
        query: Any = {"concept": "notes", "limit": 200, "offset": offset}
        page = (await http.get(FACTS, params=query)).json()
        notes |= {value for fact in page["facts"] for value in fact["values"]}
        if page["is_last"]:
            break
    promised = set().union(*(client.notes for client in pair))
    outcome.lost += [f"note {note}" for note in promised - notes]
    foreign = {each for each in notes if int(each.partition("-")[0]) // 2 != user}
    outcome.errors += [f"user{user} sees {each}" for each in foreign]

    said = list[str]()
    before: Any = {}
    while turns := (await http.get(CHAT, params={"last": 200, **before})).json():
        said += [turn["message"]["content"] for turn in turns]
        before = {"before": turns[0]["number"]}
    told = [note for client in pair for note in client.said]
    outcome.lost += [
        f"{note} said {said.count(note)} times" for note in told if said.count(note) != 1
    ]

    found = (await http.get(FACTS, params={"concept": "number"})).json()["facts"]
    number = found[0]["values"][0] if found else 0
    least = sum(client.added for client in pair)
    if not least <= number <= least + sum(client.perhaps for client in pair):
        outcome.lost.append(f"user{user}'s number is {number}, and {least} additions succeeded")


def serve(folder: Path, port: int) -> None:
    """Be the service."""
    import uvicorn

    service = example()
    scopes = MemoryScopesProfile(product="desk")
    memory = AgentMemory(LocalFileMemoryProvider(folder), scopes=scopes, subjects=[USER])
    app = service.service(memory, service.Tokens(SECRET))
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="error")


def main() -> None:
    """Run the storm as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--serve", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(Path(given.serve[0]), int(given.serve[1]))
        return
    with TemporaryDirectory() as folder:
        store = Path(folder) / "memory"
        outcome = anyio.run(
            partial(http_service, store, clients=given.clients, seconds=given.seconds)
        )
    print(outcome)
    sys.exit(not outcome.is_good)


if __name__ == "__main__":
    main()
