"""Prompt text: the memory message, escaping, transcripts, token counts.

Imports ledger and llm.
"""

from typing import TYPE_CHECKING

from factmem._lazy import lazily

if TYPE_CHECKING:
    from factmem.prompt.memory_message import LoadReport
    from factmem.prompt.message_form import MessageForm

__all__ = ["LoadReport", "MessageForm"]

if not TYPE_CHECKING:  # type checkers report a name that does not exist
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "factmem.prompt.memory_message": ("LoadReport",),
            "factmem.prompt.message_form": ("MessageForm",),
        },
    )
