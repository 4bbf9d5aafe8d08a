"""The command stats: the contents of a store and its growth."""

from collections import Counter

import typer

from factmem._cli.opening import Store, run
from factmem._cli.options import Json
from factmem._cli.output import counted, print_json, print_line, print_table
from factmem._cli.place_names import place_name
from factmem.providers.results import PlaceInfo

__all__ = ["app"]

app: typer.Typer = typer.Typer()
"""The commands of this module."""

_WIDTH = 40
_LISTED = 10


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
def stats(ctx: typer.Context, as_json: Json = False) -> None:
    """Count places, values and bytes, by place and by concept, and chart saves over time."""
    found = run(ctx, _count_store)
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
    largest = sorted(found.places, key=lambda info: (-info.count, place_name(info.place)))[:_LISTED]
    print_table(
        ("place", "values", "bytes"),
        [(place_name(info.place), info.count, info.bytes) for info in largest],
    )
    print_line("")
    print_table(("concept", "values"), found.values.most_common(_LISTED))
    print_line("")
    growth = found.growth(31)
    most = max((count for _, count in growth), default=1)
    bars = [(when, count, "█" * max(1, round(count * _WIDTH / most))) for when, count in growth]
    print_table(("saved", "entries", ""), bars)
