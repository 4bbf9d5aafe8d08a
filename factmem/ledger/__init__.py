"""The ledger of a place: its entries, its current items, its history.

Pure functions and values. Imports `models`.
"""

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
