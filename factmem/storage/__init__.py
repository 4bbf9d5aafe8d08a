"""Journals of records in local files, plain or encrypted.

Imports `models`. Works with bytes only, not with facts.
"""

from typing import TYPE_CHECKING

from factmem._lazy import lazily

if TYPE_CHECKING:
    from factmem.storage.base import (
        Appended,
        ErasedJournal,
        IndexedJournals,
        JournalName,
        Journals,
        JournalWriter,
        KeySlots,
        Position,
        Reading,
        Record,
        SalvagedJournal,
        Storage,
    )
    from factmem.storage.encrypted import EncryptedStorage
    from factmem.storage.simple import SimpleStorage

__all__ = [
    "Appended",
    "EncryptedStorage",
    "ErasedJournal",
    "IndexedJournals",
    "JournalName",
    "JournalWriter",
    "Journals",
    "KeySlots",
    "Position",
    "Reading",
    "Record",
    "SalvagedJournal",
    "SimpleStorage",
    "Storage",
]

if not TYPE_CHECKING:  # type checkers report a name that does not exist
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "factmem.storage.base": (
                "Appended",
                "ErasedJournal",
                "IndexedJournals",
                "JournalName",
                "JournalWriter",
                "Journals",
                "KeySlots",
                "Position",
                "Reading",
                "Record",
                "SalvagedJournal",
                "Storage",
            ),
            "factmem.storage.encrypted": ("EncryptedStorage",),
            "factmem.storage.simple": ("SimpleStorage",),
        },
    )
