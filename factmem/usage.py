"""Usage: tokens and number of calls to a chat model."""

from dataclasses import dataclass

__all__ = ["ONE_CALL", "Usage"]


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens and number of calls to a model. Add two to sum them."""

    input_tokens: int = 0
    """Tokens of the prompts, as the endpoint counted them; 0 if it reports none."""
    output_tokens: int = 0
    """Tokens of the answers, hidden reasoning included if the endpoint counts it."""
    calls: int = 0
    """Requests that factmem made. Retries of the HTTP client are not counted."""

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.calls + other.calls,
        )


ONE_CALL = Usage(calls=1)
"""One call of unknown tokens."""
