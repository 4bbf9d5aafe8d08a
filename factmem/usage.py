"""What calls to a chat model cost."""

from dataclasses import dataclass

__all__ = ["ONE_CALL", "Usage"]


@dataclass(frozen=True, slots=True)
class Usage:
    """What calls to a model cost. Add two to sum them."""

    input_tokens: int = 0
    """Tokens of the prompts, as the endpoint counted them; 0 where it does not say."""
    output_tokens: int = 0
    """Tokens of the answers, those of hidden reasoning included where the endpoint counts them."""
    calls: int = 0
    """Requests that factmem made. What an HTTP client repeats on its own is not counted."""

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.calls + other.calls,
        )


ONE_CALL = Usage(calls=1)
"""A call of which nothing more is known."""
