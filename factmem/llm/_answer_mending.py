"""Structure where a model put a string or a lone item.

Validation says where a list or an object was wanted and something else was found. Where that is a
string that holds the JSON of one, or the single item of a list, the intention is plain.
"""

from collections.abc import Sequence

from pydantic import JsonValue
from pydantic_core import ErrorDetails, from_json, to_json

from factmem.llm._json_text import UnreadableTextError, json_values

__all__ = ["json_inside", "mended"]

_LIST_WANTED = frozenset({"list_type", "tuple_type", "set_type", "frozen_set_type"})
_STRUCTURE_WANTED = _LIST_WANTED | {
    "dataclass_type",
    "dict_type",
    "mapping_type",
    "model_attributes_type",
    "model_type",
}


def mended(data: JsonValue, errors: Sequence[ErrorDetails]) -> JsonValue | None:
    """Return `data` with what `errors` complain about unpacked; None if there is nothing to do."""
    better: JsonValue = from_json(to_json(data, inf_nan_mode="null"))
    is_better = False
    for error in errors:
        if error["type"] in _STRUCTURE_WANTED:
            better, is_changed = _mended_at(better, error["loc"], error["type"])
            is_better = is_better or is_changed
    return better if is_better else None


def json_inside(value: JsonValue) -> list[JsonValue]:
    """Return the object or list whose JSON a string holds: one, or none."""
    if not isinstance(value, str) or not value.lstrip().startswith(("{", "[")):
        return []
    try:
        values = json_values(value)
    except UnreadableTextError:
        return []
    return values if len(values) == 1 else []


def _mended_at(
    value: JsonValue, location: tuple[int | str, ...], wanted: str
) -> tuple[JsonValue, bool]:
    """Mend what stands at `location` below `value`, which is changed in place.

    A location also names the branches of unions on its way, which are no keys of the data.
    """
    for depth, step in enumerate(location, start=1):
        if isinstance(value, dict) and isinstance(step, str) and step in value:
            value[step], is_changed = _mended_at(value[step], location[depth:], wanted)
            return value, is_changed
        if isinstance(value, list) and isinstance(step, int) and step < len(value):
            value[step], is_changed = _mended_at(value[step], location[depth:], wanted)
            return value, is_changed
    if inside := json_inside(value):
        return inside[0], True
    if wanted in _LIST_WANTED and value is not None and not isinstance(value, list):
        return [value], True
    return value, False
