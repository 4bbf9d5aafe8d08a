"""Facts in and out of stores: bundles and Koog's files.

Imports providers.
"""

from factmem.transfer.bundle import (
    ExportReport,
    ImportReport,
    export_facts,
    import_facts,
)
from factmem.transfer.koog import KoogProblem, KoogReport, import_koog

__all__ = [
    "ExportReport",
    "ImportReport",
    "KoogProblem",
    "KoogReport",
    "export_facts",
    "import_facts",
    "import_koog",
]
