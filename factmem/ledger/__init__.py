"""The ledger of a place: its entries, its current items, its history.

Pure functions and values. Imports `models`.
"""

from typing import TYPE_CHECKING

from factmem._lazy import lazily

if TYPE_CHECKING:
    from factmem.ledger.changes import FactChange
    from factmem.ledger.entries import Entry, StoredFact
    from factmem.ledger.history import History, HistoryAction, HistoryEntry
    from factmem.ledger.ledger import Ledger
    from factmem.ledger.proposals import Proposal
    from factmem.ledger.resolution import PlacedFact

__all__ = [
    "Entry",
    "FactChange",
    "History",
    "HistoryAction",
    "HistoryEntry",
    "Ledger",
    "PlacedFact",
    "Proposal",
    "StoredFact",
]

if not TYPE_CHECKING:  # type checkers report a name that does not exist
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "factmem.ledger.proposals": ("Proposal",),
            "factmem.ledger.changes": ("FactChange",),
            "factmem.ledger.entries": (
                "Entry",
                "StoredFact",
            ),
            "factmem.ledger.history": (
                "History",
                "HistoryAction",
                "HistoryEntry",
            ),
            "factmem.ledger.ledger": ("Ledger",),
            "factmem.ledger.resolution": ("PlacedFact",),
        },
    )
