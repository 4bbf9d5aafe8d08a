"""The ledger of a place: its entries, its current items, its history.

Pure functions and values. Imports `models`.
"""

from typing import TYPE_CHECKING

from factmem._lazy import lazily

if TYPE_CHECKING:
    from factmem.ledger.condition import Condition
    from factmem.ledger.entries import Amendment, Entry, ForgottenItem, RetractedValue, StoredFact
    from factmem.ledger.history import History, HistoryAction, HistoryEntry
    from factmem.ledger.items import Item
    from factmem.ledger.ledger import Ledger, LedgerState
    from factmem.ledger.resolution import PlacedFact, Resolution, UnreadableConcept

__all__ = [
    "Amendment",
    "Condition",
    "Entry",
    "ForgottenItem",
    "History",
    "HistoryAction",
    "HistoryEntry",
    "Item",
    "Ledger",
    "LedgerState",
    "PlacedFact",
    "Resolution",
    "RetractedValue",
    "StoredFact",
    "UnreadableConcept",
]

if not TYPE_CHECKING:  # type checkers report a name that does not exist
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "factmem.ledger.condition": ("Condition",),
            "factmem.ledger.entries": (
                "Amendment",
                "Entry",
                "ForgottenItem",
                "RetractedValue",
                "StoredFact",
            ),
            "factmem.ledger.history": (
                "History",
                "HistoryAction",
                "HistoryEntry",
            ),
            "factmem.ledger.items": ("Item",),
            "factmem.ledger.ledger": (
                "Ledger",
                "LedgerState",
            ),
            "factmem.ledger.resolution": (
                "PlacedFact",
                "Resolution",
                "UnreadableConcept",
            ),
        },
    )
