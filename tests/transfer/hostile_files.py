"""Imports files that were made to harm: a program that prints what each import did.

    python -m tests.transfer.hostile_files COUNT SEED FOLDER

Each file begins with a valid place or row, so that a partial import leaves a place behind. Each is
made by one process and imported by another, whose time and memory are measured.
"""

import json
import os
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from random import Random
from resource import struct_rusage

from typer.testing import CliRunner

from factmem._cli.application import app

STAMP = "2026-01-01T00:00:00.000000Z"


def hostile_value(random: Random) -> bytes:
    """Return what should be a JSON value."""
    depth = random.choice([150, 205, 250, 300, 1_100, 100_000])
    many = random.choice([10_000, 200_000, 1_000_000])
    number = random.choice([b"1e400", b"-1e999", b"[NaN]", b"Infinity", b"9" * 5_000, b"-" * 9])
    values: list[Callable[[], bytes]] = [
        lambda: b"[" * depth + b"]" * depth,
        lambda: b'{"a":' * depth + b"1" + b"}" * depth,
        lambda: b"[" * depth,
        lambda: number,
        lambda: b"[12345678901234567890, 1e400]",
        lambda: b"[" + b"[]," * many + b"0]",
        lambda: b"[" + b'{"a":{}},' * many + b"0]",
        lambda: b"{" + b",".join(b'"%d":0' % n for n in range(many // 10)) + b"}",
        lambda: b'"\\ud800"',
        lambda: b'"\xff\xfe"',
        lambda: b'"\x00"',
        lambda: b'"' + b"x" * 17_000_000 + b'"',
        lambda: b'"unended',
        lambda: b"\x80\x04\x95" + b"\x8c\x01a\x94" * 90 + b"h\x00\x85" * 90 + b".",  # a pickle
        lambda: b"SQLite format 3\x00",
        lambda: random.randbytes(random.randrange(1, 300)).replace(b"\n", b""),
    ]
    return random.choice(values)()


def bundle(value: bytes) -> bytes:
    """Return a bundle of two places, whose counts and digest are right."""
    lines = [json.dumps({"format": "factmem-bundle", "version": 1}, separators=(",", ":")).encode()]
    for user, content in (("good", b'"x"'), ("bad", value)):
        place = json.dumps({"place": ["product", "app", "user", user], "entries": 1}).encode()
        fact = b'{"id":"%s","keyword":"k","description":"d","type":"SINGLE","timestamp":"%s"' % (
            user.encode(),
            STAMP.encode(),
        )
        extra = b"" if user == "good" or len(value) % 3 else b',"later":' + value
        entry = b'{"at":"%s","facts":[%s,"value":%s}]%s}'
        lines += [place, entry % (STAMP.encode(), fact, content, extra)]
    body = b"".join(line + b"\n" for line in lines)
    digest = sha256(body).hexdigest()
    return (
        body + json.dumps({"end": {"places": 2, "entries": 2, "sha256": digest}}).encode() + b"\n"
    )


def rows(value: bytes) -> bytes:
    """Return rows of JSON Lines."""
    row = b'{"place":"product/app/user/%s","keyword":"k","value":%s}\n'
    return row % (b"good", b'["x"]') + row % (b"bad", value)


def table(value: bytes) -> bytes:
    """Return rows of CSV."""
    head = b"place,keyword,value,type\nproduct/app/user/good,k,x,text\n"
    return head + b"product/app/user/bad,k," + value + b",list\n"


def memories(value: bytes) -> bytes:
    """Return memories of mem0, of which only the second is bad."""
    row = b'{"id":"%s","memory":%s,"user_id":"%s","created_at":"2026-01-01"}\n'
    return row % (b"good", b'"x"', b"good") + row % (b"bad", value, b"bad")


def koog(value: bytes) -> bytes:
    """Return a file of Koog."""
    fact = (
        b'{"type":"SingleFact","concept":{"description":"d","factType":"SINGLE"},'
        b'"timestamp":1748000000000,"value":%s}'
    )
    return b'{"k":[%s,%s]}' % (fact % b'"x"', fact % value)


MADE = {"b.jsonl": bundle, "r.jsonl": rows, "t.csv": table, "m.jsonl": memories, "koog": koog}


def in_process(work: Callable[[], object]) -> struct_rusage:
    """Run a function in a process of its own, and return what it used."""
    child = os.fork()
    if child == 0:
        work()
        sys.stdout.flush()
        os._exit(0)
    _, status, used = os.wait4(child, 0)
    if status:
        sys.exit(f"a process ended with {status}")
    return used


def import_file(name: str, path: Path, folder: Path) -> None:
    """Import a file and print: its format, exit code, problems, places, whether nothing raised."""
    runner = CliRunner()
    store = ["--store", str(folder / "store")]
    command = ["import", str(path), "--json"]
    if name == "m.jsonl":
        command += ["--place", "product/app/user", "--format", "mem0"]
    done = runner.invoke(app, [*store, *command])
    told = done.stdout.startswith("{")  # else a refused file: only the error is printed
    problems = json.loads(done.stdout)["problems"] if told else []
    places = runner.invoke(app, [*store, "places", "--json"])
    held = len(json.loads(places.stdout)) if places.exit_code == 0 else 0
    is_expected = done.exception is None or isinstance(done.exception, SystemExit)
    print(json.dumps([name, done.exit_code, len(problems), held, is_expected]))


def main(count: int, seed: int, folder: Path) -> None:
    """Import files. Print a line for each, and then its seconds and megabytes."""
    random = Random(seed)
    for number in range(count):
        name, own = random.choice([*MADE]), Random(f"{seed} {number}")
        path = folder / str(number) / name
        target = path / "product" / "app" / "subject" / "user" if name == "koog" else path
        target.parent.mkdir(parents=True)
        make, importing = MADE[name], folder / str(number)
        in_process(lambda: target.write_bytes(make(hostile_value(own))))  # noqa: B023
        used = in_process(lambda: import_file(name, path, importing))  # noqa: B023
        target.unlink()
        print(json.dumps([used.ru_utime + used.ru_stime, used.ru_maxrss // 1024]), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
