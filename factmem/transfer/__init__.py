"""Export and import of facts: bundles, the sync of devices, memories and chats of others.

Imports providers.
"""

from factmem.transfer.bundle import export_facts, import_facts
from factmem.transfer.chats import import_chats
from factmem.transfer.devices import SyncReport, key_of_phrase, new_phrase, sync_devices
from factmem.transfer.koog import import_koog
from factmem.transfer.memories import import_crewai, import_graphiti, import_mcp, import_mem0

__all__ = [
    "SyncReport",
    "export_facts",
    "import_chats",
    "import_crewai",
    "import_facts",
    "import_graphiti",
    "import_koog",
    "import_mcp",
    "import_mem0",
    "key_of_phrase",
    "new_phrase",
    "sync_devices",
]
