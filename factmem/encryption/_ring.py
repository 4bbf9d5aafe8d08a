"""The key ring of an encrypted store: data keys by generation, and a key for names."""

import os
from dataclasses import dataclass, replace

import orjson


@dataclass(frozen=True, slots=True, repr=False)
class KeyRing:
    """The secret keys of a store."""

    store: str
    """The name of the store, so that the row of one store is not read under the name of another."""
    names: bytes
    """The key for file names. It never changes, or a place would have two files."""
    generations: dict[int, bytes]
    generation: int
    """The generation of the key for new files."""

    @classmethod
    def new(cls, store: str) -> "KeyRing":
        """Return a ring of random keys."""
        return cls(store, os.urandom(32), {1: os.urandom(32)}, 1)

    def with_new_generation(self) -> "KeyRing":
        """Return the ring with one more data key, used for new files."""
        following = self.generation + 1
        generations = {**self.generations, following: os.urandom(32)}
        return replace(self, generations=generations, generation=following)

    def dump(self) -> bytes:
        """Return the ring as JSON."""
        generations = {str(each): key.hex() for each, key in self.generations.items()}
        return orjson.dumps(
            {
                "store": self.store,
                "names": self.names.hex(),
                "gens": generations,
                "gen": self.generation,
            }
        )

    @classmethod
    def load(cls, text: bytes) -> "KeyRing":
        """Return the ring of a dump."""
        fields = orjson.loads(text)
        generations = {int(each): bytes.fromhex(key) for each, key in fields["gens"].items()}
        return cls(fields["store"], bytes.fromhex(fields["names"]), generations, fields["gen"])
