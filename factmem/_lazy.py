"""Lazy imports: a package's names are imported on first use.

A package that uses it names each of its names twice: type checkers read `import A as A`, which also
makes it public, and Python reads the table.
"""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module


def lazily(
    package: str, homes: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """Return the `__getattr__`, `__dir__` and `__all__` of a package (PEP 562).

    Args:
        package: The package's name.
        homes: The names to import, by the module of the package that defines them.
    """
    home_of = {name: home for home, names in homes.items() for name in names}
    names = sorted(home_of)

    def load(name: str) -> object:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{home_of[name]}"), name)

    return load, lambda: names, names
