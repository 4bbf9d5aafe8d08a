"""`factmem browse`: the facts of a store in a terminal.

Only this folder imports `textual` (extra `tui`), when the command runs.
"""
