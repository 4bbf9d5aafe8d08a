"""An index of metadata: the slots of the facts that have a key with a value."""

from collections.abc import Iterator, Mapping

import orjson
from pydantic import JsonValue

__all__ = ["MetadataIndex"]


class MetadataIndex:
    """The metadata of the facts in an index's slots. Facts without metadata take no room."""

    def __init__(self) -> None:
        self._of_slot: dict[int, Mapping[str, JsonValue]] = {}
        self._slots: dict[tuple[str, bytes], set[int]] = {}
        """By key and value, as JSON: a scan over all facts would take 20 ms of 50,000."""

    def put(self, slot: int, metadata: Mapping[str, JsonValue]) -> None:
        """Set the metadata of a slot."""
        held = self._of_slot.get(slot)
        if held is metadata or not (held or metadata):
            return
        self.drop(slot)
        if metadata:
            self._of_slot[slot] = metadata
            for pair in _pairs(metadata):
                self._slots.setdefault(pair, set()).add(slot)

    def drop(self, slot: int) -> None:
        """Forget the metadata of a slot."""
        for pair in _pairs(self._of_slot.pop(slot, {})):
            held = self._slots[pair]
            held.discard(slot)
            if not held:
                del self._slots[pair]

    def where(self, wanted: Mapping[str, JsonValue], size: int) -> bytearray:
        """Return 1 for each of `size` slots whose metadata has all of these keys and values."""
        found = bytearray(size)
        sets = sorted((self._slots.get(pair, set[int]()) for pair in _pairs(wanted)), key=len)
        for slot in sets[0].intersection(*sets[1:]):
            found[slot] = 1
        return found


def _pairs(metadata: Mapping[str, JsonValue]) -> Iterator[tuple[str, bytes]]:
    for key, value in metadata.items():
        yield key, orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
