"""Writers are killed at any moment, and nothing that was acknowledged is lost.

Four processes, on asyncio and trio, save to 64 places, forget and compact; some fork children that
save too, or copy the folder again and again, as a backup does. They are killed with SIGKILL from
outside, or kill themselves before a statement. Meanwhile this process reads without a lock. In the
end every acknowledged fact must be there as it was saved, in an order that agrees with the times at
which the saves began and returned.

    python -m tests.storms.kill_storm --kills 1000
"""

import argparse
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from factmem import Key
from tests.storms.storm import Outcome, Storm


def kill_storm(
    root: Path, kills: int, *, key: str | None, seed: int = 0, mutant: str | None = None
) -> Outcome:
    """Kill so many writers of a store; `mutant` is a rule of the engine to switch off."""
    storm = Storm(root, keys=() if key is None else (key,), seed=seed, mutant=mutant)
    return storm.run(lambda: storm.outcome.kills >= kills)


def main() -> int:
    """Run the long form; 0 if nothing was found wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.storms.kill_storm")
    parser.add_argument(
        "--kills",
        type=int,
        default=1000,
        help="how many in all: half of them on a store in the "
        "clear, half on an encrypted one; a few more may fall before it ends",
    )
    parser.add_argument("--seed", type=int, default=int(time.time()), help="what is drawn")
    options = parser.parse_args()
    print(f"kill storm, seed {options.seed}", flush=True)
    kills, faults = 0, 0
    for kind, key in (("plain", None), ("encrypted", Key.generate().to_base64())):
        with TemporaryDirectory() as folder:
            root = Path(folder) / "store"
            outcome = kill_storm(root, (options.kills + 1) // 2, key=key, seed=options.seed)
        print(f"{kind}: {outcome}", flush=True)
        kills += outcome.kills
        faults += outcome.faults.count
    print(f"kill storm: {kills} kills, {faults} faults", flush=True)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
