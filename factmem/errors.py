"""The exceptions of factmem, as one tree.

    FactmemError
    ├── UnboundSubjectError      a per-entity subject without its entity (ValueError)
    ├── StoredFactError          a stored value does not fit its concept's type
    ├── StorageError             the storage failed; the cause is attached
    │   ├── PlaceFullError       a save would exceed the limit of a place
    │   ├── CorruptJournalError  a file is damaged; nothing is read past the damage
    │   ├── StoreBusyError       the store's lock was held past the deadline
    │   ├── UnreachableError     a database could not be reached in time
    │   ├── UnknownOutcomeError  a commit was sent to a database, which did not answer
    │   └── DecryptionError
    │       ├── KeyRequiredError the store is encrypted, and no key was given
    │       ├── WrongKeyError    the given key opens none of the key slots
    │       └── TamperedError    a file does not verify under the right key
    ├── ExtractionError          the model's answer could not be used
    ├── ChatModelError           the model's endpoint failed or could not be reached
    ├── EmbeddingError           an embedder failed or returned an invalid vector
    ├── MemoryAccessError        a write outside a view (PermissionError)
    ├── ChangedError             a conditional write, and the state was changed since (ValueError)
    ├── InputError               an argument that is not valid, such as a value or a name
    │   ├── InputValueError      of the right type (ValueError)
    │   └── InputTypeError       of another type (TypeError)
    └── MissingExtraError        an optional package is not installed (ImportError)

`factmem.agent` has two more: `FeatureError`, which has the agent's answer, and `StepLimitError`. A
service can answer 400 to `InputError`, 403 to `MemoryAccessError`, 412 to `ChangedError` and 503 to
`StorageError`. What only a program can do wrong, such as calls of a closed store, raises a plain
`ValueError` or `TypeError`. No message contains the value of a fact, a key or a prompt.
"""

from typing import Any

from factmem.usage import ONE_CALL, Usage

__all__ = [
    "ChangedError",
    "ChatModelError",
    "CorruptJournalError",
    "DecryptionError",
    "EmbeddingError",
    "ExtractionError",
    "FactmemError",
    "InputError",
    "InputTypeError",
    "InputValueError",
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
    "UnreachableError",
    "WrongKeyError",
]


class FactmemError(Exception):
    """The base class of factmem's exceptions."""


class InputError(FactmemError):
    """An argument is not valid: a value, a name, a time, a number, a record of an import.

    The message names the argument and contains no value. Nothing was written.
    """


class InputValueError(InputError, ValueError):
    """An argument of the right type is not valid."""


class InputTypeError(InputError, TypeError):
    """An argument has the wrong type."""


class ChangedError(FactmemError, ValueError):
    """What a conditional write expected, with `if_unchanged`, is not the present state.

    Nothing was written. Read the present state, decide again, and repeat the call with it.
    """

    def __init__(self, message: str, present: Any = None) -> None:
        super().__init__(message)
        self.present: Any = present
        """The present fact as a `PlacedFact`; None if there is none."""


class UnboundSubjectError(FactmemError, ValueError):
    """A per-entity subject was used without naming its entity."""


class StoredFactError(FactmemError):
    """A stored value does not fit the type of the concept that was passed to load it.

    The stored value is unchanged. Load it with the type it was saved with, or as plain JSON with
    `load_all`.
    """


class StorageError(FactmemError):
    """The disk, the operating system or the database failed; `__cause__` has the reason.

    The save that raised it is not acknowledged. Saves acknowledged before are still stored.
    """


class PlaceFullError(StorageError):
    """A save would exceed the `PlaceLimit` of its store. Nothing was saved."""


class CorruptJournalError(StorageError):
    """A store is damaged: an acknowledged entry cannot be read.

    Nothing is overwritten. `LocalFileMemoryProvider.salvage` saves what can be read into a new
    store.
    """


class StoreBusyError(StorageError):
    """Another process or thread held the store's lock past the deadline. Nothing was written."""


class UnreachableError(StorageError):
    """A database could not be reached in time, or closed the connection. Nothing was written.

    `__cause__` has the reason. The same call may succeed later.
    """


class UnknownOutcomeError(StorageError):
    """A commit was sent to a database, which did not answer. The change may be stored or not.

    It is safe to save the same fact object again: a stored value is confirmed, not duplicated, and
    the history may show one more confirmation. To check first, load the concept and compare the ids
    of its facts. After an `amend`, check `entries` first.
    """


class DecryptionError(StorageError):
    """Encrypted files cannot be read. The files are unchanged."""


class KeyRequiredError(DecryptionError):
    """The store is encrypted and no key was given."""


class WrongKeyError(DecryptionError):
    """The given key opens none of the store's key slots."""


class TamperedError(DecryptionError):
    """A file does not verify although the key is right: it was changed, swapped or rolled back."""


class ExtractionError(FactmemError):
    """A model's answer could not be used, even after a second request.

    Nothing was stored. `raw` is the model's last answer; the message does not quote it.
    """

    def __init__(
        self, message: str, *, raw: str = "", usage: Usage = ONE_CALL, is_cut_off: bool = False
    ) -> None:
        super().__init__(message)
        self.raw = raw
        self.is_cut_off = is_cut_off
        """Whether the model's output limit cut the answer off."""
        self.usage: Usage = usage
        """The cost of the model calls; one call of unknown tokens unless the model reports more."""


class ChatModelError(FactmemError):
    """A chat model's endpoint failed or could not be reached; `__cause__` has the reason.

    Nothing was stored, and the message history is unchanged.
    """

    def __init__(self, message: str, *, status: int | None = None, usage: Usage = ONE_CALL) -> None:
        super().__init__(message)
        self.status = status
        """The HTTP status; None if the endpoint did not answer."""
        self.usage: Usage = usage
        """The cost of the model calls, including the failed one."""


class EmbeddingError(FactmemError):
    """An embedder failed, could not be reached, or returned an invalid vector.

    `__cause__` has the reason, if another exception caused it. No fact is affected: missing vectors
    are requested again later.
    """

    def __init__(self, message: str, *, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        """The HTTP status; None if the endpoint did not answer."""


class MemoryAccessError(FactmemError, PermissionError):
    """A write to a place that a view does not permit. Nothing was written."""


class MissingExtraError(FactmemError, ImportError):
    """An optional package is not installed. The message names the extra to install."""
