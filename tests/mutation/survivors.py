"""Mutants that no test can catch, each with the reason."""

EXPLAINED: dict[str, str] = {
    "ledger/ledger.py: self._applied += 1 [1 -> 2]": (
        "versions are compared for being equal, and the change log counts in the same steps"
    ),
}
"""The name of a mutant, and why it changes nothing that a caller could see."""
