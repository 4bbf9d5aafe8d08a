"""Exit codes of the `factmem` command, and their errors."""

from enum import IntEnum

from factmem.errors import (
    ChangedError,
    CorruptJournalError,
    DecryptionError,
    FactmemError,
    InputError,
    KeyRequiredError,
    StoreBusyError,
    TamperedError,
)


class ExitCode(IntEnum):
    """The exit codes of the command. Code 2 is also that of an invalid option."""

    OK = 0
    FAILED = 1
    USAGE = 2
    NOTHING = 3
    DAMAGED = 4
    KEY = 5
    REFUSED = 6
    BUSY = 7
    INTERRUPTED = 130
    BROKEN_PIPE = 141


class CommandError(Exception):
    """Ends a command with a message and an exit code."""

    def __init__(self, message: str, code: ExitCode = ExitCode.USAGE) -> None:
        super().__init__(message)
        self.code = code


def code_of(exc: Exception) -> ExitCode:
    """Return the exit code of an error that a command raised."""
    if isinstance(exc, CommandError):
        return exc.code
    if isinstance(exc, TamperedError | CorruptJournalError):
        return ExitCode.DAMAGED
    if isinstance(exc, DecryptionError):
        return ExitCode.KEY
    if isinstance(exc, StoreBusyError):
        return ExitCode.BUSY
    # A ValueError of Python is one of a wrong argument, too.
    is_argument = isinstance(exc, InputError | ChangedError) or not isinstance(exc, FactmemError)
    is_argument = is_argument and isinstance(exc, ValueError | InputError)
    return ExitCode.USAGE if is_argument else ExitCode.FAILED


def message_of(exc: Exception) -> str:
    """Return the message to print for an error."""
    if isinstance(exc, KeyRequiredError):
        return (
            "The store is encrypted: pass --key-env, --key-file, --passphrase or --keyring before "
            "the command"
        )
    if isinstance(exc, FactmemError | ValueError | CommandError):
        return str(exc)
    if isinstance(exc, FileNotFoundError) and not exc.filename:  # of `os.getcwd`
        return "The current folder was removed: change into another one, or pass absolute paths"
    if isinstance(exc, OSError):
        return f"{exc.strerror or type(exc).__name__}: {exc.filename}" if exc.filename else str(exc)
    return f"{type(exc).__name__}: {exc}"
