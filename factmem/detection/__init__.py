"""Facts out of chats: the prompt, the candidates, their reconciliation with the store.

Imports providers and prompt.
"""

from factmem.detection.candidates import RejectedItem, RejectionReason
from factmem.detection.compression import CompressionReport, RetrieveFactsFromHistory
from factmem.detection.reconciliation import DetectionReport

__all__ = [
    "CompressionReport",
    "DetectionReport",
    "RejectedItem",
    "RejectionReason",
    "RetrieveFactsFromHistory",
]
