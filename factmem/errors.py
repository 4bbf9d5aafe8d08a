"""What can go wrong, as one tree.

    FactmemError
    ├── UnboundSubjectError      a per-entity subject without its entity (ValueError)
    ├── StoredFactError          a stored value no longer fits its concept's type
    ├── StorageError             the disk refused; the cause is attached
    │   ├── CorruptJournalError  a file is damaged; nothing is read past the damage
    │   ├── StoreBusyError       another process held the store's lock too long
    │   └── UnknownOutcomeError  a commit was sent to a database, and no answer came
    ├── DecryptionError
    │   ├── KeyRequiredError     an encrypted store, and no key was given
    │   ├── WrongKeyError        no key slot opens with the key given
    │   └── TamperedError        a file does not verify under the right key
    ├── ExtractionError          the model's answer could not be used
    ├── ChatModelError           the model's endpoint refused or could not be reached
    ├── EmbeddingError           an embedder failed, or what it gave is no vector
    ├── MemoryAccessError        a write outside a view (PermissionError)
    └── MissingExtraError        an optional package is not installed (ImportError)

Agents have two more: `FeatureError`, which holds the answer, and `StepLimitError`. A caller's mistake is a `ValueError` or a `TypeError`. No message holds a fact's value, a key or a
prompt.
"""

from factmem.usage import ONE_CALL, Usage

__all__ = [
    "ChatModelError",
    "CorruptJournalError",
    "DecryptionError",
    "EmbeddingError",
    "ExtractionError",
    "FactmemError",
    "KeyRequiredError",
    "MemoryAccessError",
    "MissingExtraError",
    "PlaceFullError",
    "StorageError",
    "StoreBusyError",
    "StoredFactError",
    "TamperedError",
    "UnboundSubjectError",
    "UnknownOutcomeError",
    "WrongKeyError",
]


class FactmemError(Exception):
    """Root of every error that factmem raises on its own account."""


class UnboundSubjectError(FactmemError, ValueError):
    """A per-entity subject was used without naming its entity."""


class StoredFactError(FactmemError):
    """A stored value does not fit the type of the concept that it was loaded with.

    The value stays stored as it is. Load it with the type it was saved with, or without one
    through `load_all`.
    """


class StorageError(FactmemError):
    """The disk or the operating system refused; `__cause__` says how.

    Whatever was being saved is not acknowledged; everything acknowledged before is still there.
    """


class PlaceFullError(StorageError):
    """A place holds as much as its store's `PlaceLimit` allows. Nothing was saved."""


class CorruptJournalError(StorageError):
    """A store's file is damaged: an acknowledged record cannot be read.

    Nothing is written over the damage. `LocalFileMemoryProvider.salvage` keeps a copy of the file
    and goes on with what can still be read.
    """

    def __init__(self, message: str, *, salvageable: int | None = None) -> None:
        super().__init__(message)
        self.salvageable = salvageable
        """How many records of the file can still be read; None when that is unknown."""


class StoreBusyError(StorageError):
    """Another process or thread held the store's lock past the deadline. Nothing was written."""


class UnknownOutcomeError(StorageError):
    """A commit was sent to a database and no answer came: it may or may not have been stored.

    Saving the same fact object again is safe: a stored value is confirmed, not doubled, and
    history may show one more confirmation. To find out, load the concept and compare the ids of
    its facts. After an `amend`, look at `entries` first.
    """


class DecryptionError(FactmemError):
    """Encrypted files cannot be read. The files stay as they are."""


class KeyRequiredError(DecryptionError):
    """The store is encrypted and no key was given."""


class WrongKeyError(DecryptionError):
    """None of the store's key slots opens with the key that was given."""


class TamperedError(DecryptionError):
    """A file does not verify although the key is right: it was changed, swapped or rolled back."""


class ExtractionError(FactmemError):
    """A model's answer could not be used, not even after it was asked once more.

    Nothing was stored. `raw` is the model's last answer; the message does not quote it.
    """

    def __init__(
        self,
        message: str,
        *,
        raw: str = "",
        usage: Usage = ONE_CALL,
        is_cut_off: bool = False,
    ) -> None:
        super().__init__(message)
        self.raw = raw
        self.is_cut_off = is_cut_off
        """Whether the answer ended at the model's output limit."""
        self.usage: Usage = usage
        """The cost of the model calls; one call unless the model reports more."""


class ChatModelError(FactmemError):
    """A chat model's endpoint refused, failed or could not be reached; `__cause__` says how.

    Nothing was stored, and the message history is as it was.
    """

    def __init__(self, message: str, *, status: int | None = None, usage: Usage = ONE_CALL) -> None:
        super().__init__(message)
        self.status = status
        """The HTTP status, where there was an answer."""
        self.usage: Usage = usage
        """What the calls to the model cost, the one that failed included."""


class EmbeddingError(FactmemError):
    """An embedder refused, failed, could not be reached, or gave something that is no vector.

    `__cause__` says how, where there is one. No fact is touched: vectors are made again.
    """

    def __init__(self, message: str, *, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        """The HTTP status, where there was an answer."""


class MemoryAccessError(FactmemError, PermissionError):
    """A write outside the places that a view allows. Nothing was written."""


class MissingExtraError(FactmemError, ImportError):
    """An optional package is not installed; the message names the extra that brings it."""
