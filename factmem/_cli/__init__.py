"""The `factmem` command: stores on the command line, and its entry point.

Imports every room below it. Only this room imports `typer` and `rich` (extra `cli`).
"""

import sys
from importlib.util import find_spec


def main() -> None:
    """Run the command line and exit the process."""
    if missing := [name for name in ("typer", "rich") if find_spec(name) is None]:
        sys.exit(
            f"factmem: the command line needs {' and '.join(missing)}: pip install 'factmem[cli]'"
        )
    from factmem._cli.application import app

    app(prog_name="factmem")
