"""Erasures within one process, for providers that cannot compare moments themselves."""

from collections import Counter
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from threading import Lock
from weakref import WeakSet, WeakValueDictionary

import anyio

from factmem.models.places import Identity, MemoryScope, MemorySubject, identity_of
from factmem.providers.base import AgentMemoryProvider

__all__ = ["Watch", "erasing", "watch"]


_POLL_SECONDS = 0.005
"""The interval at which an erasure checks for running writes. They may belong to other event loops,
which have no common event; a write takes milliseconds, and erasures are rare."""


class Watch:
    """A place that is watched for erasures, from now until this object is dropped."""

    def __init__(self, erasures: "_Erasures", identity: Identity) -> None:
        self._erasures = erasures
        self.identity: Identity = identity
        self.is_erased: bool = False

    @contextmanager
    def writing(self) -> Generator[bool]:
        """Hold a write to the place; give False where the place was erased and it must not begin.

        An erasure that begins in the block waits for its end.
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
    """The watches of one provider. No name of a place stays here after its last watch."""

    def __init__(self, provider: AgentMemoryProvider) -> None:
        self._provider = provider  # kept alive: its id is the key of `_by_provider`
        self.lock: Lock = Lock()
        self.watches: WeakSet[Watch] = WeakSet()
        self.begun: Counter[Identity] = Counter()
        """The erasures under way, by place."""
        self.writes: Counter[Identity] = Counter()
        """The writes under way, by place."""

    def begin(self, identity: Identity) -> None:
        with self.lock:
            self.begun[identity] += 1
            self._note(identity)

    def end(self, identity: Identity) -> None:
        with self.lock:
            self._note(identity)  # a chat read during the erasure may hold erased facts
            _count_down(self.begun, identity)

    def _note(self, identity: Identity) -> None:
        for each in self.watches:
            if each.identity == identity:
                each.is_erased = True


_by_provider: "WeakValueDictionary[int, _Erasures]" = WeakValueDictionary()
"""By the provider's id: a class of the application's may be unhashable, or refuse weak references.
An entry lives as long as a watch or an erasure holds it."""
_lock = Lock()


def watch(provider: AgentMemoryProvider, subject: MemorySubject, scope: MemoryScope) -> Watch:
    """Watch a place for erasures that are announced by `erasing`."""
    erasures = _erasures_of(provider)
    watched = Watch(erasures, identity_of(subject, scope))
    with erasures.lock:
        erasures.watches.add(watched)
    return watched


@asynccontextmanager
async def erasing(
    provider: AgentMemoryProvider, subject: MemorySubject, scope: MemoryScope
) -> AsyncGenerator[None]:
    """Announce the erasure of a place around a provider's own way of erasing.

        async with erasing(provider, USER.of("alice"), SCOPE):
            await provider.wipe("alice")

    A detection in this process whose chat was read before the end of the block records nothing in
    the place. The block begins when writes to the place that are under way have ended.

    Without an announcement the erasure of a place that had facts is noticed, as they are gone; that
    of an empty place is not, and a detection under way may record facts in it. The stores of
    factmem need no announcement: their `erase` is noticed in all processes.
    """
    identity = identity_of(subject, scope)
    erasures = _erasures_of(provider)
    erasures.begin(identity)
    try:
        while erasures.writes[identity]:  # noqa: ASYNC110 - they may be in other event loops
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
