"""Mutants that no test can catch, each with the reason."""

EXPLAINED: dict[str, str] = {}
"""The name of a mutant, and why it changes nothing that a caller could see."""
