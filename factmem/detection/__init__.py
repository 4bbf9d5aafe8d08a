"""Detection of facts in chats: prompts, validation of answers, reconciliation with the store.

Imports providers and prompt.
"""

from typing import TYPE_CHECKING

from factmem._lazy import lazily

if TYPE_CHECKING:
    from factmem.detection.compression import RetrieveFactsFromHistory as RetrieveFactsFromHistory
    from factmem.detection.report import DetectionReport as DetectionReport
    from factmem.detection.report import RejectionReason as RejectionReason
    from factmem.detection.request import Detection as Detection
else:
    __getattr__, __dir__, __all__ = lazily(
        __name__,
        {
            "compression": ["RetrieveFactsFromHistory"],
            "report": ["DetectionReport", "RejectionReason"],
            "request": ["Detection"],
        },
    )
