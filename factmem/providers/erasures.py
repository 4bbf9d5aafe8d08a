"""Detection of erasures within one process, for stores that do not override `moment`."""

from collections import Counter
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from threading import Lock
from weakref import WeakSet, WeakValueDictionary

import anyio

from factmem.models.places import Identity, MemoryScope, MemorySubject, Place, identity_of
from factmem.providers._provider import AgentMemoryProvider
from factmem.providers.results import Moment

__all__ = ["erasing"]


_POLL_SECONDS = 0.005
"""The interval at which an erasure checks for running writes. It polls because the writes may run
in other event loops, and anyio has no event across loops. A write takes milliseconds, and erasures
are rare."""


class Watch:
    """A place that is watched for erasures until this object is garbage collected."""

    def __init__(self, erasures: "_Erasures", identity: Identity) -> None:
        self._erasures = erasures
        self.identity: Identity = identity
        self.is_erased: bool = False

    @contextmanager
    def writing(self) -> Generator[bool]:
        """Register a write to the place; yield False if the place was erased: do not write then.

        An erasure that begins during the block waits for its end.
        """
        erasures = self._erasures
        with erasures.lock:
            is_free = not (self.is_erased or erasures.begun[self.identity])
            if is_free:
                erasures.writes[self.identity] += 1
        try:
            yield is_free
        finally:
            if is_free:
                with erasures.lock:
                    _count_down(erasures.writes, self.identity)


class _Erasures:
    """The watches of one provider. The name of a place is dropped with its last watch."""

    def __init__(self, provider: AgentMemoryProvider) -> None:
        self._provider = provider  # kept alive: its id is the key of `_by_provider`
        self.lock: Lock = Lock()
        self.watches: WeakSet[Watch] = WeakSet()
        self.begun: Counter[Identity] = Counter()
        """The number of running erasures, by place."""
        self.writes: Counter[Identity] = Counter()
        """The number of running writes, by place."""

    def begin(self, identity: Identity) -> None:
        with self.lock:
            self.begun[identity] += 1
            self._note(identity)

    def end(self, identity: Identity) -> None:
        with self.lock:
            self._note(identity)  # a chat read during the erasure may contain erased facts
            _count_down(self.begun, identity)

    def _note(self, identity: Identity) -> None:
        for each in self.watches:
            if each.identity == identity:
                each.is_erased = True


_by_provider: "WeakValueDictionary[int, _Erasures]" = WeakValueDictionary()
"""Keyed by the provider's id, because an application's class may be unhashable or not support weak
references. An entry lives as long as a watch or an erasure refers to it."""
_lock = Lock()


def _watch(provider: AgentMemoryProvider, subject: MemorySubject, scope: MemoryScope) -> Watch:
    """Watch a place for erasures that `erasing` announces."""
    erasures = _erasures_of(provider)
    watched = Watch(erasures, identity_of(subject, scope))
    with erasures.lock:
        erasures.watches.add(watched)
    return watched


@dataclass(frozen=True, slots=True, eq=False)
class _ReadPlace:
    """The state of a place when a chat was read."""

    watch: Watch
    had_facts: bool

    async def is_erased(self, provider: AgentMemoryProvider) -> bool:
        """Whether the place has lost all of its facts, such as by a provider's own erasure."""
        place = Place.of_identity(self.watch.identity)
        return self.had_facts and not await provider.load_all(place.subject, place.scope)


async def moment_of(
    provider: AgentMemoryProvider, subject: MemorySubject, scope: MemoryScope
) -> Moment:
    """Return the present moment of a place, for `unless_erased`."""
    watched = _watch(provider, subject, scope)  # before reading, so that no erasure is missed
    return Moment(_ReadPlace(watched, bool(await provider.load_all(subject, scope))))


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
        with read.watch.writing() as is_free:
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
    identity = identity_of(subject, scope)
    erasures = _erasures_of(provider)
    erasures.begin(identity)
    try:
        while erasures.writes[identity]:  # noqa: ASYNC110 - writes may run in other event loops
            await anyio.sleep(_POLL_SECONDS)
        yield
    finally:
        erasures.end(identity)


def _erasures_of(provider: AgentMemoryProvider) -> _Erasures:
    with _lock:
        found = _by_provider.get(id(provider))
        if found is None:
            found = _by_provider[id(provider)] = _Erasures(provider)
        return found


def _count_down(counts: Counter[Identity], identity: Identity) -> None:
    counts[identity] -= 1
    if not counts[identity]:
        del counts[identity]
