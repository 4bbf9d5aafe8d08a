"""Export and import of facts: bundles, and imports from Koog, CrewAI and mem0.

Imports providers.
"""

from factmem.transfer.bundle import (
    ExportReport,
    ImportReport,
    export_facts,
    import_facts,
)
from factmem.transfer.koog import KoogProblem, KoogReport, import_koog
from factmem.transfer.memories import (
    MemoriesReport,
    MemoryProblem,
    import_crewai,
    import_mem0,
    library_of,
)

__all__ = [
    "ExportReport",
    "ImportReport",
    "KoogProblem",
    "KoogReport",
    "MemoriesReport",
    "MemoryProblem",
    "export_facts",
    "import_crewai",
    "import_facts",
    "import_koog",
    "import_mem0",
    "library_of",
]
