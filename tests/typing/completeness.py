"""Checks that every public symbol has a type: `python -m tests.typing.completeness`.

It runs `pyright --verifytypes`. Modules about a framework whose types pyright cannot read here are
left out.
"""

import json
import subprocess
import sys

UNTYPED = (
    "factmem.integrations.smolagents",
    "factmem.integrations.agent_framework",
    "factmem.integrations.crewai",
    "factmem.integrations.google_adk",
    "factmem.integrations.hermes",
    "factmem.integrations.llama_index",
    "factmem.integrations.strands",
)
"""smolagents has annotations and no `py.typed`; the other packages are not installed here."""


def main() -> int:
    """Print the symbols without a known type and return the exit code."""
    command = ["pyright", "--ignoreexternal", "--verifytypes", "factmem", "--outputjson"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    symbols = json.loads(done.stdout)["typeCompleteness"]["symbols"]
    exported = [each for each in symbols if each["isExported"]]
    unknown = [
        each
        for each in exported
        if not each["isTypeKnown"] and not each["name"].startswith(UNTYPED)
    ]
    for each in unknown:
        print(each["name"], *(found["message"] for found in each["diagnostics"]), sep="\n    ")
    print(f"{len(exported)} public symbols, {len(unknown)} without a known type")
    return 1 if unknown or not exported else 0


if __name__ == "__main__":
    sys.exit(main())
