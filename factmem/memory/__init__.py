"""AgentMemory: facts into prompts, facts out of chats, recall, views and maintenance.

Imports every room below.
"""

from factmem.memory.agent_memory import AgentMemory
from factmem.memory.consolidation import ConsolidationReport, Merge
from factmem.memory.contents import ConceptInfo, MemoryContents, MemoryTree, ResetReport
from factmem.memory.documents import DocumentInfo, MemoryDocuments
from factmem.memory.origin import FactOrigin
from factmem.memory.tools import MemoryTool

__all__ = [
    "AgentMemory",
    "ConceptInfo",
    "ConsolidationReport",
    "DocumentInfo",
    "FactOrigin",
    "MemoryContents",
    "MemoryDocuments",
    "MemoryTool",
    "MemoryTree",
    "Merge",
    "ResetReport",
]
