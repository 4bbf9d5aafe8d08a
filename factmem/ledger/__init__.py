"""The ledger of a place: its entries, its current items, its history.

Pure functions and values. Imports `models`.
"""

from typing import TYPE_CHECKING

from factmem._lazy import lazily

if TYPE_CHECKING:
    from factmem.ledger.entries import Entry as Entry
    from factmem.ledger.entries import StoredFact as StoredFact
    from factmem.ledger.history import FactChange as FactChange
    from factmem.ledger.history import History as History
    from factmem.ledger.history import HistoryAction as HistoryAction
    from factmem.ledger.history import HistoryEntry as HistoryEntry
    from factmem.ledger.ledger import Ledger as Ledger
    from factmem.ledger.ledger import Proposal as Proposal
    from factmem.ledger.resolution import PlacedFact as PlacedFact
else:
    __getattr__, __dir__, __all__ = lazily(
        __name__,
        {
            "entries": ["Entry", "StoredFact"],
            "history": ["FactChange", "History", "HistoryAction", "HistoryEntry"],
            "ledger": ["Ledger", "Proposal"],
            "resolution": ["PlacedFact"],
        },
    )
