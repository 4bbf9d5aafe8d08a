"""Source code as a tree, for tests that look at the project itself."""

import ast
import gc
from functools import cache


@cache
def tree_of(source: str) -> ast.Module:
    """Parse source code while nothing is collected; do not change the tree.

    CPython 3.11 raises a SystemError where a finalizer that runs meanwhile parses something too,
    as the writing of a traceback does.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(source)
    finally:
        if was_enabled:
            gc.enable()
