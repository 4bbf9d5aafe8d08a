"""The acknowledged saves of a storm, and whether a store holds them."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from factmem import LocalFileMemoryProvider
from tests.storms.work import AGENT, LOG, PLACES, STATE, Operation, operation


@dataclass
class Faults:
    """The faults found, each as a line of text."""

    lost: list[str] = field(default_factory=list)
    invented: list[str] = field(default_factory=list)
    disordered: list[str] = field(default_factory=list)
    torn: list[str] = field(default_factory=list)
    """Saves of several facts of which a part is there."""
    errors: list[str] = field(default_factory=list)

    @property
    def count(self) -> int:
        """The number of faults."""
        return sum(map(len, vars(self).values()))

    def __bool__(self) -> bool:
        return self.count > 0

    def __str__(self) -> str:
        told = ", ".join(f"{name} {len(found)}" for name, found in vars(self).items())
        first = next((f"; first: {found[0]}" for found in vars(self).values() if found), "")
        return told + first[:500]


class Acknowledged:
    """The progress of each lane, and when each of its operations began and ended."""

    def __init__(self) -> None:
        self.last: dict[str, int] = {}
        self.times: dict[tuple[str, int], tuple[int, int]] = {}
        self.saved: list[set[str]] = [set() for _ in PLACES]
        """By place, what was added to the log."""
        self.doomed: dict[str, int] = {}
        """Values that some acknowledged or running operation forgets: by value, since
        when it may have been forgotten."""
        self.unseen: list[tuple[str, int]] = []
        """Values that a look did not find, and when the look was over."""
        self.forgotten: set[str] = set()

    def take(self, line: str) -> None:
        """Record what a writer reported of a finished operation."""
        lane, *numbers = line.split()
        number, begin, end = map(int, numbers)
        if number != self.last.get(lane, 0) + 1:
            raise RuntimeError(f"Lane {lane} told of {number} after {self.last.get(lane, 0)}")
        self.last[lane] = number
        self.times[lane, number] = (begin, end)
        done, following = operation(lane, number), operation(lane, number + 1)
        if done.kind == "forget":
            self.forgotten.update(done.values)
        else:
            self.saved[done.place].update(done.values)
        if following.kind == "forget":
            for value in following.values:
                self.doomed.setdefault(value, end)

    def under_way(self) -> list[Operation]:
        """Return what may have been done and was not acknowledged: one operation per lane."""
        return [operation(lane, last + 1) for lane, last in self.last.items()]

    async def look(self, store: LocalFileMemoryProvider, place: int, faults: Faults) -> None:
        """Note, while writers are at work, what was acknowledged by now and cannot be read.

        Whether it had been forgotten by then is judged in the end: a writer may have gone on to
        forget it, and what it told last has not been heard yet.
        """
        wanted = set(self.saved[place])
        found = [
            value for fact in await store.load(LOG, PLACES[place], AGENT) for value in fact.values
        ]
        over = time.monotonic_ns()
        missing = wanted.difference(found)
        self.unseen += [(value, over) for value in missing if not self._may_be_gone(value, over)]
        if len(set(found)) < len(found):
            faults.invented.append("a value is there twice")

    def _may_be_gone(self, value: str, when: int) -> bool:
        return self.doomed.get(value, when) < when

    async def check(
        self, opened: Callable[[], LocalFileMemoryProvider], lanes: Iterable[str]
    ) -> Faults:
        """Check that a store holds what was acknowledged, in order, and nothing else.

        Args:
            opened: Returns a new store on the folder.
            lanes: All lanes that were begun, also those that told of nothing.
        """
        for lane in lanes:
            self.last.setdefault(lane, 0)
        faults = Faults()
        unseen = [value for value, over in self.unseen if not self._may_be_gone(value, over)]
        faults.lost += [f"not seen: {value[:40]}" for value in unseen]
        for place in range(len(PLACES)):
            try:
                async with opened() as store:
                    await self._check_place(store, place, faults)
                    await store.verify()
            except Exception as exc:
                faults.errors.append(f"{type(exc).__name__}: {exc}")
        return faults

    async def _check_place(
        self, store: LocalFileMemoryProvider, place: int, faults: Faults
    ) -> None:
        facts = await store.load(LOG, PLACES[place], AGENT)
        found = [value for fact in facts for value in fact.values]
        pending = [todo for todo in self.under_way() if todo.place == place]
        maybe = {value for todo in pending if todo.kind != "forget" for value in todo.values}
        dropped = {value for todo in pending if todo.kind == "forget" for value in todo.values}
        wanted = self.saved[place] - self.forgotten
        faults.lost += [value[:40] for value in wanted - dropped - set(found)]
        faults.invented += [value[:40] for value in set(found) - wanted - maybe]
        faults.invented += ["a value is there twice"] * (len(found) - len(set(found)))
        for todo in pending:
            if todo.kind == "both" and len(set(todo.values) & set(found)) == 1:
                faults.torn.append(todo.values[0][:40])
        self._check_order(found, faults)
        states = await store.load(STATE, PLACES[place], AGENT)
        self._check_state([fact.value for fact in states], place, pending, faults)

    def _check_order(self, found: Sequence[str], faults: Faults) -> None:
        """Check that no save is listed before one that had ended before it began."""
        latest = 0
        lanes: dict[str, int] = defaultdict(int)
        for value in found:
            lane, number = _origin(value)
            begin, end = self.times.get((lane, number), (0, 1 << 62))
            if latest > end or lanes[lane] > number:
                faults.disordered.append(value[:40])
            latest, lanes[lane] = max(latest, begin), number

    def _check_state(
        self, current: Sequence[str], place: int, pending: Sequence[Operation], faults: Faults
    ) -> None:
        """Check that the current value is one after whose save no other one began."""
        begun = {
            key: times
            for key, times in self.times.items()
            if operation(*key).state is not None and operation(*key).place == place
        }
        if not current:
            faults.lost += ["there is no state"] * bool(begun)
            return
        (value,) = current
        origin = _origin(value)
        if operation(*origin).state != value:
            faults.invented.append(value[:40])
        elif origin in begun:
            end = begun[origin][1]
            if any(begin > end for begin, _ in begun.values()):
                faults.disordered.append(f"state {value[:40]}")
        elif value not in {todo.state for todo in pending}:
            faults.invented.append(value[:40])


def _origin(value: str) -> tuple[str, int]:
    lane, number, _ = value.split(":", 2)
    return lane, int(number)
