"""SQLite's global mutexes in a forked child.

A child has only the thread that forked. If another one was inside SQLite, for whatever database and
library, its mutex stays locked in the child, which hangs at its first allocation. `malloc` and
Python reset their locks after a fork, and so does this module for those of SQLite. To take
them before the fork instead would be a deadlock: Python's `sqlite3` frees memory under the
interpreter's lock.

What they guard in a program without a shared cache: counters of memory, the state of the generator
of random numbers, and the list of open files, which a child of this package does not share.
"""

from contextlib import suppress

_MUTEXES = range(2, 14)
"""SQLITE_MUTEX_STATIC_*"""


def free_mutexes() -> None:
    """Reset the locked mutexes. Without effect where SQLite is built into the interpreter."""
    with suppress(ImportError, AttributeError, OSError):
        import _sqlite3
        from ctypes import CDLL, PyDLL, c_int, c_void_p

        library, system = PyDLL(_sqlite3.__file__), CDLL(None)
        alloc, attempt, leave = (
            getattr(library, f"sqlite3_mutex_{name}") for name in ("alloc", "try", "leave")
        )
        alloc.argtypes, alloc.restype = [c_int], c_void_p
        attempt.argtypes = leave.argtypes = [c_void_p]
        system.pthread_mutex_init.argtypes = [c_void_p, c_void_p]
        for number in _MUTEXES:
            mutex = alloc(number)
            if mutex and attempt(mutex):  # its first member is a mutex of the system
                system.pthread_mutex_init(mutex, None)
            elif mutex:
                leave(mutex)
