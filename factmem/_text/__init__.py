"""Text in any language: words and stems, spelling, times and dates.

It imports `models` and `llm`, and knows nothing of stores, detection or recall.
"""
