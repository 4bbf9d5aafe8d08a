"""WarmConnection: the connection that an event loop uses for some microseconds."""

import sqlite3
import threading


class WarmConnection:
    """The connection for event loops, locked until `release`."""

    __slots__ = ("_epoch", "_lock", "db")

    def __init__(self, db: sqlite3.Connection, lock: threading.Lock, epoch: int) -> None:
        self.db = db
        self._lock = lock
        self._epoch = epoch

    def version(self) -> tuple[int, int]:
        """Return a mark that changes with each commit of another connection."""
        (version,) = self.db.execute("PRAGMA data_version").fetchone()
        return self._epoch, version

    def release(self) -> None:
        """Unlock the connection."""
        self._lock.release()
