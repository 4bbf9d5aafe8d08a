"""Test helpers for agents and stores: conformance suites, a scripted chat model, a clock.

The suites need pytest (`pip install 'factmem[testing]'`), the chat model and the clock do not: each
name is imported on first use.
"""

from typing import TYPE_CHECKING

from factmem._lazy import lazily

if TYPE_CHECKING:
    from factmem.testing.adapters import AdapterContract, AdapterHost
    from factmem.testing.chat import ScriptedChatModel
    from factmem.testing.clock import SettableClock
    from factmem.testing.durable import (
        Damage,
        DurableStoreContract,
        StoreFolder,
    )
    from factmem.testing.providers import (
        FactStoreContract,
        ProviderContract,
        SearchedStoreContract,
    )

__all__ = [
    "AdapterContract",
    "AdapterHost",
    "Damage",
    "DurableStoreContract",
    "FactStoreContract",
    "ProviderContract",
    "ScriptedChatModel",
    "SearchedStoreContract",
    "SettableClock",
    "StoreFolder",
]

if not TYPE_CHECKING:  # type checkers report a name that does not exist
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "factmem.testing.adapters": ("AdapterContract", "AdapterHost"),
            "factmem.testing.chat": ("ScriptedChatModel",),
            "factmem.testing.clock": ("SettableClock",),
            "factmem.testing.durable": (
                "Damage",
                "DurableStoreContract",
                "StoreFolder",
            ),
            "factmem.testing.providers": (
                "FactStoreContract",
                "ProviderContract",
                "SearchedStoreContract",
            ),
        },
    )
