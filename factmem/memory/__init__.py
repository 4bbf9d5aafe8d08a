"""AgentMemory: loading facts into prompts, detection in chats, recall, views and maintenance.

Imports every room below. Its names are imported on first use: the command line needs only one small
module of this room, and importing detection and recall would slow it down.
"""

from typing import TYPE_CHECKING

from factmem._lazy import lazily

if TYPE_CHECKING:
    from factmem.memory.agent_memory import AgentMemory
    from factmem.memory.concept_changes import ChangeReport, PlaceChange
    from factmem.memory.consolidation import ConsolidationReport, Merge
    from factmem.memory.consolidator import MemoryConsolidation
    from factmem.memory.contents import MemoryContents
    from factmem.memory.conversations import (
        Conversation,
        MemoryConversations,
        RemovedTurns,
    )
    from factmem.memory.documents import DocumentInfo, MemoryDocuments
    from factmem.memory.learning import LearningRun
    from factmem.memory.listing import (
        ConceptInfo,
        CurrentFacts,
        MemoryStats,
        MemoryTree,
        RecordPage,
        ResetReport,
    )
    from factmem.memory.origin import FactOrigin
    from factmem.memory.review import FactDifference, InboxItem, MemoryReview
    from factmem.memory.runs import MemoryRuns, RunOptions
    from factmem.memory.tools import MemoryTool
    from factmem.memory.upkeep import MoveReport, TidyReport

__all__ = [
    "AgentMemory",
    "ChangeReport",
    "ConceptInfo",
    "ConsolidationReport",
    "Conversation",
    "CurrentFacts",
    "DocumentInfo",
    "FactDifference",
    "FactOrigin",
    "InboxItem",
    "LearningRun",
    "MemoryConsolidation",
    "MemoryContents",
    "MemoryConversations",
    "MemoryDocuments",
    "MemoryReview",
    "MemoryRuns",
    "MemoryStats",
    "MemoryTool",
    "MemoryTree",
    "Merge",
    "MoveReport",
    "PlaceChange",
    "RecordPage",
    "RemovedTurns",
    "ResetReport",
    "RunOptions",
    "TidyReport",
]

if not TYPE_CHECKING:  # type checkers report a name that does not exist
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "factmem.memory.agent_memory": ("AgentMemory",),
            "factmem.memory.concept_changes": ("ChangeReport", "PlaceChange"),
            "factmem.memory.consolidation": (
                "ConsolidationReport",
                "Merge",
            ),
            "factmem.memory.consolidator": ("MemoryConsolidation",),
            "factmem.memory.contents": ("MemoryContents",),
            "factmem.memory.conversations": (
                "Conversation",
                "MemoryConversations",
                "RemovedTurns",
            ),
            "factmem.memory.documents": (
                "DocumentInfo",
                "MemoryDocuments",
            ),
            "factmem.memory.learning": ("LearningRun",),
            "factmem.memory.listing": (
                "ConceptInfo",
                "CurrentFacts",
                "MemoryStats",
                "MemoryTree",
                "RecordPage",
                "ResetReport",
            ),
            "factmem.memory.origin": ("FactOrigin",),
            "factmem.memory.review": (
                "FactDifference",
                "InboxItem",
                "MemoryReview",
            ),
            "factmem.memory.runs": (
                "MemoryRuns",
                "RunOptions",
            ),
            "factmem.memory.tools": ("MemoryTool",),
            "factmem.memory.upkeep": (
                "MoveReport",
                "TidyReport",
            ),
        },
    )
