"""The number of random examples of a property, in the default run and in a storm."""

from hypothesis import settings

_DEFAULT = 100
"""The number of examples that Hypothesis tries unless a profile sets another."""


def examples(count: int) -> int:
    """Return how many of `count` examples to try: the share that the profile sets."""
    return max(5, count * settings().max_examples // _DEFAULT)
