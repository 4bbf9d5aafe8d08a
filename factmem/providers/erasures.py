"""Detection of erasures within one process, for stores that do not override `moment`."""

from collections import Counter
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from threading import Lock
from weakref import WeakValueDictionary

import anyio

from factmem.models.places import Identity, MemoryScope, MemorySubject, Place, identity_of
from factmem.providers._provider import AgentMemoryProvider
from factmem.providers.results import Moment

__all__ = ["erasing"]


_POLL_SECONDS = 0.005
"""The interval at which an erasure checks for running writes. It polls because the writes may run
in other event loops, and anyio has no event across loops. A write takes milliseconds, and erasures
are rare."""


class _Erasures:
    """The erasures of one provider and its running writes, by the hash of their place."""

    def __init__(self, provider: AgentMemoryProvider) -> None:
        self._provider = provider  # kept alive: its id is the key of `_by_provider`
        self._lock = Lock()
        self.known: Counter[int] = Counter()
        """How often an erasure has begun or ended."""
        self._begun: Counter[int] = Counter()
        self.writes: Counter[int] = Counter()

    def begin(self, place: int) -> None:
        with self._lock:
            self._begun[place] += 1
            self.known[place] += 1

    def end(self, place: int) -> None:
        with self._lock:
            self.known[place] += 1  # a chat read during the erasure may contain erased facts
            self._begun[place] -= 1

    @contextmanager
    def writing(self, read: "_ReadPlace") -> Generator[bool]:
        """Register a write to a place; yield False if the place was erased: do not write then.

        An erasure that begins during the block waits for its end.
        """
        place = hash(read.identity)
        with self._lock:
            is_free = self.known[place] == read.known and not self._begun[place]
            self.writes[place] += is_free
        try:
            yield is_free
        finally:
            with self._lock:
                self.writes[place] -= is_free


_by_provider: "WeakValueDictionary[int, _Erasures]" = WeakValueDictionary()
"""Keyed by the provider's id, because an application's class may be unhashable or not support weak
references. An entry lives as long as a moment or an erasure refers to it."""
_lock = Lock()


@dataclass(frozen=True, slots=True, eq=False)
class _ReadPlace:
    """The state of a place when a chat was read."""

    identity: Identity
    erasures: _Erasures
    known: int
    had_facts: bool

    async def is_erased(self, provider: AgentMemoryProvider) -> bool:
        """Whether the place has lost all of its facts, such as by a provider's own erasure."""
        place = Place.of_identity(self.identity)
        return self.had_facts and not await provider.load_all(place.subject, place.scope)


async def moment_of(
    provider: AgentMemoryProvider, subject: MemorySubject, scope: MemoryScope
) -> Moment:
    """Return the present moment of a place, for `unless_erased`."""
    identity, erasures = identity_of(subject, scope), _erasures_of(provider)
    known = erasures.known[hash(identity)]  # before reading, so that no erasure is missed
    has_facts = bool(await provider.load_all(subject, scope))
    return Moment(_ReadPlace(identity, erasures, known, has_facts))


@asynccontextmanager
async def unless_erased(
    provider: AgentMemoryProvider, since: Moment | None
) -> AsyncGenerator[bool]:
    """Yield whether a place may be written, because it was not erased since a moment.

    It detects the erasures in this process that factmem does or `erasing` announces, and places
    that have lost all of their facts. It does not detect the unannounced erasure of an empty place.
    """
    read = since.state if since is not None else None
    if isinstance(read, _ReadPlace):
        with read.erasures.writing(read) as is_free:
            yield is_free and not await read.is_erased(provider)
    else:
        yield True


@asynccontextmanager
async def erasing(
    provider: AgentMemoryProvider, subject: MemorySubject, scope: MemoryScope
) -> AsyncGenerator[None]:
    """Announce an erasure that a provider does by a method of its own.

        async with erasing(provider, USER.of("alice"), SCOPE):
            await provider.wipe("alice")

    A detection in this process whose chat was read before the end of the block records nothing in
    the place. The block begins after running writes to the place have ended.

    Without the announcement, detections notice the erasure of a place that had facts, because the
    facts are gone. They do not notice the erasure of an empty place, and may record facts in it
    afterwards. factmem's stores need no announcement: their `erase` is noticed in all processes.
    """
    place, erasures = hash(identity_of(subject, scope)), _erasures_of(provider)
    erasures.begin(place)
    try:
        while erasures.writes[place]:  # noqa: ASYNC110 - writes may run in other event loops
            await anyio.sleep(_POLL_SECONDS)
        yield
    finally:
        erasures.end(place)


def _erasures_of(provider: AgentMemoryProvider) -> _Erasures:
    with _lock:
        found = _by_provider.get(id(provider))
        if found is None:
            found = _by_provider[id(provider)] = _Erasures(provider)
        return found
