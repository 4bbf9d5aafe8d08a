"""Export and import of facts: bundles, imports from Koog, CrewAI, mem0, Graphiti and MCP, chats of ChatGPT and Claude.

Imports providers.
"""

from factmem.transfer.bundle import export_facts, import_facts
from factmem.transfer.chats import import_chats
from factmem.transfer.koog import import_koog
from factmem.transfer.memories import import_crewai, import_graphiti, import_mcp, import_mem0

__all__ = [
    "export_facts",
    "import_chats",
    "import_crewai",
    "import_facts",
    "import_graphiti",
    "import_koog",
    "import_mcp",
    "import_mem0",
]
