"""The contenders' processes, controlled from the measuring process."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from statistics import quantiles
from typing import IO, Any

__all__ = [
    "HERE",
    "Process",
    "ProcessGroup",
    "environment",
    "first_save_seconds",
    "import_seconds",
    "system_calls",
]

HERE = Path(__file__).resolve().parents[2]

# Import factmem of the contender's checkout first, then the benchmarks of this checkout.
_BOOT = (
    "import sys, factmem; sys.path.insert(0, {here!r}); "
    "from benchmarks.store.work import main; main()"
)

Found = dict[str, Any]


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-P", "-c", _BOOT.format(here=str(HERE)), *arguments]


def environment(checkout: Path) -> dict[str, str]:
    """Return the environment of a process that imports factmem from a checkout.

    It may write bytecode files, as for an installed package, so that imports do not compile.
    """
    kept = {name: each for name, each in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPATH": str(checkout)}


def _output(command: list[str], checkout: Path) -> str:
    done = subprocess.run(
        command, env=environment(checkout), text=True, capture_output=True, check=False
    )
    if done.returncode:
        sys.exit(f"{command[4:]} failed:\n{done.stderr}")
    return done.stdout


class Process:
    """A contender in its own process, which waits for the next slice."""

    def __init__(self, name: str, checkout: Path, folder: Path) -> None:
        self._name, self._checkout, self._folder = name, checkout, folder
        self._process = subprocess.Popen(
            _command("serve", name, str(folder)),
            env=environment(checkout),
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.answer()

    def tell(self, work: str) -> None:
        pipe = _pipe(self._process.stdin)
        pipe.write(work + "\n")
        pipe.flush()

    def answer(self) -> Found:
        line = _pipe(self._process.stdout).readline()
        if not line:
            sys.exit(f"{self._name} failed; see above")
        found: Found = json.loads(line)
        return found

    def ask(self, work: str) -> Found:
        self.tell(work)
        return self.answer()

    def cold(self, work: str) -> Found:
        """Run one piece of work in a new process on the same folder."""
        command = _command("cold", self._name, str(self._folder), work)
        found: Found = json.loads(_output(command, self._checkout))
        return found

    def stop(self) -> None:
        _pipe(self._process.stdin).close()
        self._process.wait()


def _pipe(pipe: IO[str] | None) -> IO[str]:
    if pipe is None:
        raise ValueError("started without a pipe")
    return pipe


class ProcessGroup:
    """Four processes of one contender that save into the same place concurrently."""

    def __init__(self, name: str, checkout: Path, folder: Path) -> None:
        self._processes = [Process(name, checkout, folder) for _ in range(4)]

    def ask(self, work: str) -> Found:
        started = time.perf_counter()
        for each in self._processes:
            each.tell(work)
        answers = [each.answer() for each in self._processes]
        wall = time.perf_counter() - started
        times = [seconds for answer in answers for seconds in answer["saves"]]
        p99 = quantiles(times, n=100)[98]
        return {"wall": wall, "cpu": sum(answer["cpu"] for answer in answers), "p99": p99}

    def stop(self) -> None:
        for each in self._processes:
            each.stop()


def import_seconds(checkout: Path) -> Found:
    """Measure `import factmem` in a process that has already imported pydantic and anyio."""
    code = (
        "import json, time, anyio, pydantic; pydantic.BaseModel, pydantic.TypeAdapter\n"
        "wall, cpu = time.perf_counter(), time.process_time()\n"
        "import factmem\n"
        "wall, cpu = time.perf_counter() - wall, time.process_time() - cpu\n"
        "print(json.dumps({'wall': wall, 'cpu': cpu}))"
    )
    found: Found = json.loads(_output([sys.executable, "-P", "-c", code], checkout))
    return found


def first_save_seconds(checkout: Path, folder: Path) -> Found:
    """Measure the first save to a new store in a process that has imported factmem."""
    code = (
        "import json, sys, tempfile, time, anyio, pydantic, factmem\n"
        "async def main():\n"
        "    wall, cpu = time.perf_counter(), time.process_time()\n"
        "    fact = factmem.SingleFact(factmem.Concept('city', 'Where the user lives'), 'Busan')\n"
        "    folder = tempfile.mkdtemp(dir=sys.argv[1])\n"
        "    store = factmem.LocalFileMemoryProvider(folder)\n"
        "    where = factmem.MemorySubject.EVERYTHING, factmem.MemoryScope.Product('x')\n"
        "    await store.save(fact, *where)\n"
        "    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu\n"
        "    print(json.dumps({'wall': wall, 'cpu': cpu}))\n"
        "    await store.aclose()\n"
        "anyio.run(main)"
    )
    found: Found = json.loads(_output([sys.executable, "-P", "-c", code, str(folder)], checkout))
    return found


def system_calls(name: str, checkout: Path, folder: Path) -> float | None:
    """Return the number of system calls per save; None if `strace` is missing or not permitted."""
    if shutil.which("strace") is None:
        return None
    _output(_command("saves", name, str(folder), "1"), checkout)
    time.sleep(3.1)  # factmem reads its manifest at each save while the file is this new
    totals: list[int] = []
    for saves in (50, 250):
        tally = folder.with_name(f"{folder.name}.strace")
        command = ["strace", "-f", "-c", "-o", str(tally), *_command("saves", name, str(folder))]
        done = subprocess.run(
            [*command, str(saves)], env=environment(checkout), capture_output=True, check=False
        )
        if done.returncode or not tally.exists():
            return None
        totals.append(_calls(tally.read_text()))
    return (totals[1] - totals[0]) / 200


def _calls(tally: str) -> int:
    """Sum the column of calls. The line of totals differs between versions of strace."""
    rows = [line.split() for line in tally.splitlines()]
    return sum(
        int(row[3]) for row in rows if len(row) >= 5 and row[3].isdigit() and row[-1] != "total"
    )
