"""Test helpers for agents and stores: a conformance suite, a scripted chat model, a clock.

The suite needs pytest (`pip install 'factmem[testing]'`), the chat model and the clock do not: each
name is imported on first use.
"""

from typing import TYPE_CHECKING

from factmem._lazy import lazily

if TYPE_CHECKING:
    from factmem.testing.adapters import AdapterContract as AdapterContract
    from factmem.testing.adapters import AdapterHost as AdapterHost
    from factmem.testing.chat import ScriptedChatModel as ScriptedChatModel
    from factmem.testing.clock import SettableClock as SettableClock
    from factmem.testing.providers import ProviderContract as ProviderContract
else:
    __getattr__, __dir__, __all__ = lazily(
        __name__,
        {
            "adapters": "AdapterContract AdapterHost",
            "chat": "ScriptedChatModel",
            "clock": "SettableClock",
            "providers": "ProviderContract",
        },
    )
