"""Embedders: the protocol and adapters for functions, endpoints and local models.

Imports llm.
"""

from typing import TYPE_CHECKING

from factmem._lazy import lazily

if TYPE_CHECKING:
    from factmem.embedding.base import CallableEmbedder as CallableEmbedder
    from factmem.embedding.base import Embedder as Embedder
    from factmem.embedding.base import QueryEmbedder as QueryEmbedder
    from factmem.embedding.litellm import LiteLLMEmbedder as LiteLLMEmbedder
    from factmem.embedding.openai import OpenAIEmbedder as OpenAIEmbedder
    from factmem.embedding.sentence_transformer import (
        SentenceTransformerEmbedder as SentenceTransformerEmbedder,
    )
else:
    __getattr__, __dir__, __all__ = lazily(
        __name__,
        {
            "base": "CallableEmbedder Embedder QueryEmbedder",
            "litellm": "LiteLLMEmbedder",
            "openai": "OpenAIEmbedder",
            "sentence_transformer": "SentenceTransformerEmbedder",
        },
    )
