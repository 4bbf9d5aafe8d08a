"""Prompt text: the memory message, escaping, transcripts, token counts. Imports ledger and llm."""

from typing import TYPE_CHECKING

from factmem._lazy import lazily

if TYPE_CHECKING:
    from factmem.prompt.memory_message import LoadReport as LoadReport
    from factmem.prompt.memory_message import MessageForm as MessageForm
else:
    __getattr__, __dir__, __all__ = lazily(__name__, {"memory_message": "LoadReport MessageForm"})
