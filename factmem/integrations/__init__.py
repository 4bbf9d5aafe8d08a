"""Adapters for other frameworks, one module each. Importing one imports its framework."""
