"""FtsWords: the words of searches, in an FTS5 table for each of them.

Dropping its table removes the words of a place from the file, as SQLite overwrites freed pages.
Deleting single rows of FTS5 leaves their words, so that those of replaced facts stay until the
index is made again.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext

from factmem.providers._sql.session import Session
from factmem.providers.results import SearchDocument, SearchQuestion


class FtsWords:
    """The words of searches in SQLite; see `WordIndex`."""

    joined = "group_concat(w.item)"

    def holding(self, session: Session, search: int) -> str:
        return f"SELECT rowid AS item FROM words_{search} WHERE words_{search} MATCH %s"  # noqa: S608

    def asked(self, search: int, terms: Sequence[str]) -> str:
        return " AND ".join(f'"{term}"' for term in terms)

    def make(self, session: Session, search: int) -> None:
        session.rows(
            f"CREATE VIRTUAL TABLE words_{search} USING fts5(words, content='', detail=none, "
            "columnsize=0, tokenize=\"ascii tokenchars '_'\")"
        )

    def add(
        self, session: Session, search: int, documents: Sequence[tuple[int, SearchDocument]]
    ) -> None:
        statement = f"INSERT INTO words_{search} (rowid, words) VALUES (%s, %s)"  # noqa: S608
        for item, document in documents:
            session.rows(statement, [item, " ".join(document.terms)])

    def remove(self, session: Session, key: bytes, search: int, items: Sequence[int]) -> None:
        """See `WordIndex.remove`."""

    def drop(
        self, session: Session, key: bytes, search: int, removed: Collection[str] | None
    ) -> None:
        session.rows(f"DROP TABLE IF EXISTS words_{search}")

    def patience(self, session: Session) -> AbstractContextManager[None]:
        return nullcontext()

    def meaning(
        self, session: Session, searches: Mapping[bytes, int], question: SearchQuestion
    ) -> None:
        """See `WordIndex.meaning`: vectors are compared in memory."""
