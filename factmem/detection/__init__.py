"""Detection of facts in chats: prompts, validation of answers, reconciliation with the store.

Imports providers and prompt.
"""

from factmem.detection.compression import CompressionReport, RetrieveFactsFromHistory
from factmem.detection.evidence import Doubt
from factmem.detection.report import (
    DetectionReport,
    DoubtfulItem,
    JoinedKeyword,
    RejectedItem,
    RejectionReason,
    Retraction,
)
from factmem.detection.request import Detection

__all__ = [
    "CompressionReport",
    "Detection",
    "DetectionReport",
    "Doubt",
    "DoubtfulItem",
    "JoinedKeyword",
    "RejectedItem",
    "RejectionReason",
    "Retraction",
    "RetrieveFactsFromHistory",
]
