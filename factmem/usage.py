"""Usage: tokens and number of calls to a chat model."""

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["Usage"]


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens and number of calls to a model. Add two to sum them."""

    input_tokens: int = 0
    """Tokens of the prompts, as the endpoint counted them; 0 if it reports none."""
    output_tokens: int = 0
    """Tokens of the answers, hidden reasoning included if the endpoint counts it."""
    calls: int = 0
    """Requests that factmem made. Retries of the HTTP client are not counted."""

    @classmethod
    def reported(cls, counts: Mapping[str, object]) -> "Usage":
        """Return one call with the counts of a chat completion.

        A count that is missing or not an integer is 0.
        """
        return cls(_count(counts.get("prompt_tokens")), _count(counts.get("completion_tokens")), 1)

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.calls + other.calls,
        )


def _count(reported: object) -> int:
    return max(reported, 0) if isinstance(reported, int) else 0


ONE_CALL = Usage(calls=1)
"""One call with an unknown number of tokens."""
