"""The public errors of a folder: damage and errors of the operating system, each with its path."""

import os
from typing import Protocol

from factmem.errors import StorageError
from factmem.storage._file_calls import Files
from factmem.storage._journal import Damage, journal_path


class Teller(Protocol):
    """Makes the public error of a damaged journal."""

    def error_of(self, damage: Damage, path: str) -> Exception:
        """Return the error for a damaged journal."""
        ...


class PublicErrors:
    """Converts the errors of one folder to public ones."""

    def __init__(self, files: Files, teller: Teller) -> None:
        self._files = files
        self._teller = teller

    def of(self, file: str | None) -> "_ErrorsOf":
        """Return a context that translates the errors of a journal's file, or of the store."""
        return _ErrorsOf(self, file)

    def translated(self, error: Exception, file: str | None) -> Exception:
        """Return what the context of `of` would raise for an error."""
        if not isinstance(error, Damage | OSError):
            return error
        public = self.public(error, file)
        public.__cause__ = error if isinstance(error, OSError) else None
        return public

    def public(self, error: Damage | OSError, file: str | None) -> Exception:
        """Return the public error."""
        path = self._files.path("" if file is None else journal_path(file))
        if isinstance(error, Damage):
            return self._teller.error_of(error, path)
        what = os.strerror(error.errno) if error.errno else type(error).__name__
        return StorageError(
            f"The operating system refused at {error.filename or path!r}: {what}. Fix that and "
            f"call again: this call is not acknowledged; everything saved before is intact"
        )


class _ErrorsOf:
    """Raises errors as public ones. Not a generator, which would cost each save three microseconds."""

    __slots__ = ("_errors", "_file")

    def __init__(self, errors: PublicErrors, file: str | None) -> None:
        self._errors = errors
        self._file = file

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, Damage):
            raise self._errors.public(error, self._file) from None
        if isinstance(error, OSError):
            raise self._errors.public(error, self._file) from error
