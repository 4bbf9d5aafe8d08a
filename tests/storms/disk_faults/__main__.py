"""The disk of one process fails, while others save to the same store; nothing acknowledged is lost.

A library that is preloaded into the process lets writes, syncs, truncations and reads of the store's
files fail, or write a part. The process goes on after each error. Nothing may be lost or invented, no
error may call sound data damaged, and only exceptions of factmem may get out.

    python -m tests.storms.disk_faults --faults 3000 --seed 1 --encrypted
"""

import argparse
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.storms.disk_faults.storm import disk_fault_storm
from tests.storms.preloaded import CompilerMissingError


def main() -> int:
    """Run the long form; 0 if nothing was found wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.storms.disk_faults")
    parser.add_argument("--faults", type=int, default=3000, help="how many calls are to fail")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="what is drawn")
    parser.add_argument("--encrypted", action="store_true", help="on encrypted stores")
    options = parser.parse_args()
    kind = "encrypted" if options.encrypted else "plain"
    print(f"disk faults, {kind}, seed {options.seed}", flush=True)
    with TemporaryDirectory() as folder:
        try:
            outcome = disk_fault_storm(
                Path(folder).resolve(),
                options.faults,
                is_encrypted=options.encrypted,
                seed=options.seed,
            )
        except CompilerMissingError as exc:
            print(exc, file=sys.stderr)
            return 2
    print(f"disk faults, {kind}: {outcome}")
    return 1 if outcome.found else 0


if __name__ == "__main__":
    sys.exit(main())
