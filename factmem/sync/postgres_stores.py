"""Stores in PostgreSQL without await.

Written by tests/sync/generate.py: change the async class.
"""

from factmem.providers.postgres import PostgresMemoryProvider
from factmem.sync._sql_stores import SqlStoreSync

__all__ = ["PostgresStoreSync"]


class PostgresStoreSync(SqlStoreSync[PostgresMemoryProvider]):
    """A `PostgresMemoryProvider` for code that does not use `await`.

        with PostgresStoreSync(PostgresMemoryProvider(dsn)) as store:
            store.save(fact, subject, scope)

    Each method is that of `PostgresMemoryProvider` with its name, which says more.
    """

    def migrate(self) -> None:
        """Create the tables, or migrate them to the version of this release."""
        return self._portal.call(self._wrapped.migrate)
