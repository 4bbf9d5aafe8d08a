"""Ranking by words, in any language. Needs only the standard library."""
