"""`factmem browse`: the facts of a store in a terminal or a browser.

`textual` and `textual-serve` (extra `tui`) load in this folder only, when the command runs.
"""
