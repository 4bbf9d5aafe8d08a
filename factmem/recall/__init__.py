"""Search for the facts that answer a question: indexes by words and by meaning, and ranking.

Imports providers, embedding and prompt.
"""

from factmem.recall.match import Match, RecallReport, RecallResult
from factmem.recall.query import Depth, RecallFilters, RecallSettings, RecallWeights, Strictness

__all__ = [
    "Depth",
    "Match",
    "RecallFilters",
    "RecallReport",
    "RecallResult",
    "RecallSettings",
    "RecallWeights",
    "Strictness",
]
