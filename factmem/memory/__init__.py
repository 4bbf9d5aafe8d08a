"""AgentMemory: facts into prompts, facts out of chats, recall, views and maintenance.

Imports every room below.
"""

from factmem.memory.agent_memory import AgentMemory
from factmem.memory.consolidation import ConsolidationReport, Merge
from factmem.memory.contents import ConceptInfo, MemoryContents, MemoryTree, ResetReport
from factmem.memory.origin import FactOrigin
from factmem.memory.tools import MemoryTool

__all__ = [
    "AgentMemory",
    "ConceptInfo",
    "ConsolidationReport",
    "FactOrigin",
    "MemoryContents",
    "MemoryTool",
    "MemoryTree",
    "Merge",
    "ResetReport",
]
