"""Reading JSON that has no schema: what is not of the kind that is looked for counts as absent."""

from collections.abc import Sequence

from typing_extensions import TypeIs

__all__ = ["count_in", "items_in", "members_in", "text_in"]


def members_in(value: object) -> dict[str, object]:
    """Return the members of an object; none where `value` is no object."""
    return value if _is_object(value) else {}


def items_in(value: object) -> Sequence[object]:
    """Return the items of an array; none where `value` is no array."""
    return value if _is_array(value) else ()


def text_in(value: object) -> str:
    """Return a string; the empty one where `value` is no string."""
    return value if isinstance(value, str) else ""


def count_in(value: object) -> int:
    """Return a whole number that is not negative; 0 where `value` is none."""
    return max(value, 0) if isinstance(value, int) else 0


def _is_object(value: object) -> TypeIs[dict[str, object]]:
    return isinstance(value, dict)


def _is_array(value: object) -> TypeIs[list[object] | tuple[object, ...]]:
    return isinstance(value, list | tuple)
