"""The `factmem` command: stores on the command line.

Imports every room below it. `typer` and `rich` (extra `cli`) load in this room only.
"""
