"""Prompt text: the memory message, escaping, transcripts, token counts.

Imports ledger and llm.
"""

from factmem.prompt.memory_message import LoadReport
from factmem.prompt.message_form import Frame, LineForm, MessageForm, ReadHead, ReadLine
from factmem.prompt.quotes import FoldedText
from factmem.prompt.tokens import estimate_tokens
from factmem.prompt.transcript import SaidMessage, Transcript

__all__ = [
    "FoldedText",
    "Frame",
    "LineForm",
    "LoadReport",
    "MessageForm",
    "ReadHead",
    "ReadLine",
    "SaidMessage",
    "Transcript",
    "estimate_tokens",
]
