"""Workers learn what users say, each as slow as a model may be, while places are erased.

Four processes, on asyncio and trio, share a store. Each of fifty users states something new again
and again, and any worker may get it: its model answers after 0 to 3 seconds. In between places are
erased. In the end no fact may be there whose chat was read before the erasure of its place, and
nothing may be current that was said before another statement that was learned.

    python -m tests.storms.learning --seconds 60
"""

import argparse
import json
import random
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio

from factmem import Aes256GCMEncryptor, EncryptedStorage, Key, LocalFileMemoryProvider, SingleFact
from factmem.llm.base import ChatResponse, Extraction, Message, ToolDefinition
from factmem.providers._ledger_store import LedgerStore
from factmem.providers.results import Moment
from factmem.providers.storages import Storage
from factmem.testing.chat import ScriptedChatModel
from tests.world import AGE, AGENT, THEME, USER, item, memory_of

__all__ = ["Outcome", "learning_storm"]


PROCESSES = 4
USERS = 50
SLOWEST = 3.0
"""Seconds that a model's answer takes at the most."""
STATEMENT_EVERY = 0.02
ERASURE_EVERY = 0.15
MUTANTS = ("moment", "order")
"""Rules that can be switched off, so that a test sees the storm notice it: that a write rests on the
moment when its chat was read, and that a statement is compared by when it was said."""


@dataclass
class Outcome:
    """The results of a storm."""

    statements: int = 0
    learned: int = 0
    superseded: int = 0
    refused: int = 0
    erasures: int = 0
    came_back: int = 0
    """Erased facts that are there."""
    older: int = 0
    """Users whose current value was said before another that was learned."""
    errors: list[str] = field(default_factory=list[str])

    @property
    def is_good(self) -> bool:
        """Return True if no fault was found."""
        return not (self.came_back or self.older or self.errors)

    def __str__(self) -> str:
        return (
            f"{self.statements} statements, {self.learned} current when written, {self.superseded} "
            f"superseded, {self.refused} refused; {self.erasures} erasures; {self.came_back} erased "
            f"facts back, {self.older} older statements current, errors: {self.errors[:3]}"
        )


@dataclass
class _Statement:
    """A user's statement and its state in the parent; times are those of the parent's clock."""

    user: int
    said_at: datetime
    read_at: float = 0.0
    """When the parent heard that a worker had read it; 0 until then."""
    is_recorded: bool = False


class _Model:
    """Answers late with the theme that the user said."""

    model = "slow"

    def __init__(self, number: int, seconds: float) -> None:
        self._number = number
        self._seconds = seconds

    async def respond(
        self, messages: Sequence[Message], *, tools: Sequence[ToolDefinition] = ()
    ) -> ChatResponse:
        raise AssertionError("Nothing is asked but to find facts")

    async def extract(self, messages: Sequence[Message], output_type: Any) -> Extraction[Any]:
        _tell(read=self._number)
        await anyio.sleep(self._seconds)
        value = _value(self._number)
        answer = {"facts": [item(value=value, quote=f"the {value} theme")]}
        return await ScriptedChatModel(answer).extract(messages, output_type)


def _value(number: int) -> str:
    return f"shade{number}"


def _tell(**fields: object) -> None:
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


def _storage(key: str) -> Storage | None:
    return EncryptedStorage(Aes256GCMEncryptor(Key.from_base64(key))) if key else None


def _switch_off(mutant: str) -> None:
    if mutant == "moment":

        async def no_moment(self: LedgerStore, subject: Any, scope: Any) -> Moment:
            return Moment(None)

        LedgerStore.moment = no_moment  # type: ignore[method-assign]
    if mutant == "order":
        learn = LedgerStore.learn

        async def learn_now(self: LedgerStore, facts: Any, *args: Any, **options: Any) -> Any:
            for fact in facts:
                object.__setattr__(fact, "timestamp", datetime.now(UTC))
            return await learn(self, facts, *args, **options)

        LedgerStore.learn = learn_now  # type: ignore[method-assign]


async def _work(root: str, key: str, mutant: str) -> None:
    """Do what the lines of the standard input say, all at once, until it ends."""
    _switch_off(mutant)
    async with (
        LocalFileMemoryProvider(root, storage=_storage(key)) as store,
        anyio.create_task_group() as tasks,
    ):
        while line := await anyio.to_thread.run_sync(sys.stdin.readline):
            tasks.start_soon(_obey, store, json.loads(line))


async def _obey(store: LocalFileMemoryProvider, order: dict[str, Any]) -> None:
    alice = USER.of(f"user-{order['user']}")
    try:
        if "erase" in order:
            await store.erase(alice, AGENT)
            _tell(erased=order["erase"])
            # The user goes on. A place that holds nothing refuses what was read before the erasure
            # of any other place, and there would be little to see.
            await store.save(SingleFact(AGE, 37), alice, AGENT)
            return
        number: int = order["statement"]
        model: Any = _Model(number, order["seconds"])
        memory = memory_of(store, model, subjects=[alice], concepts=[THEME])
        report = await memory.remember(
            f"I prefer the {_value(number)} theme.",
            said_at=datetime.fromisoformat(order["said_at"]),
        )
    except Exception as exc:
        _tell(error=f"{type(exc).__name__}: {exc}")
        return
    fates = {"saved": report.saved, "superseded": report.superseded, "erased": report.erased}
    (fate,) = [name for name, found in fates.items() if found] or ["none"]
    _tell(done=number, fate=fate)


class _Storm:
    """The parent: it gives orders, receives their results, and checks what is stored."""

    def __init__(self, root: Path, key: str, seed: int, slowest: float, mutant: str) -> None:
        self._root, self._key, self._slowest = root, key, slowest
        self._chance = random.Random(seed)
        self.outcome = Outcome()
        self._said: dict[int, _Statement] = {}
        self._erased: dict[int, tuple[int, float]] = {}
        """The orders of erasures: the user, and when it was given."""
        self._receipts: dict[int, list[tuple[float, float]]] = {}
        """For each user when erasures were ordered and when their receipts came."""
        self._lock = threading.Lock()
        program = [sys.executable, "-m", "tests.storms.learning", "--worker", str(root)]
        self._workers = [
            subprocess.Popen(
                [*program, "--key", key, "--mutant", mutant, "--backend", backend],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for backend in ("asyncio", "trio") * (PROCESSES // 2)
        ]

    def run(self, seconds: float) -> Outcome:
        anyio.run(self._prepare)
        ears = [threading.Thread(target=self._hear, args=[each]) for each in self._workers]
        for ear in ears:
            ear.start()
        self._storm(seconds)
        for worker in self._workers:
            assert worker.stdin is not None
            worker.stdin.close()
        for ear, worker in zip(ears, self._workers, strict=True):
            ear.join(60 + self._slowest)
            if worker.wait(60):
                self.outcome.errors.append(f"a worker ended with {worker.returncode}")
        anyio.run(self._judge)
        return self.outcome

    async def _prepare(self) -> None:
        async with LocalFileMemoryProvider(self._root, storage=_storage(self._key)) as store:
            for user in range(USERS):
                await store.save(SingleFact(AGE, 37), USER.of(f"user-{user}"), AGENT)

    def _storm(self, seconds: float) -> None:
        begin = last = time.monotonic()
        number = 0
        while time.monotonic() < begin + seconds:
            time.sleep(STATEMENT_EVERY)
            user, number = self._chance.randrange(USERS), number + 1
            wait = self._chance.uniform(0, self._slowest)
            with self._lock:
                statement = self._said[number] = _Statement(user, datetime.now(UTC))
            said_at = statement.said_at.isoformat()
            self._order(statement=number, user=user, seconds=wait, said_at=said_at)
            if time.monotonic() > last + ERASURE_EVERY:
                last = time.monotonic()
                user = self._chance.randrange(USERS)
                with self._lock:
                    self._erased[number] = (user, last)
                self._order(erase=number, user=user)
        self.outcome.statements = number

    def _order(self, **order: object) -> None:
        worker = self._chance.choice(self._workers)
        assert worker.stdin is not None
        worker.stdin.write(json.dumps(order) + "\n")
        worker.stdin.flush()

    def _hear(self, worker: "subprocess.Popen[str]") -> None:
        assert worker.stdout is not None
        with worker.stdout:
            for line in worker.stdout:
                heard = json.loads(line)
                with self._lock:
                    self._note(heard)

    def _note(self, heard: dict[str, Any]) -> None:
        now, outcome = time.monotonic(), self.outcome
        if "read" in heard:
            self._said[heard["read"]].read_at = now
        elif "erased" in heard:
            user, ordered = self._erased[heard["erased"]]
            self._receipts.setdefault(user, []).append((ordered, now))
            outcome.erasures += 1
        elif "error" in heard:
            outcome.errors.append(heard["error"])
        else:
            self._said[heard["done"]].is_recorded = heard["fate"] in {"saved", "superseded"}
            outcome.learned += heard["fate"] == "saved"
            outcome.superseded += heard["fate"] == "superseded"
            outcome.refused += heard["fate"] == "erased"
            if heard["fate"] == "none":
                outcome.errors.append("a statement was rejected")

    async def _judge(self) -> None:
        async with LocalFileMemoryProvider(self._root, storage=_storage(self._key)) as store:
            for user in range(USERS):
                alice = USER.of(f"user-{user}")
                entries = await store.entries(alice, AGENT)
                there = {fact["value"] for entry in entries for fact in entry.get("facts", ())}
                facts = await store.load(THEME, alice, AGENT)
                self._judge_user(user, there, facts[0].value if facts else None)

    def _judge_user(self, user: int, there: set[Any], current: str | None) -> None:
        last = max((ordered for ordered, _ in self._receipts.get(user, [])), default=0.0)
        over = max((receipt for _, receipt in self._receipts.get(user, [])), default=0.0)
        said = {number: each for number, each in self._said.items() if each.user == user}
        # What was read before the last erasure was ordered was read before its receipt.
        gone = {_value(number) for number, each in said.items() if 0 < each.read_at < last}
        self.outcome.came_back += len(there & gone)
        # A word of it comes late: only what was said after the receipt was surely read after it.
        kept = [
            each.said_at
            for number, each in said.items()
            if each.is_recorded and _value(number) in there and each.read_at > over
        ]
        newest = max(kept, default=None)
        now = [each.said_at for number, each in said.items() if _value(number) == current]
        self.outcome.older += newest is not None and (not now or now[0] < newest)


def learning_storm(
    root: Path,
    seconds: float,
    *,
    key: str = "",
    seed: int = 0,
    slowest: float = SLOWEST,
    mutant: str = "",
) -> Outcome:
    """Let it storm for some seconds; `mutant` is a rule to switch off."""
    return _Storm(root, key, seed, slowest, mutant).run(seconds)


def main() -> int:
    """Run the long form; 0 if nothing was found wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.storms.learning")
    parser.add_argument("--seconds", type=float, default=60.0, help="half of them encrypted")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="what is drawn")
    parser.add_argument("--mutant", default="", choices=["", *MUTANTS])
    parser.add_argument("--worker", default="", help=argparse.SUPPRESS)
    parser.add_argument("--key", default="", help=argparse.SUPPRESS)
    parser.add_argument("--backend", default="asyncio", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        anyio.run(_work, options.worker, options.key, options.mutant, backend=options.backend)
        return 0
    print(f"learning storm, seed {options.seed}", flush=True)
    is_good = True
    for kind, key in (("plain", ""), ("encrypted", Key.generate().to_base64())):
        with TemporaryDirectory() as folder:
            outcome = learning_storm(
                Path(folder) / "store",
                options.seconds / 2,
                key=key,
                seed=options.seed,
                mutant=options.mutant,
            )
        is_good = is_good and outcome.is_good
        print(f"{kind}: {outcome}", flush=True)
    print(f"learning storm: {'no faults' if is_good else 'FAULTS'}")
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
