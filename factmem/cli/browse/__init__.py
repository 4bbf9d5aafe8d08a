"""`factmem browse`: the facts of a store in a terminal or a browser.

Only this folder imports `textual` and `textual-serve` (extra `tui`), when the command runs.
"""
