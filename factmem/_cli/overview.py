"""What `factmem` shows without a command: what is in the store, what waits, what to do next."""

from factmem._cli.opening import Store, has_store, run
from factmem._cli.options import GIVEN
from factmem._cli.output import Answer, Table, counted
from factmem._cli.place_names import place_name
from factmem.memory.agent_memory import AgentMemory

_LISTED = 5
_MOST_READ = 1_000
"""Places of a store up to which the inbox of all of them is read."""
_MOST_WAITING = 100
_HELP = (
    "`factmem --help` lists all commands, and `factmem COMMAND --help` shows two examples of each"
)
_FIRST = "factmem set product/my-app/user/alice city Busan"


def overview() -> Answer:
    """Return what the store of the options contains, or how to name or make one."""
    options = GIVEN.get()
    if not options.store:
        return Answer(
            {},
            "factmem shows, changes and moves what AI agents remember",
            'Name the store: `factmem --store PATH`, FACTMEM_STORE, or store = "PATH" in factmem.toml',
            _HELP,
        )
    if not options.is_database and not has_store(options.location):
        return Answer(
            {}, f"There is no store in {options.location!r} yet: `{_FIRST}` makes one", _HELP
        )
    return run(_contents)


async def _contents(store: Store) -> Answer:
    options, places = GIVEN.get(), await store.places()
    values, size = sum(each.count for each in places), sum(each.bytes for each in places)
    title = options.location if not options.is_database else "PostgreSQL"
    title += (
        f": {counted(len(places), 'place')}, {counted(values, 'value')}, {counted(size, 'byte')}"
    )
    newest = sorted(places, key=lambda each: str(each.newest), reverse=True)[:_LISTED]
    rows = ((place_name(each.place), each.count, each.newest) for each in newest)
    parts: list[str | Table] = [
        title,
        Table(("place", "values", "newest"), rows),
    ]
    if len(places) > _LISTED:
        parts.append(f"and {counted(len(places) - _LISTED, 'place')} more: `factmem places`")
    if len(places) <= _MOST_READ and (
        waits := await AgentMemory(store).review.inbox(limit=_MOST_WAITING)
    ):
        least = "at least " if len(waits) == _MOST_WAITING else ""
        parts.append(f"To review: {least}{counted(len(waits), 'value')}: `factmem inbox`")
    state = await store.conversations.state()
    if state.pending or state.failed:
        chats = counted(state.pending, "conversation")
        parts.append(f"To learn: {chats}, {state.failed} given up: `factmem learn MODULE:NAME`")
    first = place_name(newest[0].place).rpartition("/")[2] if newest else None
    parts.append(f"Next: `factmem show {first}`" if first else f"Next: `{_FIRST}`")
    return Answer({}, *parts, _HELP)
