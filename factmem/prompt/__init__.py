"""Text that chat models read: the memory message, escaping, transcripts, token counts.

Imports ledger and llm.
"""

from factmem.prompt.memory_message import LoadReport
from factmem.prompt.message_form import MessageForm
from factmem.prompt.tokens import TokenCounter, estimate_tokens, tiktoken_counter
from factmem.prompt.transcript import Transcript

__all__ = [
    "LoadReport",
    "MessageForm",
    "TokenCounter",
    "Transcript",
    "estimate_tokens",
    "tiktoken_counter",
]
