"""The `factmem` command: stores on the command line, and its entry point.

Imports every room below it. Only this room imports `typer` and `rich` (extra `cli`).
"""

import gc
import io
import os
import sys
from importlib.util import find_spec


def main() -> None:
    """Run the command line and exit the process."""
    _open_standard_files()
    if missing := [name for name in ("typer", "rich") if find_spec(name) is None]:
        sys.exit(
            f"factmem: the command line needs {' and '.join(missing)}: pip install 'factmem[cli]'"
        )
    try:
        # Imports leave nothing to collect, and looking for it takes a tenth of the start.
        gc.disable()
        from factmem._cli.application import app

        gc.enable()
        gc.freeze()
        app(prog_name="factmem")
    except KeyboardInterrupt:  # during the imports; later the application ends with it
        sys.exit(130)


def _open_standard_files() -> None:
    """Open closed standard files, and let every terminal show what it can.

    The next file that a process opens gets the number of a closed one: a library that prints would
    write into the store.
    """
    while (opened := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(opened)
    sys.stdin, sys.stdout, sys.stderr = (
        given or open(os.devnull, mode, encoding="utf-8")  # noqa: SIM115 - for the whole process
        for given, mode in ((sys.stdin, "r"), (sys.stdout, "w"), (sys.stderr, "w"))
    )
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # as stderr: a letter is no error
