"""Detection of facts in chats: prompts, validation of answers, reconciliation with the store.

Imports providers and prompt.
"""

from typing import TYPE_CHECKING

from factmem._lazy import lazily

if TYPE_CHECKING:
    from factmem.detection.compression import RetrieveFactsFromHistory
    from factmem.detection.report import (
        DetectionReport,
        RejectionReason,
    )
    from factmem.detection.request import Detection

__all__ = ["Detection", "DetectionReport", "RejectionReason", "RetrieveFactsFromHistory"]

if not TYPE_CHECKING:  # type checkers report a name that does not exist
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "factmem.detection.compression": ("RetrieveFactsFromHistory",),
            "factmem.detection.report": (
                "DetectionReport",
                "RejectionReason",
            ),
            "factmem.detection.request": ("Detection",),
        },
    )
