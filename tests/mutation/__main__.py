"""A mutation run over the core: `python -m tests.mutation --mutants 50 --seed 1`.

Each mutant is one small change to one module of a copy of the package. The tests that the module
answers to are run against it; a mutant that passes them all has survived. Survivors that change
nothing anybody could see are listed in `survivors.py` with the reason; any other one fails the run.
"""

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.mutation.operators import Mutant, mutants
from tests.mutation.survivors import EXPLAINED

ROOT = Path(__file__).parent.parent.parent

CORE = {
    "ledger/ledger.py": ["tests/ledger", "tests/providers/test_in_memory.py"],
    "ledger/entries.py": ["tests/ledger", "tests/providers/test_in_memory.py"],
    "ledger/resolution.py": ["tests/ledger", "tests/memory/test_loading.py"],
    "ledger/history.py": ["tests/ledger", "tests/providers/test_in_memory.py"],
    "models/facts.py": ["tests/models", "tests/ledger"],
    "models/_values.py": ["tests/models", "tests/ledger"],
    "prompt/memory_message.py": ["tests/prompt", "tests/memory/test_loading.py"],
    "detection/_candidates.py": ["tests/detection"],
    "recall/_ranking.py": ["tests/recall/test_ranking.py", "tests/recall/test_recall.py",
                          "tests/recall/test_context.py"],
    "providers/_sql/sealing.py": ["tests/providers/test_sealing.py",
                                  "tests/providers/test_indexes.py",
                                  "tests/storms/test_tampering.py"],
    "providers/_sqlite/gaps.py": ["tests/providers/test_gaps.py"],
    "providers/_sql/places.py": ["tests/providers/test_large_places.py",
                                 "tests/providers/test_local_file.py",
                                 "tests/storms/test_tampering.py"],
}  # fmt: skip
"""The modules, and the tests that each must answer to by itself."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the mutants and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mutants", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=CORE, help="one module")
    options = parser.parse_args(arguments)
    modules = [options.only] if options.only else list(CORE)
    found = [
        mutant
        for module in modules
        for mutant in mutants(module, (ROOT / "factmem" / module).read_text())
    ]
    chosen = random.Random(options.seed).sample(found, min(options.mutants, len(found)))
    survivors = []
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for name in ("factmem", "tests"):
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, copy / name, ignore=ignored)
        shutil.copy(ROOT / "pyproject.toml", copy)
        for number, mutant in enumerate(chosen, 1):
            began = time.monotonic()
            outcome = "caught" if _is_caught(mutant, copy) else "SURVIVED"
            if outcome == "SURVIVED" and mutant.name in EXPLAINED:
                outcome = f"survived: {EXPLAINED[mutant.name]}"
            if outcome == "SURVIVED":
                survivors.append(mutant)
            seconds = time.monotonic() - began
            print(
                f"{number}/{len(chosen)} {seconds:.0f} s line {mutant.line} {mutant.name}:", outcome
            )
    print(
        f"{len(chosen)} mutants of {len(found)}, {len(survivors)} survivors without an explanation"
    )
    return 1 if survivors else 0


def _is_caught(mutant: Mutant, copy: Path) -> bool:
    """Run the module's own tests on asyncio, short form first; a timeout counts as caught."""
    file = copy / "factmem" / mutant.module
    sound = file.read_text()
    file.write_text(mutant.source)
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
    try:
        for options in ([], ["--both-loops", "--thorough", "-k", "not trio"]):
            done = subprocess.run(
                [*command, *options, *CORE[mutant.module]],
                cwd=copy,
                env={**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"},
                capture_output=True,
                timeout=300,
                check=False,
            )
            if done.returncode != 0:
                return True
    except subprocess.TimeoutExpired:
        return True
    finally:
        file.write_text(sound)
    return False


if __name__ == "__main__":
    sys.exit(main())
