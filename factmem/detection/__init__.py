"""Facts out of chats: the prompt, the candidates, their reconciliation with the store.

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

__all__ = [
    "CompressionReport",
    "DetectionReport",
    "Doubt",
    "DoubtfulItem",
    "JoinedKeyword",
    "RejectedItem",
    "RejectionReason",
    "Retraction",
    "RetrieveFactsFromHistory",
]
