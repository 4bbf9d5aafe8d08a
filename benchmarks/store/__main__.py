"""All the work by all the contenders in turn, round by round, as one table of medians.

python -m benchmarks.store [rounds]
"""

import json
import platform
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from benchmarks.store.contenders import CONTENDERS

ROWS = [
    ("one", "ms", "one durable save, one task, ms", 3),
    ("sixteen", "per_s", "16 tasks into one place, saves a second", 0),
    ("processes", "per_s", "4 processes x 16 tasks, saves a second", 0),
    ("processes", "p99_ms", "  p99, ms", 1),
    ("thousand", "ms", "save_many of 1,000, ms", 1),
    ("full", "ms", "a save with 100,000 facts there, ms", 3),
    ("full", "empty_ms", "  into an empty place, in turn, ms", 3),
    ("warm", "us", "warm load of one concept of 100,000, us", 1),
    ("cold", "s", "cold open and load_all of 100,000, s", 2),
    ("cold", "mb", "  peak memory, MB", 0),
    ("fill", "bytes_per_byte", "disk, bytes per byte of the facts' JSON", 2),
]
NOT_FOR = {
    "raw fsync": {"thousand", "full", "warm", "cold", "fill", "processes", "sixteen"},
    "langgraph": {"thousand"},
}
FRESH = {"one", "sixteen", "processes"}


def run(work: str, name: str, folder: Path) -> dict[str, float]:
    """Do one piece of work in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.store.work", work, name, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{work} by {name} failed:\n{done.stderr}")
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def import_ms() -> float:
    """What `import factmem` takes on top of pydantic and anyio, in milliseconds."""

    def seconds(code: str) -> float:
        timed = f"import time; t = time.perf_counter()\n{code}\nprint(time.perf_counter() - t)"
        command = [sys.executable, "-c", timed]
        return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    base = "import anyio, pydantic; pydantic.BaseModel, pydantic.TypeAdapter"
    both = [(seconds(base), seconds(f"{base}\nimport factmem")) for _ in range(11)]
    return 1e3 * median(after - before for before, after in both)


def main() -> None:
    """Measure, and print the table."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    results: dict[tuple[str, str, str], list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="factmem-bench-", dir=".") as scratch:
        filled = {name: Path(scratch, "filled", name) for name in CONTENDERS}
        for name, folder in filled.items():
            if "fill" not in NOT_FOR.get(name, ()):
                folder.mkdir(parents=True)
                _note(results, "fill", name, run("fill", name, folder))
        for turn in range(rounds):
            for work in ("one", "sixteen", "processes", "thousand", "full", "warm", "cold"):
                for name in CONTENDERS:
                    if work in NOT_FOR.get(name, ()):
                        continue
                    folder = filled[name]
                    if work in FRESH:
                        folder = Path(scratch, f"{work}-{turn}", name)
                        folder.mkdir(parents=True)
                    _note(results, work, name, run(work, name, folder))
            print(f"round {turn + 1} of {rounds}", file=sys.stderr)
    print(
        f"{datetime.now(UTC):%Y-%m-%d}, {platform.python_implementation()} "
        f"{platform.python_version()}, {platform.system()} {platform.machine()}, "
        f"medians of {rounds} rounds\n"
    )
    print("| work | " + " | ".join(CONTENDERS) + " |")
    print("| --- |" + " ---: |" * len(CONTENDERS))
    for work, field, label, digits in ROWS:
        cells = [results.get((work, field, name)) for name in CONTENDERS]
        shown = [f"{median(cell):,.{digits}f}" if cell else "" for cell in cells]
        print(f"| {label} | " + " | ".join(shown) + " |")
    print(f"\n`import factmem`: {import_ms():.0f} ms on top of pydantic and anyio")


def _note(
    results: dict[tuple[str, str, str], list[float]], work: str, name: str, found: dict[str, float]
) -> None:
    for field, value in found.items():
        results.setdefault((work, field, name), []).append(value)


if __name__ == "__main__":
    main()
