"""The check of the store that exports and imports have in common."""

from factmem._arguments import kind_of
from factmem.providers.base import FactStore, fact_store


def check_store(store: object, name: str) -> None:
    """Raise `TypeError` if an argument is not a `FactStore`."""
    if not isinstance(store, FactStore):
        raise TypeError(
            f"{name} must be a FactStore, not {kind_of(store)}: LocalFileMemoryProvider(path)"
        )
    fact_store(store)
