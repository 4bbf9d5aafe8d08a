"""Random histories with purges, erasures and compactions, after which no file has a value of them.

python -m tests.storms.erasures --histories 1000
"""

import argparse
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio

from factmem import (
    Aes256GCMEncryptor,
    EncryptedStorage,
    Key,
    LocalFileMemoryProvider,
    SimpleStorage,
)
from factmem.models.when import TimeProvider
from tests.contracts.durable import StoreFolder
from tests.contracts.erasing import random_history

__all__ = ["erasures"]


def _opened(folder: Path, keys: Sequence[str], clock: TimeProvider) -> LocalFileMemoryProvider:
    storage = EncryptedStorage(Aes256GCMEncryptor(*keys)) if keys else SimpleStorage()
    return LocalFileMemoryProvider(folder, storage=storage, clock=clock)


def erasures(folder: Path, histories: int, *, keys: Sequence[str] = (), seed: int = 0) -> list[str]:
    """Make so many histories, each in a new store, and return a line for each that leaves a value."""
    found: list[str] = []
    for number in range(seed, seed + histories):
        home = StoreFolder(folder / str(number), _opened, tuple(keys))
        try:
            anyio.run(partial(random_history, home, number))
        except AssertionError as exc:
            found.append(f"history {number}: {str(exc)[:500]}")
    return found


def main() -> int:
    """Run the long form; 0 if nothing was found wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.storms.erasures")
    parser.add_argument("--histories", type=int, default=1000, help="half of them encrypted")
    parser.add_argument("--seed", type=int, default=0, help="the number of the first history")
    options = parser.parse_args()
    found: list[str] = []
    for kind, keys in (("plain", []), ("encrypted", [Key.generate().to_base64()])):
        begin = time.monotonic()
        with TemporaryDirectory() as folder:
            count = options.histories // 2
            left = erasures(Path(folder), count, keys=keys, seed=options.seed)
        print(
            f"{kind}: {count} histories, {len(left)} left a value, {time.monotonic() - begin:.0f} s"
        )
        found += left
    print("\n".join(["erasures:", *found]) if found else "erasures: no value is left")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
