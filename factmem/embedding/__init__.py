"""Embedders: the protocol and adapters for functions, endpoints and local models.

Imports llm.
"""

from typing import TYPE_CHECKING

from factmem._lazy import lazily

if TYPE_CHECKING:
    from factmem.embedding.base import Embedder, QueryEmbedder
    from factmem.embedding.callable import CallableEmbedder
    from factmem.embedding.litellm import LiteLLMEmbedder
    from factmem.embedding.openai import OpenAIEmbedder
    from factmem.embedding.sentence_transformer import SentenceTransformerEmbedder

__all__ = [
    "CallableEmbedder",
    "Embedder",
    "LiteLLMEmbedder",
    "OpenAIEmbedder",
    "QueryEmbedder",
    "SentenceTransformerEmbedder",
]

if not TYPE_CHECKING:  # type checkers report a name that does not exist
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "factmem.embedding.base": (
                "Embedder",
                "QueryEmbedder",
            ),
            "factmem.embedding.callable": ("CallableEmbedder",),
            "factmem.embedding.litellm": ("LiteLLMEmbedder",),
            "factmem.embedding.openai": ("OpenAIEmbedder",),
            "factmem.embedding.sentence_transformer": ("SentenceTransformerEmbedder",),
        },
    )
