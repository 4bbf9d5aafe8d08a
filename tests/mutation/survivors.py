"""Mutants that no test can catch, each with the reason."""

EXPLAINED: dict[str, str] = {
    "ledger/ledger.py: self._applied += 1 [1 -> 2]": (
        "versions are compared for being equal, and the change log counts in the same steps"
    ),
    "storage/_sealed_codec.py: step = max(_SMALLEST_INDEX // 4, 1 << max(0, size.bit_length() - 3)) "
    "[0 -> 1]": "below 4 KiB the other operand of the outer max is the larger one",
}
"""The name of a mutant, and why it changes nothing that a caller could see."""
