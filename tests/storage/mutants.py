"""Every rule of the protocol, broken: what is taken out of the code, and who must notice.

A mutant replaces pieces of functions' source. Where a piece is not there any more, the mutant says
so: whoever moves a rule moves its mutant too. Where two rules stand in for each other, one mutant
breaks both.
"""

import inspect
import sys
import textwrap
from dataclasses import dataclass
from types import FunctionType
from typing import Any, Literal, NamedTuple

import pytest

from factmem.storage._codec import PlainCodec, _PlainSealer
from factmem.storage._folder import JournalFolder
from factmem.storage._journal import Place, _Reader
from factmem.storage._keys import StoreKeys
from factmem.storage._sealed import KeyRing, SealedCodec
from factmem.storage._writer import FolderWriter
from tests.storage.interleaver import SharedDisk
from tests.storage.stores import PLAIN, SEALED, Kind

__all__ = ["MUTANTS", "Catcher", "Mutant"]

Catcher = Literal["power", "errors", "alone", "interleaving", "no locks", "damage", "forgery"]
"""Who notices; `test_protocol_mutants.py` says what each one does."""


class _Change(NamedTuple):
    """A piece of a function's source, and what is put in its place."""

    owner: Any
    """The class or module that the function is in."""
    function: str
    old: str
    new: str

    def make(self, patch: pytest.MonkeyPatch) -> None:
        function = vars(self.owner)[self.function]
        body = inspect.unwrap(function)
        assert isinstance(body, FunctionType)
        source = textwrap.dedent(inspect.getsource(body))
        assert source.count(self.old) == 1, f"the rule is not in {self.function} any more"
        scope = dict(vars(sys.modules[body.__module__]))
        code = compile(source.replace(self.old, self.new), f"broken {self.function}", "exec")
        exec(code, scope)
        patch.setattr(self.owner, self.function, scope[self.function])


@dataclass(frozen=True)
class Mutant:
    """A rule, and how it is broken."""

    rule: str
    catcher: Catcher
    changes: tuple[_Change, ...]
    kinds: tuple[Kind, ...] = (PLAIN, SEALED)

    def break_rule(self, patch: pytest.MonkeyPatch) -> None:
        """Change the code for the time of a test."""
        for change in self.changes:
            change.make(patch)


def _without(owner: Any, function: str, piece: str) -> _Change:
    """Take a statement out."""
    return _Change(owner, function, piece, "pass")


def _never(owner: Any, function: str, condition: str) -> _Change:
    """Let a condition be false."""
    return _Change(owner, function, f"if {condition}:", "if False:")


_SYNC_JOURNALS = 'self._files.sync_folder("journals")'

_VIEWS = [
    Mutant(
        "the lock is held against other processes",
        "interleaving",
        (_never(SharedDisk, "take_lock", "self._honours_locks"),),
    ),
    Mutant(
        "what others wrote is read before anything is appended",
        "power",
        (
            _Change(
                JournalFolder,
                "caught_up",
                "self._places.get(file)), False",
                "self._places.get(file)), file in self._places",
            ),
        ),
    ),
    Mutant(
        "a view counts while the whole first line is the same",
        "power",
        (
            _Change(
                JournalFolder,
                "place",
                "if known is not None and self.files.read(fd, len(known.header), 0)"
                " == known.header:",
                "if known is not None:",
            ),
        ),
    ),
    Mutant(
        "the manifest is looked at again for every write",
        "power",
        (_Change(JournalFolder, "_codec", "self.files.content(MANIFEST) == opened.raw", "True"),),
        (SEALED,),
    ),
    Mutant(
        "damage is concluded under the lock only",
        "interleaving",
        (_Change(JournalFolder, "read", 'if not self.files.exists("lock"):', "if True:"),),
        (SEALED,),
    ),
    Mutant(
        "a store made meanwhile is looked for again",
        "interleaving",
        (
            _Change(
                JournalFolder,
                "_manifest_text",
                "raw = self.files.content(MANIFEST)  #",
                "raw = None  #",
            ),
        ),
        (SEALED,),
    ),
    Mutant(
        "a save is acknowledged when it reads back",
        "no locks",
        (
            _never(
                FolderWriter,
                "_extend",
                "self._files.read(fd, len(data) + 1, before.size) != data",
            ),
        ),
    ),
]

_DURABILITY = [
    Mutant(
        "a save is acknowledged after a sync",
        "power",
        (_without(FolderWriter, "_extend", "self._files.sync(fd)"),),
    ),
    Mutant(
        "a new file is synced before it gets its name",
        "power",
        (_without(FolderWriter, "_replace", "self._files.sync(fd)"),),
    ),
    Mutant(
        "a new file is made beside its place",
        "power",
        (
            _Change(
                FolderWriter,
                "_replace",
                'temporary = f"{_path(file)}.tmp"',
                "temporary = _path(file)",
            ),
        ),
    ),
    Mutant(
        "the folder is synced when a file got its name",
        "power",
        (_without(FolderWriter, "_replace", _SYNC_JOURNALS),),
    ),
    Mutant(
        "the folder is synced before a process first acknowledges",
        "power",
        (_never(FolderWriter, "_extend", "self._folder.synced.get(file) != before.header"),),
    ),
    Mutant(
        "a manifest is synced before it gets its name",
        "power",
        (_without(JournalFolder, "write_manifest", "self.files.sync(fd)"),),
    ),
    Mutant(
        "a manifest is made beside its place",
        "power",
        (
            _Change(
                JournalFolder,
                "write_manifest",
                'self.files.create(f"{MANIFEST}.tmp")',
                "self.files.create(MANIFEST)",
            ),
        ),
    ),
    Mutant(
        "a manifest's name is synced by whoever goes by it",
        "power",
        (_Change(JournalFolder, "settle", "if self._opened is not None", "if False"),),
    ),
    Mutant(
        "the folders above a new store are synced",
        "power",
        (_without(JournalFolder, "create", "self.files.sync_parents()"),),
    ),
]

_TEARS = [
    Mutant(
        "a torn line is ended, or told from the one after it",
        "power",
        (
            _never(FolderWriter, "_extend", "before.size > before.offset"),
            _Change(_Reader, "_take_rest", "self._before.sealer.starts(line, self.last)", "()"),
        ),
    ),
    Mutant(
        "a damaged line end costs no record after it",
        "damage",
        (_Change(_Reader, "_take_rest", "self._before.sealer.starts(line, self.last)", "()"),),
    ),
    Mutant(
        "a torn line is ended by what no codec reads",
        "power",
        (_Change(FolderWriter, "_extend", "_TORN_END + data", 'b"\\n" + data'),),
    ),
    Mutant(
        "a gap is mended before the next save",
        "power",
        (_Change(FolderWriter, "_append", "if before.gaps or file", "if file"),),
    ),
    Mutant(
        "a gap that no line vouches for is no damage",
        "power",
        (_Change(Place, "damage", "if first <= self.durable:", "if True:"),),
    ),
    Mutant(
        "a line vouches for what was durable before it, not for itself",
        "power",
        (
            _Change(
                sys.modules[FolderWriter.__module__],
                "_lines",
                "sealer.seal(each, durable,",
                "sealer.seal(each, each,",
            ),
        ),
    ),
    Mutant(
        "a line vouches for what was durable before it",
        "damage",
        (
            _Change(
                sys.modules[FolderWriter.__module__],
                "_lines",
                "sealer.seal(each, durable,",
                "sealer.seal(each, 0,",
            ),
        ),
    ),
    Mutant(
        "the first line counts the records that a file was made with",
        "damage",
        (_Change(FolderWriter, "_replace", "len(keep), last + 1", "0, last + 1"),),
    ),
    Mutant(
        "the records that the first line counts are all there",
        "damage",
        (_never(Place, "damage", "self.snapshot_left > 0"),),
    ),
]

_ERRORS = [
    Mutant(
        "a failed sync is not tried again",
        "errors",
        (
            _Change(
                FolderWriter,
                "_extend",
                "self._files.sync(fd)\n",
                "try:\n"
                "        self._files.sync(fd)\n"
                "    except OSError:\n"
                "        self._files.sync(fd)\n",
            ),
        ),
    ),
    Mutant(
        "after an error a fresh file is begun",
        "alone",
        (_Change(FolderWriter, "_append", "or file in self._folder.suspects", "or False"),),
    ),
    Mutant(
        "an error is remembered",
        "alone",
        (_without(FolderWriter, "append", "self._folder.distrust(file)"),),
    ),
    Mutant(
        "what is known of a file changes after the file did, or is forgotten after an error",
        "errors",
        (
            _without(FolderWriter, "append", "self._folder.distrust(file)"),
            _Change(
                FolderWriter,
                "_replace",
                "self._files.rename(temporary",
                'self._folder.synced[file] = line + b"\\n"; self._files.rename(temporary',
            ),
        ),
    ),
    Mutant(
        "the key in use changes after the manifest did",
        "errors",
        (
            _Change(
                StoreKeys,
                "_rewrap",
                "self._write([",
                "self._mode.encryption = encryption; self._write([",
            ),
        ),
        (SEALED,),
    ),
]

_CHECKS = [
    Mutant(
        "a record is checked",
        "damage",
        (
            _never(
                _PlainSealer,
                "unseal",
                'line[-18:] != b\',"crc":"%08x"}\' % zlib.crc32(body, self._seed)',
            ),
        ),
        (PLAIN,),
    ),
    Mutant(
        "a record belongs to the first line of its file",
        "damage",
        (_Change(PlainCodec, "open_header", "_PlainSealer(zlib.crc32(line))", "_PlainSealer(0)"),),
        (PLAIN,),
    ),
    Mutant(
        "a plain file belongs to its name",
        "damage",
        (_never(PlainCodec, "open_header", 'self.file_name(tuple(fields["place"])) != file'),),
        (PLAIN,),
    ),
    Mutant(
        "a sealed file belongs to its name, by its key or by the name inside",
        "damage",
        (
            _Change(SealedCodec, "_derived", "self._store + file.encode()", "self._store"),
            _never(
                _Reader, "_check_name", "self._codec.file_name(name_of(data)) != self._before.file"
            ),
        ),
        (SEALED,),
    ),
    Mutant(
        "a first line commits to its key",
        "damage",
        (
            _never(
                SealedCodec,
                "open_header",
                "not (is_canonical and hmac.compare_digest(mac, expected))",
            ),
        ),
        (SEALED,),
    ),
    Mutant(
        "a record follows the one before it",
        "forgery",
        (
            _Change(
                _Reader,
                "_take_record",
                "elif previous is not None and previous != self.tag:",
                "elif False:",
            ),
        ),
        (SEALED,),
    ),
    Mutant(
        "a number stands once",
        "damage",
        (_never(_Reader, "_take_record", "number <= self.last"),),
        (PLAIN,),  # in a sealed journal the chain tells it as well
    ),
]

_ENDS = [
    Mutant(
        "a file is out of its name before it is destroyed",
        "power",
        (_without(FolderWriter, "_remove", _SYNC_JOURNALS),),
        (SEALED,),
    ),
    Mutant(
        "an erasure is durable, whoever began it",
        "power",
        (_Change(FolderWriter, "erase", _SYNC_JOURNALS, f"{_SYNC_JOURNALS} if found else None"),),
        (PLAIN,),  # of a sealed journal nothing but zeros could come back
    ),
    Mutant(
        "old data keys are kept until no file needs them",
        "power",
        (_Change(KeyRing, "with_new_generation", "{**self.generations, following", "{following"),),
        (SEALED,),
    ),
    Mutant(
        "a rotation ends with the new key",
        "power",
        (
            _Change(
                StoreKeys,
                "_forget_old_generations",
                "self._rewrap(encryption, ",
                "self._rewrap(self._mode.encryption, ",
            ),
        ),
        (SEALED,),
    ),
    Mutant(
        "a rotation locks the old key out",
        "power",
        (
            _Change(
                StoreKeys,
                "rotate",
                "ring.with_new_generation(), [])",
                "ring.with_new_generation(), self._slots())",
            ),
        ),
        (SEALED,),
    ),
]

MUTANTS: list[Mutant] = [*_VIEWS, *_DURABILITY, *_TEARS, *_ERRORS, *_CHECKS, *_ENDS]
