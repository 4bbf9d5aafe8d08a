"""Lazy imports: a package's names are imported on first use.

A package that uses it names each of its names twice: type checkers read `import A as A`, which also
makes it public, and Python reads the table.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from types import FrameType


def lazily(
    package: str, homes: Mapping[str, str]
) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` of a package whose names are imported late.

    `homes` has the names, separated by spaces, by the module that defines them.
    """
    home_of = {name: home for home, names in homes.items() for name in names.split()}
    names = sorted(home_of)

    def load(name: str) -> object:
        if name not in home_of:
            text = f"module {package!r} has no attribute {name!r}"
            caller = sys._getframe(1)  # pyright: ignore[reportPrivateUsage] - no public name for it
            if name[:1] != "_" and _is_import(caller):
                # Python's own error would not say more than the name.
                raise ImportError(f"{text}: {_found(package, name, names)}", name=package)
            raise AttributeError(text)
        return getattr(import_module(f"{package}.{home_of[name]}"), name)

    return load, lambda: names, names


def _is_import(frame: FrameType) -> bool:
    """Return whether a frame is at `from package import name`."""
    from dis import opmap  # only for an error

    return frame.f_code.co_code[frame.f_lasti] == opmap["IMPORT_FROM"]


def _found(package: str, name: str, names: Sequence[str]) -> str:
    """Return where a name can be imported from, or which one was meant."""
    from difflib import get_close_matches
    from pkgutil import iter_modules

    root = import_module(package.partition(".")[0])
    homes = [each.name for each in iter_modules(root.__path__) if each.name[:1] != "_"]
    for home in ["", *homes]:
        module = root if not home else import_module(f"{root.__name__}.{home}")
        if name in (getattr(module, "__all__", None) or ()):
            return f"from {module.__name__} import {name}"
    close = [*(each for each in names if name in each), *get_close_matches(name, names, 3, 0.5)]
    if not close:
        return f"it has {', '.join(names)}"
    return f"did you mean {', '.join(dict.fromkeys(close))}?"
