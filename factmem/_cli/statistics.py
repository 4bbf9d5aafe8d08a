"""The command stats: the contents of a store and its growth."""

from collections import Counter

from factmem._cli.commands import command
from factmem._cli.opening import Store
from factmem._cli.output import Answer, Table, counted
from factmem._cli.place_names import place_name

_WIDTH = 40
_LISTED = 10
_MOST_DAYS = 31


@command()
async def stats(store: Store) -> Answer:
    """Count places, values and bytes, by place and by concept, and chart saves over time."""
    places = await store.places()
    values, saves = Counter[str](), Counter[str]()
    for info in places:
        for fact in await store.load_all(info.subject, info.scope):
            values[fact.concept.keyword] += len(fact.values)
        for entry in await store.entries(info.subject, info.scope):
            if entry.get("facts"):
                saves[entry["at"][:10]] += 1
    count, size = sum(info.count for info in places), sum(info.bytes for info in places)
    largest = sorted(places, key=lambda info: (-info.count, place_name(info.place)))[:_LISTED]
    named = ((place_name(info.place), info.count, info.bytes) for info in largest)
    return Answer(
        {
            "places": len(places),
            "values": count,
            "bytes": size,
            "saves": saves.total(),
            "concepts": dict(values.most_common()),
            "saves_by_day": dict(sorted(saves.items())),
        },
        f"{counted(len(places), 'place')}, {counted(count, 'value')}, {counted(size, 'byte')}",
        "",
        Table(("place", "values", "bytes"), named),
        "",
        Table(("concept", "values"), values.most_common(_LISTED)),
        "",
        _chart(saves),
    )


def _chart(saves: Counter[str]) -> Table:
    """Return a bar for each day, or for each month of a longer time."""
    growth = saves
    if len(saves) > _MOST_DAYS:
        growth = Counter[str]()
        for day, count in saves.items():
            growth[day[:7]] += count
    most = max(growth.values(), default=1)
    bars = (
        (when, count, "█" * max(1, round(count * _WIDTH / most)))
        for when, count in sorted(growth.items())
    )
    return Table(("saved", "entries", ""), bars)
