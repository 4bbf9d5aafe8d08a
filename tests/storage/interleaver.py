"""Actors that run at once, one step at a time: in which order, a seed says.

Each actor is a thread, but only one of them ever runs. It gives way before a file call, or where it
has to wait for a lock; who goes on is drawn. So the same seed gives the same run, and what comes of
an unlucky order is found without luck.
"""

import random
import threading
from collections.abc import Callable, Mapping

from tests.storage.memory_disk import MemoryDisk

__all__ = ["SharedDisk", "Stage", "StageLock"]


class _Actor:
    def __init__(self, name: str) -> None:
        self.name = name
        self.turn = threading.Semaphore(0)
        self.can_go_on: Callable[[], bool] = _always


def _always() -> bool:
    return True


class Stage:
    """Runs one actor at a time."""

    def __init__(self, rng: random.Random, *, share: float = 0.5) -> None:
        self._rng = rng
        self._share = share
        self._actors: list[_Actor] = []
        self._on: _Actor | None = None
        self._is_over = threading.Event()
        self._errors: list[Exception] = []

    def run(self, parts: Mapping[str, Callable[[], None]]) -> None:
        """Run all parts to their ends, and raise what one of them raised, or a deadlock."""
        threads: list[threading.Thread] = []
        for name, part in parts.items():
            actor = _Actor(name)
            self._actors.append(actor)
            threads.append(threading.Thread(target=self._play, args=(actor, part), daemon=True))
        for thread in threads:
            thread.start()
        self._hand_on()
        self._is_over.wait()
        self._on = None
        if self._errors:
            raise self._errors[0]
        for thread in threads:
            thread.join()

    def _play(self, actor: _Actor, part: Callable[[], None]) -> None:
        actor.turn.acquire()
        try:
            part()
        except Exception as exc:
            self._errors.append(exc)
        self._actors.remove(actor)
        self._hand_on()

    def _hand_on(self) -> None:
        ready = [actor for actor in self._actors if actor.can_go_on()]
        if not ready:
            if self._actors:
                self._errors.append(AssertionError("every actor waits for another"))
            self._is_over.set()
            return
        self._on = self._rng.choice(ready)
        self._on.turn.release()

    def give_way(self) -> None:
        """Perhaps switch to another actor; without effect outside of a stage."""
        if self._on is not None and self._rng.random() < self._share:
            self._switch(self._on)

    def _switch(self, me: _Actor) -> None:
        self._hand_on()
        me.turn.acquire()

    def wait_until(self, can_go_on: Callable[[], bool]) -> None:
        """Let others run until a condition holds."""
        me = self._on
        while not can_go_on():
            assert me is not None, "there is no other actor to wait for"
            me.can_go_on = can_go_on
            self._switch(me)
            me.can_go_on = _always


class StageLock:
    """A mutex of the actors on a stage, instead of `threading.Lock`."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._is_held = False

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Wait for the lock and take it."""
        self._stage.wait_until(lambda: not self._is_held)
        self._is_held = True
        return True

    def release(self) -> None:
        """Release it."""
        self._is_held = False

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *exc: object) -> None:
        self.release()


class SharedDisk(MemoryDisk):
    """A disk that the actors of a stage share."""

    def __init__(self, stage: Stage, *, honours_locks: bool = True) -> None:
        super().__init__()
        self.pause = stage.give_way
        self._lock = StageLock(stage)
        self._honours_locks = honours_locks

    def take_lock(self) -> None:
        """Wait for the lock; without effect where locks do not work, as on some network folders."""
        if self._honours_locks:
            self._lock.acquire()

    def release_lock(self) -> None:
        """Release the lock."""
        self._lock.release()
