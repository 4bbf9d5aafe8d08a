"""Facts that answer a question: indexes by words and by meaning, ranking, search.

Imports providers, embedding and prompt.
"""

from factmem.recall.match import Match, RecallReport, RecallResult
from factmem.recall.query import Depth, RecallSettings, RecallWeights, Strictness

__all__ = [
    "Depth",
    "Match",
    "RecallReport",
    "RecallResult",
    "RecallSettings",
    "RecallWeights",
    "Strictness",
]
