"""Ranking by words, in any language, with the standard library alone."""
