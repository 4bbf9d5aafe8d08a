"""A comparison of stores by slices of a few milliseconds, with the ratios of each round.

python -m benchmarks.store [--rounds 15] [--works one,sixteen] [--against CHECKOUT]

Each contender is a process. In each round every contender does the same slice, in random order, so
that a temporarily slow disk affects all of them. `--against` adds another checkout of factmem as a
contender, to compare two commits in one run.

The ratios of processor times are compared with those of `ratios.json`; `--keep` writes them there.
"""

import argparse
import json
import platform
import random
import sys
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from statistics import mean, median, quantiles
from typing import NamedTuple

from benchmarks.store.contenders import CONTENDERS
from benchmarks.store.processes import (
    HERE,
    Found,
    Process,
    ProcessGroup,
    first_save_seconds,
    import_seconds,
    system_calls,
)
from benchmarks.store.work import MANY, OPERATIONS

WORKS = {
    "one": ("one save", "us", 1e6),
    "sixteen": ("16 tasks, one place: a save", "us", 1e6),
    "places": ("64 tasks, 64 places of 300 facts: a save", "us", 1e6),
    "processes": ("4 processes x 16 tasks: a save", "us", 1e6),
    "thousand": ("save_many of 1,000", "ms", 1e3),
    "cold_all": ("cold open and load_all of 100,000", "ms", 1e3),
    "cold_one": ("cold load of one of 100,000", "ms", 1e3),
    "warm": ("warm load of one of 100,000", "us", 1e6),
    "import": ("import on top of pydantic and anyio", "ms", 1e3),
    "first_save": ("first save after the import", "ms", 1e3),
}
OTHER_WORKS = {
    "disk": "bytes on disk per byte of the facts' JSON",
    "disk_again": "the same, 1,000 concepts saved ten times by a process that has read the place",
    "calls": "system calls a save",
}
SLOW = {"processes", "cold_all", "cold_one", "import", "first_save"}
ON_FULL_PLACE = {"cold_all", "cold_one", "warm", "disk", "disk_again"}
IMPORTS = {"import", "first_save"}
PEERS = ("langgraph", "sqlite", "raw fsync")
RATIOS = Path(__file__).with_name("ratios.json")
"""The ratios of this commit or an earlier one, by work."""
MOVED = 0.1
"""Of a ratio, and of 1 if it is smaller: what moved by more is printed."""


class Entrant(NamedTuple):
    """A contender of one checkout, with its own folder."""

    label: str
    name: str
    checkout: Path
    folder: Path

    def takes(self, work: str) -> bool:
        """Whether this contender can do the work."""
        if self.name == "raw fsync":
            return work in {"one", "calls"}
        return work not in IMPORTS or self.name == "factmem"


def entrants(scratch: Path, against: Path | None) -> list[Entrant]:
    """Return all contenders; factmem of this checkout first."""
    made = [Entrant(name, name, HERE, scratch / name.replace(" ", "-")) for name in CONTENDERS]
    if against is not None:
        names = [name for name in CONTENDERS if name.startswith("factmem")]
        made[len(names) : len(names)] = [
            Entrant(f"{name}, other", name, against, scratch / f"other-{name.replace(' ', '-')}")
            for name in names
        ]
    return made


def rounds_of(
    work: str, made: list[Entrant], processes: dict[str, Process], count: int
) -> dict[str, list[Found]]:
    """Run the slices of all contenders in rounds."""
    taking = [each for each in made if each.takes(work)]
    groups: dict[str, ProcessGroup] = {}
    if work == "processes":
        groups = {
            each.label: ProcessGroup(each.name, each.checkout, each.folder) for each in taking
        }

    def found(entrant: Entrant) -> Found:
        if work == "import":
            return import_seconds(entrant.checkout)
        if work == "first_save":
            return first_save_seconds(entrant.checkout, entrant.folder)
        if work.startswith("cold"):
            return processes[entrant.label].cold(work)
        return (groups or processes)[entrant.label].ask(work)

    results: dict[str, list[Found]] = {each.label: [] for each in taking}
    for turn in range(count + 1):
        for entrant in random.sample(taking, len(taking)):
            answer = found(entrant)
            if turn:  # the first round is a warm-up
                results[entrant.label].append(answer)
    for group in groups.values():
        group.stop()
    return results


def spread(values: list[float], show: Callable[[float], str]) -> str:
    """Format the median of values and their quartiles."""
    low, _, high = quantiles(values, n=4)
    return f"{show(median(values))} ({show(low)}-{show(high)})"


def table(work: str, results: dict[str, list[Found]]) -> str:
    """Return the table of one work: times, processor times, and the ratios of each round."""
    title, unit, factor = WORKS[work]
    scale = factor / OPERATIONS[work]
    labels = list(results)
    others = [each for each in labels if each in PEERS or each == "factmem, other"]
    extra = [key for key in ("p99", "mb") if work in {"processes", "cold_all", "cold_one"}]
    extra = [key for key in extra if key in results[labels[0]][0]]
    heads = [f"{title}, {unit}", "median (quartiles)", f"processor, {unit}"]
    heads += [{"p99": "p99, ms", "mb": "memory, MB"}[key] for key in extra]
    heads += [f"/ {each}" for each in others]
    lines = [f"| {' | '.join(heads)} |", "| --- |" + " ---: |" * (len(heads) - 1)]
    for label in labels:
        mine = results[label]
        times = [each["wall"] for each in mine]
        cells = [label, spread(times, lambda value: f"{value * scale:,.1f}")]
        cells.append(f"{mean(each['cpu'] for each in mine) * scale:,.1f}")
        for key in extra:
            shown = median(each[key] for each in mine)
            cells.append(f"{shown * 1e3:.1f}" if key == "p99" else f"{shown:.0f}")
        for other in others:
            theirs = [each["wall"] for each in results[other]]
            ratios = [a / b for a, b in zip(times, theirs, strict=True)]
            cells.append("" if other == label else spread(ratios, lambda value: f"{value:.2f}"))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def ratios(results: dict[str, list[Found]]) -> dict[str, float]:
    """Return the median ratio of processor times for each factmem of this checkout and each peer.

    Other programs and the disk move it less than that of the times that pass.
    """
    return {
        f"{label} / {peer}": round(
            median(a["cpu"] / b["cpu"] for a, b in zip(mine, results[peer], strict=True)), 2
        )
        for label, mine in results.items()
        if label.startswith("factmem") and not label.endswith("other")
        for peer in PEERS
        if peer in results
    }


def moved(before: dict[str, dict[str, float]], now: dict[str, dict[str, float]]) -> list[str]:
    """Name each ratio that is another one than before."""
    return [
        f"{work}, {pair}: {was:.2f} before, {ratio:.2f} now"
        for work, pairs in now.items()
        for pair, ratio in pairs.items()
        if (was := before.get(work, {}).get(pair)) is not None
        and abs(ratio - was) > MOVED * max(1, was)
    ]


def calls_table(made: list[Entrant], scratch: Path) -> str:
    """Return the table of system calls per save."""
    cells = []
    for entrant in made:
        folder = scratch / "calls" / entrant.folder.name
        folder.mkdir(parents=True)
        calls = system_calls(entrant.name, entrant.checkout, folder)
        cells.append("not measured" if calls is None else f"{calls:.0f}")
    return _row_table(OTHER_WORKS["calls"], [each.label for each in made], cells)


def _row_table(title: str, labels: list[str], cells: list[str]) -> str:
    return (
        f"| | {' | '.join(labels)} |\n| --- |{' ---: |' * len(labels)}\n"
        f"| {title} | {' | '.join(cells)} |"
    )


def run(works: list[str], count: int, against: Path | None) -> dict[str, dict[str, float]]:
    """Measure each work, print its table, and return the ratios."""
    measured: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory(prefix="factmem-bench-", dir=".") as folder:
        scratch = Path(folder).resolve()
        made = entrants(scratch, against)
        processes = {each.label: Process(each.name, each.checkout, each.folder) for each in made}
        disk: dict[str, Found] = {}
        if ON_FULL_PLACE & set(works):
            for each in made:
                if each.takes("warm"):
                    print(f"filling {each.label} with {MANY:,} facts", file=sys.stderr)
                    disk[each.label] = processes[each.label].ask("fill")
        for work in works:
            if work.startswith("disk"):
                cells = [f"{each[work]:.2f}" for each in disk.values()]
                print(f"\n{_row_table(OTHER_WORKS[work], list(disk), cells)}", flush=True)
            elif work == "calls":
                print(f"\n{calls_table(made, scratch)}", flush=True)
            else:
                if work == "places":  # a save of a peer takes longer the more rows it has
                    for each in made:
                        if each.takes(work):
                            processes[each.label].ask("fill_places")
                turns = max(3, count // 3) if work in SLOW else count
                results = rounds_of(work, made, processes, turns)
                print(f"\n{table(work, results)}", flush=True)
                if work not in IMPORTS:
                    measured[work] = ratios(results)
        for process in processes.values():
            process.stop()
    return measured


def main() -> None:
    """Run the benchmark with the options of the command line."""
    known = [*WORKS, *OTHER_WORKS]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.store", description=__doc__)
    parser.add_argument(
        "--rounds", type=int, default=15, help="number of rounds; a third of it for slow works"
    )
    parser.add_argument("--works", default=",".join(known), help=f"a list of {', '.join(known)}")
    parser.add_argument("--against", type=Path, help="another checkout of factmem")
    parser.add_argument("--keep", action="store_true", help=f"write the ratios to {RATIOS.name}")
    given = parser.parse_args()
    works = given.works.split(",")
    if unknown := set(works) - set(known):
        parser.error(f"unknown works: {', '.join(sorted(unknown))}")
    if given.rounds < 3:
        parser.error("quartiles need at least 3 rounds")
    if given.against is not None and not (given.against / "factmem" / "__init__.py").is_file():
        parser.error(f"{given.against} is not a checkout of factmem")
    print(
        f"{datetime.now(UTC):%Y-%m-%d}, {platform.python_implementation()} "
        f"{platform.python_version()}, {platform.system()} {platform.machine()}, "
        f"{given.rounds} rounds"
    )
    before = json.loads(RATIOS.read_text()) if RATIOS.exists() else {}
    now = run(works, given.rounds, given.against and given.against.resolve())
    print("\nMoved by more than a tenth:", *(moved(before, now) or ["no ratio"]), sep="\n- ")
    if given.keep:
        RATIOS.write_text(json.dumps({**before, **now}, indent=2) + "\n")


if __name__ == "__main__":
    main()
