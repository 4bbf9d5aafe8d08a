"""Source code as a tree, for tests that look at the project itself."""

import ast
import gc
from functools import cache


@cache
def tree_of(source: str) -> ast.Module:
    """Parse source code while nothing is collected; nobody may change the tree.

    CPython 3.11 raises a SystemError where a finalizer that runs meanwhile parses something too,
    as the writing of a traceback does.
    """
    gc.disable()
    try:
        return ast.parse(source)
    finally:
        gc.enable()
