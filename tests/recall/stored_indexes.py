"""The indexes of a local store, as SQL shows them."""

import sqlite3
from contextlib import closing
from pathlib import Path

__all__ = ["change_index", "index_count", "index_size"]


def index_count(root: Path) -> int:
    """Return how many places have an index."""
    with closing(sqlite3.connect(root / "facts.db")) as database:
        ((count,),) = database.execute("SELECT count(*) FROM indexes")
    return int(count)


def index_size(root: Path) -> int:
    """Return the bytes of the only index, as they are stored."""
    with closing(sqlite3.connect(root / "facts.db")) as database:
        ((size,),) = database.execute("SELECT length(bytes) FROM indexes")
    return int(size)


def change_index(root: Path, statement: str) -> None:
    """Run a statement that changes the only index."""
    with closing(sqlite3.connect(root / "facts.db")) as database, database:
        assert database.execute(statement).rowcount == 1
