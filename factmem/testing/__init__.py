"""Test helpers for agents and stores: conformance suites, a scripted chat model, a clock.

The suites need pytest (`pip install 'factmem[testing]'`), the chat model and the clock do not: each
name is imported on first use.
"""

from typing import TYPE_CHECKING

from factmem._lazy import lazily

if TYPE_CHECKING:
    from factmem.testing.adapters import AdapterContract as AdapterContract
    from factmem.testing.adapters import AdapterHost as AdapterHost
    from factmem.testing.chat import ScriptedChatModel as ScriptedChatModel
    from factmem.testing.clock import SettableClock as SettableClock
    from factmem.testing.durable import Damage as Damage
    from factmem.testing.durable import DurableStoreContract as DurableStoreContract
    from factmem.testing.durable import StoreFolder as StoreFolder
    from factmem.testing.providers import FactStoreContract as FactStoreContract
    from factmem.testing.providers import ProviderContract as ProviderContract
    from factmem.testing.providers import SearchedStoreContract as SearchedStoreContract
else:
    __getattr__, __dir__, __all__ = lazily(
        __name__,
        {
            "adapters": ["AdapterContract", "AdapterHost"],
            "chat": ["ScriptedChatModel"],
            "clock": ["SettableClock"],
            "durable": ["Damage", "DurableStoreContract", "StoreFolder"],
            "providers": ["FactStoreContract", "ProviderContract", "SearchedStoreContract"],
        },
    )
