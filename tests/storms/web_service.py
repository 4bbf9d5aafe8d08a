"""The service of examples/web_service.py under load: erasures, and workers that stop and are
killed.

python -m tests.storms.web_service               4 workers, 50 users, 60 seconds

Each user saves, chats, reads, searches and erases herself, one request after the other, and knows
what she must find: all that was acknowledged, nothing of another user, nothing that she erased.
"""

import argparse
import os
import random
import signal
import socket
import sys
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from itertools import count, repeat
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
import httpx

from factmem import LocalFileMemoryProvider
from factmem.testing.chat import ScriptedChatModel

__all__ = ["Outcome", "web_service"]

ROOT = Path(__file__).parent.parent.parent
ERASE, CHAT, SEARCH, READ = 0.04, 0.16, 0.3, 0.6
"""Shares of requests, each up to its number; the rest saves."""


@dataclass
class Outcome:
    """The results of a run."""

    requests: Counter[str] = field(default_factory=Counter[str])
    refused: int = 0
    """Requests without an answer, as their worker ended; each is accounted for as unknown."""
    lost: list[str] = field(default_factory=list)
    bled: list[str] = field(default_factory=list)
    back: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    stopped: int = 0
    killed: int = 0
    seconds: float = 0.0
    took: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    @property
    def is_good(self) -> bool:
        """Return True if nothing was lost, came back, was another user's or failed."""
        return not (self.lost or self.bled or self.back or self.errors)

    def __str__(self) -> str:
        total = sum(self.requests.values())
        times = "; ".join(
            f"{name} {len(took)}, p50 {sorted(took)[len(took) // 2] * 1000:.0f} ms, "
            f"p99 {sorted(took)[len(took) * 99 // 100] * 1000:.0f} ms"
            for name, took in sorted(self.took.items())
        )
        first = next(iter([*self.lost, *self.bled, *self.back, *self.errors]), "")
        return (
            f"{total} requests in {self.seconds:.0f} s ({total / self.seconds:.0f}/s), "
            f"{self.refused} unanswered; workers stopped {self.stopped}, killed {self.killed}; "
            f"lost {len(self.lost)}, bled {len(self.bled)}, back {len(self.back)}, "
            f"errors {len(self.errors)}\n  {times}{f'; first: {first}' if first else ''}"
        )


class Worker:
    """One process of the service, on a port of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.generation = 0
        """The number of kills so far."""
        self.ends = 0
        self.is_ready = False
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"

    async def start(self, client: httpx.AsyncClient) -> None:
        """Start it, and wait until it answers."""
        command = [sys.executable, "-m", "tests.storms.web_service", "--serve"]
        self.process = await anyio.open_process(
            [*command, str(self.folder), str(self.port)],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=None,
            stdout=None,
            stderr=None,
        )
        for _ in range(600):
            try:
                await client.get(f"{self.url}/notes", headers={"X-User": "nobody"})
            except httpx.TransportError:
                await anyio.sleep(0.05)
            else:
                self.is_ready = True
                return
        raise TimeoutError("A worker does not answer")

    async def end(self, how: signal.Signals) -> int:
        """Send it a signal, and wait for its end."""
        self.is_ready = False
        self.ends += 1
        self.generation += how == signal.SIGKILL
        self.process.send_signal(how)
        return await self.process.wait()


class Visitor:
    """A user, and what the service owes her."""

    def __init__(
        self,
        name: str,
        client: httpx.AsyncClient,
        workers: list[Worker],
        outcome: Outcome,
        seed: int,
    ) -> None:
        self.name = name
        self.client = client
        self.workers = workers
        self.outcome = outcome
        self.random = random.Random(f"{seed} {name}")
        self.numbers = count()
        self.saved: set[str] = set()
        self.chatted: dict[str, tuple[Worker, int]] = {}
        """Notes of chats, which are there at the end unless their worker was killed."""
        self.unknown: set[str] = set()
        self.gone: set[str] = set()

    async def request(self, action: str, method: str, path: str, **options: Any) -> object:
        """Return an answer's JSON, or None if the worker ended before it answered."""
        ready = [worker for worker in self.workers if worker.is_ready]
        if not ready:
            await anyio.sleep(0.05)
            return None
        self.worker = worker = self.random.choice(ready)
        self.generation, ends = worker.generation, worker.ends
        begin = time.perf_counter()
        try:
            answer = await self.client.request(
                method, f"{worker.url}{path}", headers={"X-User": self.name}, **options
            )
        except httpx.TransportError as exc:
            if worker.ends == ends:
                self.outcome.errors.append(f"{self.name} {action}: {exc!r}")
            self.outcome.refused += 1
            return None
        self.outcome.took[action].append(time.perf_counter() - begin)
        self.outcome.requests[action] += 1
        if answer.status_code >= 300:
            self.outcome.errors.append(f"{self.name} {action}: {answer.status_code} {answer.text}")
            return None
        return True if (said := answer.json()) is None else said

    async def act(self) -> None:
        """Make one request, and compare what comes with what must."""
        chance = self.random.random()
        note = f"{self.name}-{next(self.numbers)}"
        if chance < ERASE:
            await self.erase()
        elif chance < CHAT:
            answer = await self.request("chat", "POST", "/chat", json={"text": f"note {note}"})
            if answer is None:
                self.unknown.add(note)
            else:
                self.chatted[note] = self.worker, self.generation
        elif chance < SEARCH:
            path = f"/notes/search?question={self.name}"
            self.check(await self.request("search", "GET", path), is_all=False)
        elif chance < READ:
            self.check(await self.request("read", "GET", "/notes"), is_all=True)
        else:
            answer = await self.request("save", "POST", "/notes", json={"text": note})
            (self.unknown if answer is None else self.saved).add(note)

    async def erase(self) -> None:
        """Erase herself. Without an answer that is done again, as a person would."""
        before = {*self.saved, *self.chatted, *self.unknown}
        self.unknown |= before
        self.saved, self.chatted = set(), {}
        is_erased = False
        while not is_erased:
            is_erased = await self.request("erase", "DELETE", "/me") is not None
        self.gone |= before
        self.unknown -= before
        await self.sign_up()

    async def sign_up(self) -> None:
        """Save a first note.

        A user without any facts has no place yet, and then a detection that was running while any
        user was erased saves nothing, as she might be that user.
        """
        is_saved = False
        while not is_saved:
            note = f"{self.name}-{next(self.numbers)}"
            answer = await self.request("save", "POST", "/notes", json={"text": note})
            is_saved = answer is not None
            (self.saved if is_saved else self.unknown).add(note)

    def check(self, found: object, *, is_all: bool) -> None:
        """Compare notes with what she is owed."""
        if not isinstance(found, list):
            return
        notes = set(map(str, found))
        foreign = {note for note in notes if not note.startswith(f"{self.name}-")}
        self.outcome.bled += [f"{self.name} saw {note}" for note in sorted(foreign)]
        self.outcome.back += [f"{note} is back" for note in sorted(notes & self.gone)]
        if is_all:
            self.outcome.lost += [f"{note} is lost" for note in sorted(self.saved - notes)]

    def check_at_the_end(self, notes: list[str]) -> None:
        """Compare with the store itself, after every worker has stopped."""
        self.check(notes, is_all=True)
        for note, (worker, generation) in self.chatted.items():
            if note not in notes and worker.generation == generation:
                self.outcome.lost.append(f"{note} of a chat is lost")


async def web_service(
    folder: Path, *, workers: int = 4, users: int = 50, seconds: float = 60, seed: int = 1
) -> Outcome:
    """Run the service under load and return what was found."""
    outcome = Outcome()
    serving = [Worker(folder) for _ in range(workers)]
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(timeout=60, limits=limits) as client:
        visitors = [
            Visitor(f"user{number}", client, serving, outcome, seed) for number in range(users)
        ]
        try:
            async with anyio.create_task_group() as starting:
                for worker in serving:
                    starting.start_soon(worker.start, client)
            await _visit(visitors, outcome, seconds, random.Random(seed))
        finally:
            for worker in serving:
                if worker.process.returncode is None:
                    worker.process.kill()
    await _compare(folder, visitors)
    return outcome


async def _visit(
    visitors: list[Visitor], outcome: Outcome, seconds: float, chance: random.Random
) -> None:
    """Let the users act while workers are restarted, and stop all workers at last."""
    begin = time.monotonic()
    serving, client = visitors[0].workers, visitors[0].client

    async def visit(visitor: Visitor) -> None:
        await visitor.sign_up()
        while time.monotonic() - begin < seconds:
            await visitor.act()

    async with anyio.create_task_group() as tasks:
        for visitor in visitors:
            tasks.start_soon(visit, visitor)
        for number in count():
            await anyio.sleep(min(2.0, seconds / 5))
            if number > 1 and time.monotonic() >= begin + seconds - 1:
                break
            worker = chance.choice(serving)
            how = signal.SIGTERM if number % 2 else signal.SIGKILL
            _note_end(outcome, how, await worker.end(how))
            await worker.start(client)
    outcome.seconds = time.monotonic() - begin
    for worker in serving:
        _note_end(outcome, signal.SIGTERM, await worker.end(signal.SIGTERM))


def _note_end(outcome: Outcome, how: signal.Signals, code: int) -> None:
    outcome.killed += how is signal.SIGKILL
    outcome.stopped += how is signal.SIGTERM
    if how is signal.SIGTERM and code not in {0, -signal.SIGTERM}:
        outcome.errors.append(f"A worker ended with {code}")


async def _compare(folder: Path, visitors: list[Visitor]) -> None:
    from examples.web_service import NOTES, PRODUCT, USER

    async with LocalFileMemoryProvider(folder) as store:
        for visitor in visitors:
            facts = await store.load(NOTES, USER.of(visitor.name), PRODUCT)
            visitor.check_at_the_end([value for fact in facts for value in fact.values])


def serve(folder: Path, port: int) -> None:
    """Be a worker, with a model that is a function."""
    import uvicorn

    from examples.web_service import create_app, fake_answer

    model = ScriptedChatModel(*repeat(fake_answer, 1_000_000))
    app = create_app(LocalFileMemoryProvider(folder), model)
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="error")


def main() -> None:
    """Run the storm as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--users", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--serve", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(Path(given.serve[0]), int(given.serve[1]))
        return
    with TemporaryDirectory() as folder:
        outcome = anyio.run(
            lambda: web_service(
                Path(folder) / "memory",
                workers=given.workers,
                users=given.users,
                seconds=given.seconds,
                seed=given.seed,
            )
        )
    print(outcome)
    sys.exit(not outcome.is_good)


if __name__ == "__main__":
    main()
