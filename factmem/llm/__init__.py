"""Chat models: the protocol, and a client of endpoints with OpenAI's API.

Imports models and concurrency.
"""

from typing import TYPE_CHECKING

from factmem._lazy import lazily

if TYPE_CHECKING:
    from factmem.llm.base import ChatModel as ChatModel
    from factmem.llm.base import ChatResponse as ChatResponse
    from factmem.llm.base import Extraction as Extraction
    from factmem.llm.base import History as History
    from factmem.llm.base import Message as Message
    from factmem.llm.base import ToolCall as ToolCall
    from factmem.llm.base import ToolDefinition as ToolDefinition
    from factmem.llm.openai import OpenAIChatModel as OpenAIChatModel
else:
    __getattr__, __dir__, __all__ = lazily(
        __name__,
        {
            "base": "ChatModel ChatResponse Extraction History Message ToolCall ToolDefinition",
            "openai": "OpenAIChatModel",
        },
    )
