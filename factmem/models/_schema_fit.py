"""Comparison of JSON schemas: whether all values of an older one fit a newer one."""

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from factmem.models._values import canonical

Schema: TypeAlias = Mapping[str, Any]

_WORDS = frozenset(["title", "description", "default", "examples", "deprecated"])
"""Keywords of schemas that refuse no value."""
_NAMED = frozenset(["properties", "$defs"])
"""Keywords whose values have names of the application as keys."""
_STRUCTURE = frozenset(
    (
        "$ref",
        "$defs",
        "type",
        "properties",
        "required",
        "items",
        "additionalProperties",
        "discriminator",
    )
)
_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}


def bare_schema(schema: Schema) -> dict[str, Any]:
    """Return a schema without titles, descriptions and defaults."""

    def bare(part: Any, *, is_named: bool = False) -> Any:
        if isinstance(part, list):
            return [bare(each) for each in part]
        if not isinstance(part, dict):
            return part
        given: dict[str, Any] = part
        return {
            key: bare(each, is_named=not is_named and key in _NAMED)
            for key, each in given.items()
            if is_named or key not in _WORDS
        }

    found: dict[str, Any] = bare(dict(schema))
    return found


def accepts(new: Schema, old: Schema) -> bool:
    """Return whether all values of an old schema fit a new one; False also if that is unclear."""
    return _Fit(new, old).fits(new, old)


class _Fit:
    def __init__(self, new: Schema, old: Schema) -> None:
        self._ours: Schema = new.get("$defs", {})
        self._theirs: Schema = old.get("$defs", {})
        self._seen: set[tuple[Any, Any]] = set()

    def fits(self, new: Schema, old: Schema) -> bool:
        pair = new.get("$ref"), old.get("$ref")
        if pair != (None, None):
            if pair in self._seen:  # a recursive type
                return True
            self._seen.add(pair)
            new, old = _resolved(new, self._ours), _resolved(old, self._theirs)
        if "anyOf" in old:
            return all(self.fits(new, each) for each in old["anyOf"])
        if "anyOf" in new:
            return any(self.fits(each, old) for each in new["anyOf"])
        listed = _values(old)
        if "enum" in new or "const" in new:
            return bool(listed) and set(map(canonical, listed)) <= set(map(canonical, _values(new)))
        return not new.keys() - {"$defs"} or (
            self._fits_values(new, listed) if listed else self._fits_type(new, old)
        )

    def _fits_values(self, new: Schema, values: Iterable[Any]) -> bool:
        return set(new) == {"type"} and all(
            _is_type(new["type"], _TYPES.get(type(each))) for each in values
        )

    def _fits_type(self, new: Schema, old: Schema) -> bool:
        return (
            _is_type(new.get("type"), old.get("type"))
            and all(new[key] == old.get(key) for key in new.keys() - _STRUCTURE)
            and ("items" not in new or ("items" in old and self.fits(new["items"], old["items"])))
            and self._fits_object(new, old)
        )

    def _fits_object(self, new: Schema, old: Schema) -> bool:
        ours, theirs = new.get("properties", {}), old.get("properties", {})
        if not set(new.get("required", ())) <= theirs.keys():
            return False
        others, their_others = new.get("additionalProperties"), old.get("additionalProperties")
        if others is False and not theirs.keys() <= ours.keys():
            return False
        if isinstance(others, dict) and not (
            isinstance(their_others, dict) and self.fits(others, their_others)
        ):
            return False
        return all(self.fits(ours[name], theirs[name]) for name in ours.keys() & theirs.keys())


def _resolved(schema: Schema, definitions: Schema) -> Schema:
    name = schema.get("$ref", "").rpartition("/")[2]
    found: Schema = definitions.get(name, schema)
    return found


def _values(schema: Schema) -> list[Any]:
    listed: list[Any] = schema.get("enum", [schema["const"]] if "const" in schema else [])
    return listed


def _is_type(new: Any, old: Any) -> bool:
    return new == old or (new, old) == ("number", "integer")
