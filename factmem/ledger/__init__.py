"""The ledger of a place: its entries, its current items, its history.

Pure functions and values. Imports `models`.

One fact on its way to the store and back:

    SingleFact, MultipleFacts   what a program saves
            |  entries.stored
            v
    StoredFact                  plain JSON: one part of an entry, as are
            |                   forgotten items and retractions
            |  entries.encoded
            v
    Entry                       one save, forgetting or detection, with its time;
            |                   the store keeps a place as a list of these
            |  Ledger.apply
            v
    Item                        one current, proposed or planned value;
            |                   a KeywordItems has all those of a keyword
            |  _reads.presented
            v
    SingleFact, MultipleFacts   what a program loads

`Trace` folds the same entries and keeps a `Life` for each item that ever was: history, changes,
compaction and purges read those. `_removal.Rest` goes the other way: it writes the entries again
without some lives. `_merging` puts the entries of two copies of a place into one order.
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
            "entries": "Entry StoredFact",
            "history": "FactChange History HistoryAction HistoryEntry",
            "ledger": "Ledger Proposal",
            "resolution": "PlacedFact",
        },
    )
