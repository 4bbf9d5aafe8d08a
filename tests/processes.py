"""Other processes: started in milliseconds, killed at any moment, read through pipes.

They are forked from a server that has imported what they need and runs no thread of its own.
"""

import multiprocessing
import os
import traceback
import warnings
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection
from typing import Any, Self, TypeAlias

import anyio

from tests.providers.home import StoreFolder

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(
    [
        "factmem",
        "tests.providers.home",
        "cryptography.hazmat.primitives.ciphers.aead",
        "cryptography.hazmat.primitives.kdf.hkdf",
        "anyio._backends._asyncio",
        "anyio._backends._trio",
        "pytest",
        "tests.storms.kill_storm",
    ]
)

Tell: TypeAlias = Callable[[str], None]
"""Sends a line to the parent. Once it returns, the line arrives, also if the process is killed."""

Line: TypeAlias = str

Call: TypeAlias = Callable[..., Coroutine[Any, Any, Any]]


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


DEADLINE = 60.0
"""Seconds after which a process that does not answer counts as hanging."""


class _Child:
    """A process that runs functions; results and errors come back through a pipe."""

    def __init__(self, work: Callable[..., None], *args: object) -> None:
        self._pipe, there = _context.Pipe()
        self._process = _context.Process(target=work, args=(there, *args), daemon=True)
        self._process.start()
        there.close()

    def result(self, deadline: float = DEADLINE) -> Any:
        """Return the next result, or raise the error of the call with its traceback as text."""
        if not self._pipe.poll(deadline):
            raise TimeoutError(f"Another process did not answer within {deadline:g} s")
        try:
            is_done, found = self._pipe.recv()
        except EOFError:
            self._process.join()
            raise AssertionError(
                f"Another process ended with {self._process.exitcode} before it answered"
            ) from None
        if not is_done:
            raise AssertionError(f"A call failed in another process:\n{found}")
        return found

    def kill(self) -> None:
        """End the process with SIGKILL, whatever it is doing."""
        self._process.kill()
        self._process.join()
        self._pipe.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.kill()


class OtherProcess(_Child):
    """A process with its own store on a folder, which stays open between the calls.

    Each call runs on a new event loop there, as `asyncio.run` for each job does.
    """

    def __init__(self, home: StoreFolder, backend: str = "asyncio") -> None:
        super().__init__(_serve, home, backend)

    def begin(self, call: Call, *args: object) -> None:
        """Let the process await `call(store, *args)`; `result` waits for its end."""
        self._pipe.send((call, args))

    def run(self, call: Call, *args: object) -> Any:
        """Return the result of `await call(store, *args)` in the process."""
        self.begin(call, *args)
        return self.result()

    def close(self) -> None:
        """Close the store and end the process."""
        self._pipe.send(None)
        self.result()
        self._process.join()


def apart(work: Callable[..., Any], *args: object, deadline: float = DEADLINE) -> Any:
    """Return the result of `work(*args)` in a new process."""
    with _Child(_work, work, args) as child:
        return child.result(deadline)


def started(work: Callable[..., Any], *args: object) -> _Child:
    """Return a new process that runs `work(tell, *args)`; `result` returns what it tells."""
    return _Child(_tell, work, args)


def _serve(pipe: Connection, home: StoreFolder, backend: str) -> None:
    store = home.open()

    def run(call: Call, *args: object) -> Any:
        return anyio.run(partial(call, *args), backend=backend)

    while (request := pipe.recv()) is not None:
        call, args = request
        _answer(pipe, partial(run, call, store, *args))
    _answer(pipe, partial(run, store.aclose))


def _work(pipe: Connection, work: Callable[..., Any], args: tuple[object, ...]) -> None:
    _answer(pipe, partial(work, *args))


def _tell(pipe: Connection, work: Callable[..., Any], args: tuple[object, ...]) -> None:
    def tell(result: object) -> None:
        pipe.send((True, result))

    work(tell, *args)


def _answer(pipe: Connection, call: Callable[[], Any]) -> None:
    try:
        result = call()
    except BaseException:
        pipe.send((False, traceback.format_exc()))
    else:
        pipe.send((True, result))


def fork() -> int:
    """Fork like `os.fork`, also beside other threads."""
    with warnings.catch_warnings():
        # Python 3.12 and newer warn about exactly this.
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()
