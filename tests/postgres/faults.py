"""Faults during saves of several processes: nothing acknowledged is lost, doubled or invented.

    python -m tests.postgres.faults --kills 20 --cuts 200 --terminations 100 --failovers 5

Each fault runs over a plain and an encrypted store, or, with `--in-turn`, over one of them. Prints
a line per fault, and exits with 1 if a save was lost.
"""

import argparse
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import anyio
import orjson
import psycopg

from factmem.encryption import Aes256GCMEncryptor
from factmem.providers.postgres import PostgresMemoryProvider
from tests.postgres.cluster import Cluster
from tests.postgres.proxy import Proxy
from tests.postgres.saver import APP, PERSON, USERS

PROCESSES = 4


@dataclass(frozen=True)
class Verdict:
    """The content of a store after a fault, compared with the acknowledged saves."""

    acknowledged: int
    unknown: int
    refused: int
    lost: int
    doubled: int
    invented: int

    @property
    def is_good(self) -> bool:
        """Whether every acknowledged save is there once, and nothing else."""
        return self.acknowledged > 0 and not (self.lost or self.doubled or self.invented)


class Savers:
    """Processes that save into one store."""

    def __init__(self, dsn: str, seconds: float, key: str) -> None:
        self.store = uuid.uuid4().hex
        self.key = key
        self._running = [
            subprocess.Popen(
                [sys.executable, "-m", "tests.postgres.saver", dsn, self.store, f"p{number}",
                 str(seconds), key],
                stdout=subprocess.PIPE,
            )
            for number in range(PROCESSES)
        ]  # fmt: skip
        self._readers = ThreadPoolExecutor(PROCESSES)
        self._reports: list[Future[bytes]] = []
        for each in self._running:
            assert each.stdout is not None
            each.stdout.readline()
            # Read at once: a report is larger than a pipe holds, and its writer would never end.
            self._reports.append(self._readers.submit(each.stdout.read))

    @property
    def are_running(self) -> bool:
        """Whether any of them still saves."""
        return any(each.poll() is None for each in self._running)

    def judge(self, dsn: str) -> Verdict:
        """Wait for the processes and compare acknowledged saves with the store."""
        told = [orjson.loads(each.result(timeout=240)) for each in self._reports]
        for each in self._running:
            each.wait()
        self._readers.shutdown()
        acknowledged, unknown, refused = (
            [tuple(pair) for report in told for pair in report[column]] for column in range(3)
        )
        stored = anyio.run(self._stored, dsn)
        there = set(stored)
        return Verdict(
            acknowledged=len(acknowledged),
            unknown=len(unknown),
            refused=len(refused),
            lost=len(set(acknowledged) - there),
            doubled=len(stored) - len(there),
            invented=len(there - set(acknowledged) - set(unknown)),
        )

    async def _stored(self, dsn: str) -> list[tuple[str, str]]:
        encryption = Aes256GCMEncryptor(self.key) if self.key else None
        found: list[tuple[str, str]] = []
        async with PostgresMemoryProvider(dsn, store=self.store, encryption=encryption) as store:
            for user in (f"u{number}" for number in range(USERS)):
                for entry in await store.entries(PERSON.of(user), APP):
                    found += [(user, str(fact["values"][0])) for fact in entry.get("facts", ())]
        return found


def kills(folder: Path, count: int, key: str) -> Verdict:
    """Kill the server -9, and start it again."""
    with Cluster(folder / "data") as server:
        savers = Savers(server.dsn(), 1.5 * count, key)
        for _ in range(count):
            time.sleep(0.5)
            server.kill()
            server.start()
        return savers.judge(server.dsn())


def cuts(folder: Path, count: int, key: str) -> Verdict:
    """Cut connections between a statement and its answer."""
    with Cluster(folder / "data") as server:
        proxy = Proxy(server.port, chance=0.0)
        through = server.dsn().replace(f"port={server.port}", f"port={proxy.port}")
        savers = Savers(through, 0.5 + 0.15 * count, key)
        proxy.chance = 0.1  # from now on: making the tables takes dozens of answers
        while savers.are_running and proxy.cuts < count:
            time.sleep(0.05)
        proxy.chance = 0.0
        verdict = savers.judge(server.dsn())
        print(f"  {proxy.cuts} answers cut")
        proxy.close()
        return verdict


def terminations(folder: Path, count: int, key: str) -> Verdict:
    """Terminate the server's processes of all clients."""
    with Cluster(folder / "data") as server:
        savers = Savers(server.dsn(), 0.5 + 0.06 * count, key)
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            for _ in range(count):
                time.sleep(0.05)
                connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE application_name = 'factmem'"
                )
        return savers.judge(server.dsn())


def failovers(folder: Path, count: int, key: str) -> Verdict:
    """Kill the primary -9 and promote its synchronous standby, each time with a new pair."""
    verdicts = []
    for number in range(count):
        home = folder / f"{'encrypted' if key else 'plain'} {number}"
        primary = Cluster(home / "primary")
        with primary, primary.standby(home / "standby") as standby:
            _make_synchronous(primary)
            both = primary.dsn(standby)
            savers = Savers(both, 5.0, key)
            time.sleep(1.5)
            threading.Thread(target=primary.kill).start()
            time.sleep(0.3)
            standby.promote()
            verdicts.append(savers.judge(standby.dsn()))
    sums = zip(*(vars(each).values() for each in verdicts), strict=True)
    return Verdict(*map(sum, sums))


def _make_synchronous(primary: Cluster) -> None:
    """Have commits wait for the standby, and wait until they do.

    Not by an option of the server's command line: `ALTER SYSTEM` does not override these.
    """
    with psycopg.connect(primary.dsn(), autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET synchronous_standby_names = 'standby'")
        connection.execute("SELECT pg_reload_conf()")
        is_synchronous = False
        while not is_synchronous:
            time.sleep(0.05)
            found = connection.execute("SELECT sync_state FROM pg_stat_replication").fetchall()
            shown = connection.execute("SHOW synchronous_commit").fetchone()
            is_synchronous = ("sync",) in found and shown == ("on",)


FAULTS: dict[str, Callable[[Path, int, str], Verdict]] = {
    "kills": kills,
    "cuts": cuts,
    "terminations": terminations,
    "failovers": failovers,
}


def main() -> int:
    """Run the faults that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, fault in FAULTS.items():
        parser.add_argument(f"--{name}", type=int, default=0, help=fault.__doc__)
    parser.add_argument("--in-turn", action="store_true", help="each on one kind of store")
    given = vars(parser.parse_args())
    is_good = True
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, fault) in enumerate(FAULTS.items()):
            kinds = [("plain", ""), ("encrypted", Aes256GCMEncryptor.generate_key())]
            for kind, key in [kinds[number % 2]] if given["in_turn"] else kinds:
                if given[name]:
                    verdict = fault(Path(folder), given[name], key)
                    print(f"{given[name]} {name}, {kind}: {verdict}", flush=True)
                    is_good = is_good and verdict.is_good
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
