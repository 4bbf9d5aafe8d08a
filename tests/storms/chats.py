"""Chats are appended, learnt and erased while workers are killed and their model fails.

Four workers, on asyncio and trio, share a store with the parent, which appends the messages of many
chats of fifty users. 30 of 100 answers of the model are errors, or nothing that can be read.
Workers are killed with SIGKILL and replaced, places are erased. In the end every statement must be
in the store that was not erased, once, none that was, and the one that was said last must be
current.

    python -m tests.storms.chats --chats 10000 --kills 30 --erasures 100
"""

import argparse
import logging
import random
import re
import sys
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio

from factmem import (
    Aes256GCMEncryptor,
    EncryptedStorage,
    FactStore,
    Key,
    LocalFileMemoryProvider,
    SingleFact,
)
from factmem.errors import ChatModelError
from factmem.llm.base import ChatResponse, Extraction, Message, ToolDefinition
from factmem.memory import conversations as learning
from factmem.providers.results import Moment
from factmem.testing.chat import ScriptedChatModel
from tests.processes import Process, Tell
from tests.world import AGE, AGENT, THEME, USER, item, memory_of, user

WORKERS = 4
USERS = 50
FAILING = 0.3
"""The part of the model's answers that are errors."""
REST = timedelta(milliseconds=20)
PATIENCE = 120.0
"""Seconds without any progress after which the storm is given up."""
MUTANTS = ("moment", "retry")
"""Rules that can be switched off, so that a test sees the storm notice it: that a write rests on
the moment when its chat was read, and that a chat is learnt again after an error of the model."""

_SHADE = re.compile(r'"message": (\d+), .*?shade(\d+) ')


@dataclass
class Outcome:
    """The results of a storm."""

    done: Counter[str] = field(default_factory=Counter[str])
    """How many statements, kills, erasures, and chats that were given up and queued again."""
    faults: Counter[str] = field(default_factory=Counter[str])
    """Statements that are lost, learnt twice, of other users, or erased and back; users whose
    current value was said before another that was learnt."""
    errors: list[str] = field(default_factory=list[str])

    @property
    def is_good(self) -> bool:
        """Return True if no fault was found."""
        return not (+self.faults or self.errors)

    def __str__(self) -> str:
        return f"{dict(self.done)}, faults {dict(+self.faults)}, errors {self.errors[:3]}"


class _Model:
    """Finds each shade that may be cited; some of its answers are errors."""

    model = "shades"

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    async def respond(
        self, messages: Sequence[Message], *, tools: Sequence[ToolDefinition] = ()
    ) -> ChatResponse:
        raise AssertionError("Nothing is asked but to find facts")

    async def extract(self, messages: Sequence[Message], output_type: Any) -> Extraction[Any]:
        await anyio.sleep(self._chance.uniform(0, 0.05))
        if (luck := self._chance.random()) < FAILING:
            if luck < FAILING / 2:
                raise ChatModelError("429 Too Many Requests")
            answers: list[object] = ["Sure! Here are", '{"facts": [{"mess']
        else:
            text = str(messages[-1].get("content"))
            found = [(int(number), f"shade{shade}") for number, shade in _SHADE.findall(text)]
            answers = [
                {
                    "facts": [
                        item(message=number, value=shade, quote=f"the {shade} theme")
                        for number, shade in found
                    ]
                }
            ]
        return await ScriptedChatModel(*answers).extract(messages, output_type)


@asynccontextmanager
async def _opened(where: str, key: str) -> AsyncGenerator[FactStore]:
    """Open the store in a folder, or in the database of a DSN."""
    encryptor = Aes256GCMEncryptor(Key.from_base64(key)) if key else None
    if "port=" in where:
        from factmem.providers.postgres import PostgresMemoryProvider  # an extra

        async with PostgresMemoryProvider(where, encryption=encryptor) as server:
            yield server
    else:
        storage = None if encryptor is None else EncryptedStorage(encryptor)
        async with LocalFileMemoryProvider(where, storage=storage) as store:
            yield store


def _switch_off(mutant: str) -> None:
    if mutant == "moment":

        async def no_moment(self: FactStore, subject: Any, scope: Any) -> Moment:
            return Moment(None)

        FactStore.moment = no_moment  # type: ignore[method-assign]
    if mutant == "retry":

        async def give_up(store: Any, task: Any, done: Any) -> None:
            await store.learnt(task, task.since + 1)

        learning._postpone = give_up


def _work(
    tell: Tell, wait: Callable[[], None], where: str, key: str, seed: int, mutant: str
) -> None:
    """Learn until killed."""
    logging.disable(logging.WARNING)  # a warning for each failure of the model
    learning._LEASE = timedelta(seconds=2)
    learning._FIRST_PAUSE = timedelta(milliseconds=20)
    learning._LONGEST_PAUSE = timedelta(milliseconds=200)
    _switch_off(mutant)

    async def work() -> None:
        async with _opened(where, key) as store:
            model: Any = _Model(random.Random(seed))
            memory = memory_of(store, model, subjects=[USER], concepts=[THEME])
            tell("open")
            await memory.conversations.learn(workers=4, every=timedelta(milliseconds=20))

    wait()
    try:
        anyio.run(work, backend=("asyncio", "trio")[seed % 2])
    except BaseException as exc:
        tell(f"{type(exc).__name__}: {exc}")
        raise


class _Crew:
    """The workers, of which each that ends is replaced."""

    def __init__(self, outcome: Outcome, *args: object) -> None:
        self._outcome = outcome
        self._where, self._key, self._seed, self._mutant = args
        self._workers = [self._started() for _ in range(WORKERS)]

    def _started(self) -> Process:
        self._seed = int(str(self._seed)) + 1
        worker = Process(_work, self._where, self._key, self._seed, self._mutant)
        worker.go()
        return worker

    def kill(self, which: int) -> None:
        """Kill a worker, and start another."""
        self._end(self._workers[which])
        self._workers[which] = self._started()
        self._outcome.done["kills"] += 1

    def stop(self) -> None:
        """End all workers, and note their errors."""
        while self._workers:
            self._end(self._workers.pop())

    def _end(self, worker: Process) -> None:
        worker.kill()
        while not worker.is_over:
            told = worker.lines()
            self._outcome.errors += [line for line in told if line not in ("ready", "open", "")]
        worker.end()


@dataclass
class _Said:
    """What the parent knows of a user."""

    shades: list[str] = field(default_factory=list[str])
    """The statements since the last erasure, in the order in which they were said."""
    erased: set[str] = field(default_factory=set[str])


class _Storm:
    """The parent: it appends, erases, kills, and checks what is stored."""

    def __init__(self, where: str, key: str, seed: int, mutant: str) -> None:
        self._where, self._key = where, key
        self._chance = random.Random(seed)
        self._users = [_Said() for _ in range(USERS)]
        self.outcome = Outcome()
        self._crew = _Crew(self.outcome, where, key, seed, mutant)

    async def run(self, chats: int, kills: int, erasures: int) -> None:
        """Let it storm, wait until nothing is left to learn, and judge."""
        try:
            async with _opened(self._where, self._key) as store:
                for each in range(USERS):  # an empty place refuses more than it must
                    await store.save(SingleFact(AGE, 37), USER.of(f"user-{each}"), AGENT)
                await self._storm(store, chats, kills, erasures)
                await self._wait(store)
                self._crew.stop()
                for each, said in enumerate(self._users):
                    await self._judge(store, each, said)
        finally:
            self._crew.stop()

    async def _storm(self, store: FactStore, chats: int, kills: int, erasures: int) -> None:
        events = ["kill"] * kills + ["erase"] * erasures + ["chat"] * chats
        self._chance.shuffle(events)
        memory = memory_of(store, None, subjects=[USER])
        for number, event in enumerate(events):
            which = self._chance.randrange(USERS)
            name, said = f"user-{which}", self._users[which]
            if event == "kill":
                self._crew.kill(self._chance.randrange(WORKERS))
            elif event == "erase":
                await store.erase(USER.of(name), AGENT)
                said.erased.update(said.shades)
                said.shades.clear()
                await store.save(SingleFact(AGE, 37), USER.of(name), AGENT)
                self.outcome.done["erasures"] += 1
            else:
                chat = memory.of(name).conversation(f"chat-{number}", learn_after=REST)
                for part in range(self._chance.choice((1, 1, 2))):
                    shade = f"shade{2 * number + part}"
                    await chat.append(user(f"I prefer the {shade} theme."))
                    said.shades.append(shade)
                    self.outcome.done["statements"] += 1
                    await anyio.sleep(self._chance.choice((0, 0, 0.002)))

    async def _wait(self, store: FactStore) -> None:
        """Wait until everything is learnt; what was given up is queued again."""
        queue, last, since = store.conversations, -1, time.monotonic()
        while (state := await queue.state()).pending or state.failed:
            if state.pending != last:
                last, since = state.pending, time.monotonic()
            elif time.monotonic() > since + PATIENCE:
                self.outcome.errors.append(f"{state} for {PATIENCE:g} s")
                return
            self.outcome.done["given up"] += await queue.retry()
            await anyio.sleep(0.1)

    async def _judge(self, store: FactStore, which: int, said: _Said) -> None:
        alice = USER.of(f"user-{which}")
        entries = await store.entries(alice, AGENT)
        learnt = Counter(
            fact["value"]
            for entry in entries
            for fact in entry.get("facts", ())
            if fact["keyword"] == THEME.keyword
        )
        facts = await store.load(THEME, alice, AGENT)
        kept = [shade for shade in said.shades if shade in learnt]
        self.outcome.faults.update(
            {
                "lost": sum(shade not in learnt for shade in said.shades),
                "twice": sum(count > 1 for count in learnt.values()),
                "foreign": len(learnt.keys() - said.erased - set(said.shades)),
                "came back": len(said.erased & learnt.keys()),
                "older": bool(kept) and [fact.value for fact in facts] != kept[-1:],
            }
        )


def chat_storm(
    where: str,
    chats: int,
    *,
    kills: int = 0,
    erasures: int = 0,
    key: str = "",
    seed: int = 0,
    mutant: str = "",
) -> Outcome:
    """Append chats to the store in a folder or database; `mutant` is a rule to switch off."""
    storm = _Storm(where, key, seed, mutant)
    anyio.run(storm.run, chats, kills, erasures)
    return storm.outcome


def main() -> int:
    """Run the long form; 0 if nothing was found wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.storms.chats")
    parser.add_argument("--chats", type=int, default=10_000, help="on each kind of store")
    parser.add_argument("--kills", type=int, default=30, help="workers that are killed")
    parser.add_argument("--erasures", type=int, default=100, help="places that are erased")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="what is drawn")
    parser.add_argument("--mutant", default="", choices=["", *MUTANTS])
    parser.add_argument("--postgres", action="store_true", help="also on a server of its own")
    options = parser.parse_args()
    print(f"storm of chats, seed {options.seed}", flush=True)
    is_good = True
    with ExitStack() as stack:
        root = Path(stack.enter_context(TemporaryDirectory()))
        kinds = [
            ("plain", str(root / "plain"), ""),
            ("encrypted", str(root / "encrypted"), Key.generate().to_base64()),
        ]
        if options.postgres:
            from tests.postgres.cluster import Cluster

            server = stack.enter_context(Cluster(root / "data"))
            kinds.append(("PostgreSQL", server.dsn(), ""))
        for kind, where, key in kinds:
            outcome = chat_storm(
                where,
                options.chats,
                kills=options.kills,
                erasures=options.erasures,
                key=key,
                seed=options.seed,
                mutant=options.mutant,
            )
            is_good = is_good and outcome.is_good
            print(f"{kind}: {outcome}", flush=True)
    print(f"storm of chats: {'no faults' if is_good else 'FAULTS'}")
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
