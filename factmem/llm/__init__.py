"""Chat models: the protocol, and a client of endpoints with OpenAI's API.

Imports models and concurrency.
"""

from typing import TYPE_CHECKING

from factmem._lazy import lazily

if TYPE_CHECKING:
    from factmem.llm.base import (
        ChatModel,
        ChatResponse,
        Extraction,
        Message,
        ToolCall,
        ToolDefinition,
    )
    from factmem.llm.messages import History
    from factmem.llm.openai import OpenAIChatModel

__all__ = [
    "ChatModel",
    "ChatResponse",
    "Extraction",
    "History",
    "Message",
    "OpenAIChatModel",
    "ToolCall",
    "ToolDefinition",
]

if not TYPE_CHECKING:  # type checkers report a name that does not exist
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "factmem.llm.base": (
                "ChatModel",
                "ChatResponse",
                "Extraction",
                "Message",
                "ToolCall",
                "ToolDefinition",
            ),
            "factmem.llm.messages": ("History",),
            "factmem.llm.openai": ("OpenAIChatModel",),
        },
    )
