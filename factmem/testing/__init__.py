"""What helps to test agents and stores: conformance suites and a scripted chat model.

The suites need pytest (`pip install 'factmem[testing]'`), the scripted chat model and the clock do
not: each name is imported when it is asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from factmem.testing.chat import ScriptedChatModel
    from factmem.testing.clock import SettableClock
    from factmem.testing.providers import (
        FactStoreContract,
        FollowedStoreContract,
        IndexedStoreContract,
        LearningStoreContract,
        ProviderContract,
    )
    from factmem.testing.storages import StorageContract

__all__ = [
    "FactStoreContract",
    "FollowedStoreContract",
    "IndexedStoreContract",
    "LearningStoreContract",
    "ProviderContract",
    "ScriptedChatModel",
    "SettableClock",
    "StorageContract",
]

_HOMES = {
    "FactStoreContract": "factmem.testing.providers",
    "FollowedStoreContract": "factmem.testing.providers",
    "IndexedStoreContract": "factmem.testing.providers",
    "LearningStoreContract": "factmem.testing.providers",
    "ProviderContract": "factmem.testing.providers",
    "ScriptedChatModel": "factmem.testing.chat",
    "SettableClock": "factmem.testing.clock",
    "StorageContract": "factmem.testing.storages",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(import_module(_HOMES[name]), name)
    return found
