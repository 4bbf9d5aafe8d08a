"""Search for the facts that answer a question: indexes by words and by meaning, and ranking.

Imports providers, embedding and prompt.
"""

from factmem.models.recall_filter import RecallFilter
from factmem.recall.match import Match, RecallResult, RecallSettings, RecallWeights

__all__ = ["Match", "RecallFilter", "RecallResult", "RecallSettings", "RecallWeights"]
