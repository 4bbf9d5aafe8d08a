"""Processes of a storm: started in milliseconds, killed at any moment, read through pipes.

They are forked from a server that has imported what they need and runs no thread of its own.
"""

import multiprocessing
import os
import selectors
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from typing import Any, TypeAlias

from tests.contracts.processes import apart

__all__ = ["Line", "Process", "Tell", "apart", "heard", "running"]

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(
    [
        "factmem",
        "tests.contracts.durable",
        "cryptography.hazmat.primitives.ciphers.aead",
        "cryptography.hazmat.primitives.kdf.hkdf",
        "anyio._backends._asyncio",
        "anyio._backends._trio",
        "pytest",
        "tests.storms.storm",
    ]
)

Tell: TypeAlias = Callable[[str], None]
"""Sends a line to the parent. Once it returns, the line arrives, also if the process is killed."""

Line: TypeAlias = str


class Process:
    """A process that runs `work(tell, wait, *args)`; `wait` returns when the parent calls `go`."""

    def __init__(self, work: Callable[..., None], *args: object) -> None:
        self._here, there = _context.Pipe()
        self._process = _context.Process(target=_run, args=(work, there, args), daemon=True)
        self._process.start()
        there.close()
        self._rest = b""
        self.was_killed = False
        self.is_over = False
        """True if it ended and all its output was read."""

    def fileno(self) -> int:
        """Return the object for a selector."""
        return self._here.fileno()

    def go(self) -> None:
        """Let it start, if it still exists."""
        with suppress(BrokenPipeError):
            os.write(self._here.fileno(), b"\n")

    def kill(self) -> None:
        """Send SIGKILL; its earlier output can still be read."""
        self.was_killed = True
        self._process.kill()

    def is_heard(self, timeout: float) -> bool:
        """Return True if the process prints something, or ends, within some seconds."""
        return self._here.poll(max(0.0, timeout))

    def lines(self) -> list[Line]:
        """Return its output since the last call; waits until there is some."""
        try:
            data = os.read(self._here.fileno(), 1 << 20)
        except ConnectionResetError:
            data = b""
        if not data:
            self.is_over = True
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [line.decode() for line in lines]

    def end(self) -> int:
        """Wait for it to end, and return its exit code: the negative signal if one killed it."""
        self._process.join()
        self._here.close()
        code = self._process.exitcode
        self._process.close()
        if code is None:
            raise RuntimeError("A process that was waited for has no exit code")
        return code


def _run(work: Callable[..., None], there: Connection, args: tuple[object, ...]) -> None:
    fd = there.fileno()

    def tell(line: str) -> None:
        os.write(fd, line.encode() + b"\n")

    def wait() -> None:
        tell("ready")
        os.read(fd, 1)

    work(tell, wait, *args)


@contextmanager
def running(processes: Iterable[Process]) -> Iterator[list[Process]]:
    """Wait for all processes to be ready, start them at once, and kill the rest at the end."""
    crew = list(processes)
    try:
        for process in crew:
            if process.lines() != ["ready"]:
                raise RuntimeError("A process of the storm did not start")
        for process in crew:
            process.go()
        yield crew
    finally:
        for process in crew:
            process.kill()
            process.end()


def heard(crew: Iterable[Process]) -> Iterator[tuple[Process, list[Line]]]:
    """Yield the messages of the processes as they arrive, until all have ended."""
    with selectors.DefaultSelector() as selector:
        for process in crew:
            selector.register(process, selectors.EVENT_READ)
        while selector.get_map():
            for key, _ in selector.select():
                speaker: Any = key.fileobj
                lines = speaker.lines()
                if speaker.is_over:
                    selector.unregister(speaker)
                yield speaker, lines
