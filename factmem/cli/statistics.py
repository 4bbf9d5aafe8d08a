"""The command stats: the contents of a store and its growth."""

import os
from collections import Counter
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from factmem.cli.opening import Store, run
from factmem.cli.options import Json
from factmem.cli.output import counted, print_json, print_line, print_table, shown
from factmem.cli.place_names import place_name
from factmem.providers.results import PlaceInfo

__all__ = ["app"]

app: typer.Typer = typer.Typer()
"""The commands of this module."""

_WIDTH = 40


class _Statistics:
    """The counts of a store."""

    def __init__(self) -> None:
        self.places: list[PlaceInfo] = []
        self.values: Counter[str] = Counter()
        self.saves: Counter[str] = Counter()

    def growth(self, most: int) -> list[tuple[str, int]]:
        """Return saves by day, or by month if there are more than `most` days."""
        if len(self.saves) <= most:
            return sorted(self.saves.items())
        months: Counter[str] = Counter()
        for day, count in self.saves.items():
            months[day[:7]] += count
        return sorted(months.items())


async def _count_store(store: Store) -> _Statistics:
    found = _Statistics()
    found.places = await store.places()
    for info in found.places:
        for fact in await store.load_all(info.subject, info.scope):
            found.values[fact.concept.keyword] += len(fact.values)
        for entry in await store.entries(info.subject, info.scope):
            if entry.get("facts"):
                found.saves[entry["at"][:10]] += 1
    return found


@app.command()
def stats(
    ctx: typer.Context,
    top: Annotated[
        int, typer.Option(min=1, help="The number of places and concepts to list.")
    ] = 10,
    svg: Annotated[
        str | None, typer.Option(metavar="FILE", help="Also write the chart of growth as SVG.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Count places, values and bytes, by place and by concept, and chart saves over time."""
    found = run(ctx, _count_store)
    growth = found.growth(31)
    if svg is not None:
        _write_svg(svg, growth)
    values = sum(info.count for info in found.places)
    size = sum(info.bytes for info in found.places)
    if as_json:
        print_json(
            {
                "places": len(found.places),
                "values": values,
                "bytes": size,
                "saves": sum(found.saves.values()),
                "concepts": dict(found.values.most_common()),
                "saves_by_day": dict(sorted(found.saves.items())),
            }
        )
        return
    held = counted(len(found.places), "place")
    print_line(f"{held}, {counted(values, 'value')}, {counted(size, 'byte')}")
    print_line("")
    largest = sorted(found.places, key=lambda info: (-info.count, place_name(info.place)))[:top]
    print_table(
        ("place", "values", "bytes"),
        [(place_name(info.place), info.count, info.bytes) for info in largest],
    )
    print_line("")
    print_table(("concept", "values"), found.values.most_common(top))
    print_line("")
    print_table(("saved", "entries", ""), [(*row, bar) for row, bar in _bars(growth)])


def _bars(growth: list[tuple[str, int]]) -> list[tuple[tuple[str, int], str]]:
    most = max((count for _, count in growth), default=1)
    return [(row, "█" * max(1, round(row[1] * _WIDTH / most))) for row in growth]


def _write_svg(path: str, growth: list[tuple[str, int]]) -> None:
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        console = Console(record=True, width=72, file=nowhere, force_terminal=True)
        for (when, count), bar in _bars(growth):
            console.print(Text(f"{shown(when):<11}{count:>8,} {bar}"))
        console.save_svg(path, title="Saves over time")
