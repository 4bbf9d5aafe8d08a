"""The rules of the protocol, each with a way to break it and the check that must notice.

Where two rules stand in for each other, one mutant breaks both. A rule that no codec has a part in
is broken in plain stores only, where that costs much time.
"""

from factmem.storage import _batch
from factmem.storage._end_marks import EndMarks
from factmem.storage._folder import JournalFolder
from factmem.storage._journal import Place
from factmem.storage._keys import StoreKeys
from factmem.storage._lines_2 import Reader2
from factmem.storage._manifest import ManifestFile
from factmem.storage._plain_codec import PlainCodec, _PlainSealer
from factmem.storage._reader import FolderReader
from factmem.storage._removal import Removal
from factmem.storage._replacement import Incarnations
from factmem.storage._sealed_codec import SealedCodec
from factmem.storage._writer import FolderWriter
from factmem.storage.encryption.ring import KeyRing
from tests.storage.interleaver import SharedDisk
from tests.storage.mutant import Change, Mutant, never, without
from tests.storage.stores import PLAIN, SEALED

__all__ = ["MUTANTS"]

_SYNC_JOURNALS = 'self._files.sync_folder("journals")'

_ALWAYS_VOUCHED = tuple(
    Change(
        FolderWriter,
        function,
        f"is_vouched and {place}.is_extendable()",
        f"{place}.is_extendable()",
    )
    for function, place in (("_written", "before"), ("_flush", "before"), ("_whole", "place"))
)
"""Every file is taken for acknowledged."""

_VIEWS = [
    Mutant(
        "the lock is held against other processes",
        "interleaving",
        (never(SharedDisk, "take_lock", "self._honours_locks"),),
    ),
    Mutant(
        "what others wrote is read before anything is appended",
        "interleaving",
        (
            Change(
                FolderReader,
                "read_through",
                "place is known and place.offset == place.size == size",
                "place is known",
            ),
        ),
    ),
    Mutant(
        "a view counts while the whole first line is the same",
        "power",
        (
            Change(
                FolderReader,
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
        (Change(ManifestFile, "codec", "self._files.has_content(MANIFEST, opened.raw)", "True"),),
        (SEALED,),
    ),
    Mutant(
        "damage is concluded under the lock only",
        "interleaving",
        (Change(JournalFolder, "read", 'if not self.files.exists("lock"):', "if True:"),),
        (SEALED,),
    ),
    Mutant(
        "a store made meanwhile is looked for again",
        "interleaving",
        (
            Change(
                ManifestFile,
                "_text",
                "raw = self._files.content(MANIFEST)  #",
                "raw = None  #",
            ),
        ),
        (SEALED,),
    ),
    Mutant(
        "a save is acknowledged when it reads back",
        "no locks",
        (
            never(
                FolderWriter,
                "_check_read_back",
                "self._files.read(begun.fd, len(data) + 1, begun.before.size) != data",
            ),
        ),
    ),
]

_DURABILITY = [
    Mutant(
        "a save is acknowledged after a sync",
        "power",
        (without(FolderWriter, "_extended", "self._files.sync(begun.fd)"),),
    ),
    Mutant(
        "the saves of a batch are acknowledged after the syncs of their files",
        "power",
        (
            Change(
                _batch,
                "_append_some",
                "files.sync_all([one.fd for one in begun])",
                "[None] * len(begun)",
            ),
        ),
    ),
    Mutant(
        "a failed sync of a batch fails its saves",
        "errors",
        (never(FolderWriter, "_check_read_back", "error is not None"),),
    ),
    Mutant(
        "a new file is synced before it gets its name",
        "power",
        (without(Incarnations, "replace", "self._files.sync(fd)"),),
    ),
    Mutant(
        "a new file is made beside its place",
        "power",
        (
            Change(
                Incarnations,
                "replace",
                'temporary = f"{journal_path(file)}.tmp"',
                "temporary = journal_path(file)",
            ),
        ),
    ),
    Mutant(
        "the folder is synced when a file got its name",
        "power",
        (without(Incarnations, "replace", _SYNC_JOURNALS),),
    ),
    Mutant(
        "the folder is synced before a process first acknowledges, or nothing vouches for the file",
        "power",
        (
            never(
                FolderWriter,
                "_check_read_back",
                "self._reader.synced.get(begun.file) != begun.before.header",
            ),
            *_ALWAYS_VOUCHED,
        ),
        (PLAIN,),
    ),
    Mutant(
        "a manifest is synced before it gets its name",
        "power",
        (without(ManifestFile, "write", "self._files.sync(fd)"),),
    ),
    Mutant(
        "a manifest is made beside its place",
        "power",
        (
            Change(
                ManifestFile,
                "write",
                'self._files.create(f"{MANIFEST}.tmp")',
                "self._files.create(MANIFEST)",
            ),
        ),
    ),
    Mutant(
        "the folders above a new store are synced",
        "power",
        (without(ManifestFile, "create", "self._files.sync_parents()"),),
    ),
]

_TEARS = [
    Mutant(
        "a torn file is not appended to",
        "power",
        (
            Change(Place, "is_extendable", "self.size == self.offset and not self.gaps and ", ""),
            *_ALWAYS_VOUCHED,
        ),
    ),
    Mutant(
        "a damaged line end costs no record after it",
        "damage",
        (Change(Reader2, "_take_dead", "self._before.sealer.starts(line, self.last)", "()"),),
    ),
    Mutant(
        "a batch counts when it is whole",
        "power",
        (
            Change(
                Reader2,
                "_take_of_batch",
                "if index + 1 == count == len(self._pending):",
                "if True:",
            ),
        ),
    ),
    Mutant(
        "what no batch behind it vouches for may be torn",
        "power",
        (Change(Reader2, "judge_tail", "if self._is_altered(sector):", "if True:"),),
    ),
    Mutant(
        "a batch vouches for all before it",
        "damage",
        (Change(Place, "damage", "if first <= self.durable:", "if False:"),),
    ),
    Mutant(
        "a line that does not verify is damage where all numbers are there",
        "damage",
        (
            Change(Reader2, "_conclude", "if not gaps and self._dead:", "if False:"),
            never(Reader2, "_take_of_batch", "self._dead"),
        ),
        (PLAIN,),
    ),
    Mutant(
        "the first line counts the records that a file was made with",
        "damage",
        (Change(Incarnations, "replace", "snapshot=len(keep)", "snapshot=0"),),
    ),
    Mutant(
        "the records that the first line counts are all there",
        "damage",
        (never(Place, "damage", "self.snapshot_left > 0"),),
    ),
]

_ERRORS = [
    Mutant(
        "a failed sync is not tried again",
        "errors",
        (
            Change(
                FolderWriter,
                "_extended",
                "self._files.sync(begun.fd)\n",
                "try:\n"
                "        self._files.sync(begun.fd)\n"
                "    except OSError:\n"
                "        self._files.sync(begun.fd)\n",
            ),
        ),
        (PLAIN,),
    ),
    Mutant(
        "a file in doubt is not appended to",
        "errors",
        _ALWAYS_VOUCHED,
    ),
    Mutant(
        "a file is vouched for after its sync",
        "errors",
        (
            Change(
                FolderWriter,
                "_written",
                "self._files.append(fd, data)",
                "self._files.append(fd, data); self._files.vouch(fd, before.size + len(data))",
            ),
        ),
    ),
    Mutant(
        "the key in use changes after the manifest did",
        "errors",
        (
            Change(
                StoreKeys,
                "_rewrap",
                "self._write(slots)",
                "self._mode.encryption = encryption; self._write(slots)",
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
            never(
                _PlainSealer,
                "unseal",
                'line[-18:] != b\',"crc":"%08x"}\' % zlib.crc32(memoryview(line)[:-18], self._seed)',
            ),
        ),
        (PLAIN,),
    ),
    Mutant(
        "a record belongs to the first line of its file",
        "damage",
        (Change(PlainCodec, "open_header", "seed = zlib.crc32(line)", "seed = 0"),),
        (PLAIN,),
    ),
    Mutant(
        "a plain file belongs to its name",
        "damage",
        (never(PlainCodec, "open_header", "not is_of_this_file"),),
        (PLAIN,),
    ),
    Mutant(
        "a sealed file belongs to its name, by its key or by the name inside",
        "damage",
        (
            Change(SealedCodec, "_derived", "self._store + file.encode()", "self._store"),
            never(Reader2, "_take_snapshot", "not check_name(self._before, self._codec, data)"),
        ),
        (SEALED,),
    ),
    Mutant(
        "a first line commits to its key",
        "damage",
        (
            never(
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
            Change(Reader2, "_check_chain", "if self._is_chained and", "if False and"),
            Change(Reader2, "take_all", "(previous is None or previous == self.tag)", "True"),
        ),
        (SEALED,),
    ),
    Mutant(
        "a number stands once",
        "damage",
        (Change(Reader2, "_take_of_batch", "if number <= known or first <= self.last or", "if"),),
        (PLAIN,),  # in a sealed journal the chain detects it as well
    ),
]

_REPEATED = [
    Mutant(
        "a call that finds nothing to do makes durable what it rests on",
        "again",
        (
            Change(
                FolderWriter,
                "_flush",
                "if before.version > 1 and not (is_vouched and before.is_extendable()):",
                "if False:",
            ),
        ),
        (PLAIN,),
    ),
    Mutant(
        "the removal of a key is durable, whoever began it",
        "again",
        (without(StoreKeys, "remove", "self._folder.manifest.settle()"),),
        (SEALED,),
    ),
]

_ENDS = [
    Mutant(
        "an end mark is removed for good before its journal is",
        "power",
        (without(EndMarks, "remove", "self._files.sync_folder(FOLDER)"),),
    ),
    Mutant(
        "a file is out of its name before it is destroyed",
        "power",
        (without(Removal, "_remove", _SYNC_JOURNALS),),
        (SEALED,),
    ),
    Mutant(
        "an erasure is durable, whoever began it",
        "again",
        (Change(Removal, "erase", _SYNC_JOURNALS, f"{_SYNC_JOURNALS} if found else None"),),
        (PLAIN,),  # in a sealed journal only zeros could return
    ),
    Mutant(
        "old data keys are kept until no file needs them",
        "power",
        (Change(KeyRing, "with_new_generation", "{**self.generations, following", "{following"),),
        (SEALED,),
    ),
    Mutant(
        "a rotation ends with the new key",
        "power",
        (
            Change(
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
            Change(
                StoreKeys,
                "rotate",
                "ring.with_new_generation(), [])",
                "ring.with_new_generation(), self._slots())",
            ),
        ),
        (SEALED,),
    ),
]

MUTANTS: list[Mutant] = [*_VIEWS, *_DURABILITY, *_TEARS, *_ERRORS, *_CHECKS, *_REPEATED, *_ENDS]
