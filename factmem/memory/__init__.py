"""AgentMemory: loading facts into prompts, detection in chats, recall, views and maintenance.

Imports every room below. Its names are imported on first use: the command line needs only one small
module of this room, and importing detection and recall would slow it down.
"""

from typing import TYPE_CHECKING

from factmem._lazy import lazily

if TYPE_CHECKING:
    from factmem.memory.agent_memory import AgentMemory
    from factmem.memory.consolidation import ConsolidationReport
    from factmem.memory.consolidator import MemoryConsolidation
    from factmem.memory.contents import MemoryContents
    from factmem.memory.conversations import (
        Conversation,
        MemoryConversations,
    )
    from factmem.memory.documents import MemoryDocuments
    from factmem.memory.origin import FactOrigin
    from factmem.memory.review import InboxItem, MemoryReview
    from factmem.memory.runs import MemoryRuns, RunOptions
    from factmem.memory.tools import MemoryTool

__all__ = [
    "AgentMemory",
    "ConsolidationReport",
    "Conversation",
    "FactOrigin",
    "InboxItem",
    "MemoryConsolidation",
    "MemoryContents",
    "MemoryConversations",
    "MemoryDocuments",
    "MemoryReview",
    "MemoryRuns",
    "MemoryTool",
    "RunOptions",
]

if not TYPE_CHECKING:  # type checkers report a name that does not exist
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "factmem.memory.agent_memory": ("AgentMemory",),
            "factmem.memory.consolidation": ("ConsolidationReport",),
            "factmem.memory.consolidator": ("MemoryConsolidation",),
            "factmem.memory.contents": ("MemoryContents",),
            "factmem.memory.conversations": (
                "Conversation",
                "MemoryConversations",
            ),
            "factmem.memory.documents": ("MemoryDocuments",),
            "factmem.memory.origin": ("FactOrigin",),
            "factmem.memory.review": (
                "InboxItem",
                "MemoryReview",
            ),
            "factmem.memory.runs": (
                "MemoryRuns",
                "RunOptions",
            ),
            "factmem.memory.tools": ("MemoryTool",),
        },
    )
