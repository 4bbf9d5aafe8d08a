"""Metadata of a fact: a small, immutable mapping of application data."""

from collections.abc import Mapping
from typing import Any, NoReturn

import orjson

from factmem._arguments import kind_of
from factmem.models._names import checked_name
from factmem.models._values import JsonValue, canonical

MAX_KEYS = 32
"""The largest number of keys."""
MAX_METADATA_BYTES = 4096
"""The largest size as JSON. Each load of a place reads it: store documents elsewhere."""

_EXAMPLE = "metadata={'ticket': 'T-7'}"


class Metadata(dict[str, JsonValue]):
    """A read-only dictionary. It is a `dict`, because JSON encoders and pydantic support that type.

    Its repr shows only the keys, because logs contain reprs.
    """

    __slots__ = ()

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("metadata is immutable: save or update the fact with other metadata")

    # Any, because no single signature fits the overloads of dict.
    __setitem__: Any = _refuse
    __delitem__: Any = _refuse
    __ior__: Any = _refuse
    clear: Any = _refuse
    pop: Any = _refuse
    popitem: Any = _refuse
    setdefault: Any = _refuse
    update: Any = _refuse

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return Metadata, (dict(self),)

    def __copy__(self) -> "Metadata":
        return self

    def __repr__(self) -> str:
        return f"<Metadata {', '.join(map(repr, self))}>" if self else "<Metadata>"


NO_METADATA = Metadata()
"""The metadata of facts without metadata."""


def checked_metadata(given: object) -> Metadata:
    """Return an immutable copy of metadata.

    Raises:
        TypeError: It is not a mapping of strings to JSON values.
        ValueError: It has too many keys, is too large, or its JSON would not load as an equal
            value.
    """
    if not isinstance(given, Mapping):
        raise TypeError(f"metadata must be a mapping, not {kind_of(given)}: {_EXAMPLE}")
    if not given:
        return NO_METADATA
    if len(given) > MAX_KEYS:
        raise ValueError(f"metadata has {len(given)} keys: at most {MAX_KEYS} are allowed")
    named = {checked_name(key, "metadata key"): value for key, value in given.items()}
    try:
        text = orjson.dumps(named)
        plain = orjson.loads(text)
    except (TypeError, ValueError, RecursionError):
        plain = text = None
    if plain is None or text is None or plain != named:
        raise ValueError(
            "metadata values must be JSON (strings, numbers below 2**63, booleans, None, lists "
            f"and dictionaries): {_EXAMPLE}"
        )
    if len(text) > MAX_METADATA_BYTES:
        raise ValueError(
            f"metadata has {len(text)} bytes as JSON: at most {MAX_METADATA_BYTES} are allowed"
        )
    return Metadata(plain)


def includes(metadata: Mapping[str, JsonValue], wanted: Mapping[str, JsonValue]) -> bool:
    """Return whether metadata has every key of `wanted`, with an equal value."""
    return all(
        key in metadata and canonical(metadata[key]) == canonical(wanted[key]) for key in wanted
    )
