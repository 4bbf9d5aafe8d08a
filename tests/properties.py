"""The number of random examples of a property, in the default run and in a storm."""

from hypothesis import settings

_DEFAULT = 100
"""The examples that Hypothesis tries unless a profile says otherwise."""


def examples(count: int) -> int:
    """Return how many examples to try of `count`: as large a part as the profile takes."""
    return max(5, count * settings().max_examples // _DEFAULT)
