"""Reading whole batches at once gives the same result as reading line by line."""

import random

import pytest

from factmem.storage._journal import Place, at_start
from factmem.storage._lines_2 import Reader2
from factmem.storage._plain_codec import Codec, PlainCodec
from factmem.storage._record_lines import sealed_batch
from factmem.storage._sealed_codec import SealedCodec
from factmem.storage.base import Record
from factmem.storage.encryption.ring import KeyRing
from tests.storage.stores import ANN, record

CODECS = pytest.mark.parametrize(
    "codec",
    [PlainCodec(), SealedCodec("00" * 16, KeyRing(b"n" * 32, {1: b"k" * 32}, 1))],
    ids=["plain", "sealed"],
)


def _journal(codec: Codec, rng: random.Random) -> tuple[Place, list[bytes]]:
    """Return the start of a journal, and the lines of some batches."""
    file = codec.file_name(ANN)
    header = codec.new_header(ANN, file, snapshot=0, following=1, made=1)
    start = at_start(file, header + b"\n", codec.open_header(file, header))
    lines: list[bytes] = []
    tag, number = start.tag, 1
    for _ in range(rng.randint(1, 6)):
        batch = [record(number + at) for at in range(rng.choice((1, 1, 2, 5)))]
        sealed, tag = sealed_batch(start.sealer, number, tag, batch)
        lines += sealed.splitlines()
        number += len(batch)
    return start, lines


def _damaged(lines: list[bytes], rng: random.Random) -> bytes:
    """Return lines that are damaged or forged in most cases."""
    lines = list(lines)
    at, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    match rng.randrange(6):
        case 0:
            del lines[at]
        case 1:
            lines.insert(other, lines[at])
        case 2:
            lines[at], lines[other] = lines[other], lines[at]
        case 3:
            line = bytearray(lines[at])
            line[rng.randrange(len(line))] ^= 1 << rng.randrange(8)
            lines[at] = bytes(line)
        case 4:
            data = b"\n".join(lines) + b"\n"
            return data[: rng.randrange(len(data))]
        case _:
            pass
    return b"\n".join(lines) + b"\n"


def _read(codec: Codec, start: Place, data: bytes) -> tuple[Place, list[Record]]:
    return Reader2.advanced(start, data, codec, is_end=True, sector=128)


@CODECS
def test_the_fast_path_equals_the_slow_one(codec: Codec, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(11)
    cases = []
    for _ in range(400):
        start, lines = _journal(codec, rng)
        cases.append((start, _damaged(lines, rng)))
    short = [_read(codec, start, data) for start, data in cases]
    monkeypatch.setattr(Reader2, "_take_batch", lambda *_: 0)
    long = [_read(codec, start, data) for start, data in cases]

    assert short == long
    assert sum(place.is_whole() for place, _ in long) in range(50, 350)


@CODECS
def test_a_whole_batch_takes_the_fast_path(codec: Codec, monkeypatch: pytest.MonkeyPatch) -> None:
    start, lines = _journal(codec, random.Random(1))
    monkeypatch.delattr(Reader2, "_take_of_batch")
    place, records = _read(codec, start, b"\n".join(lines) + b"\n")
    assert place.is_whole()
    assert len(records) == len(lines) == place.last
