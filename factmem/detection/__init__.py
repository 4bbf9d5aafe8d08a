"""Detection of facts in chats: prompts, validation of answers, reconciliation with the store.

Imports providers and prompt.
"""

from typing import TYPE_CHECKING

from factmem._lazy import lazily

if TYPE_CHECKING:
    from factmem.detection.compression import RetrieveFactsFromHistory as RetrieveFactsFromHistory
    from factmem.detection.report import Detection as Detection
    from factmem.detection.report import DetectionReport as DetectionReport
    from factmem.detection.report import RejectionReason as RejectionReason
else:
    __getattr__, __dir__, __all__ = lazily(
        __name__,
        {
            "compression": "RetrieveFactsFromHistory",
            "report": "Detection DetectionReport RejectionReason",
        },
    )
