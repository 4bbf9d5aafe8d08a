"""AgentMemory: facts into prompts, facts out of chats, recall, views and maintenance.

Imports every room below.
"""

from factmem.memory.agent_memory import AgentMemory
from factmem.memory.consolidation import ConsolidationReport, Merge
from factmem.memory.contents import MemoryContents
from factmem.memory.documents import DocumentInfo, MemoryDocuments
from factmem.memory.listing import ConceptInfo, MemoryTree, ResetReport
from factmem.memory.origin import FactOrigin
from factmem.memory.tools import MemoryTool
from factmem.memory.upkeep import ConversionReport, MoveReport, TidyReport

__all__ = [
    "AgentMemory",
    "ConceptInfo",
    "ConsolidationReport",
    "ConversionReport",
    "DocumentInfo",
    "FactOrigin",
    "MemoryContents",
    "MemoryDocuments",
    "MemoryTool",
    "MemoryTree",
    "Merge",
    "MoveReport",
    "ResetReport",
    "TidyReport",
]
