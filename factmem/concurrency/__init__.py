"""Worker threads, one-per-loop objects and background tasks.

Imports errors only.
"""
