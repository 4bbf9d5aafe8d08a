"""AgentMemory: loading facts into prompts, detection in chats, recall, views and maintenance.

Imports every room below. Its names are imported on first use: the command line needs only one small
module of this room, and importing detection and recall would slow it down.
"""

from typing import TYPE_CHECKING

from factmem._lazy import lazily

if TYPE_CHECKING:
    from factmem.memory.agent_memory import AgentMemory as AgentMemory
    from factmem.memory.consolidation import ConsolidationReport as ConsolidationReport
    from factmem.memory.consolidation import MemoryConsolidation as MemoryConsolidation
    from factmem.memory.contents import MemoryContents as MemoryContents
    from factmem.memory.conversations import Conversation as Conversation
    from factmem.memory.conversations import MemoryConversations as MemoryConversations
    from factmem.memory.documents import MemoryDocuments as MemoryDocuments
    from factmem.memory.listing import FactOrigin as FactOrigin
    from factmem.memory.review import InboxItem as InboxItem
    from factmem.memory.review import MemoryReview as MemoryReview
    from factmem.memory.runs import MemoryRuns as MemoryRuns
    from factmem.memory.runs import RunOptions as RunOptions
    from factmem.memory.tools import MemoryTool as MemoryTool
else:
    __getattr__, __dir__, __all__ = lazily(
        __name__,
        {
            "agent_memory": "AgentMemory",
            "consolidation": "ConsolidationReport MemoryConsolidation",
            "contents": "MemoryContents",
            "conversations": "Conversation MemoryConversations",
            "documents": "MemoryDocuments",
            "listing": "FactOrigin",
            "review": "InboxItem MemoryReview",
            "runs": "MemoryRuns RunOptions",
            "tools": "MemoryTool",
        },
    )
