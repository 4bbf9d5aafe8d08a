"""Chat models: the protocol, and a client of endpoints with OpenAI's API.

Imports models and concurrency.
"""

from factmem.llm.base import ChatModel, ChatResponse, Extraction, Message, ToolCall, ToolDefinition
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
