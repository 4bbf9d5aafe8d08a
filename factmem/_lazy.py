"""Lazy imports: a package's names are imported on first use."""

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module


def lazily(
    package: str, homes: Mapping[str, Iterable[str]]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return the `__getattr__` and `__dir__` of a package (PEP 562).

    Args:
        package: The package's name.
        homes: The names to import, by the module that defines them.
    """
    home_of = {name: module for module, names in homes.items() for name in names}

    def load(name: str) -> object:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(home_of[name]), name)

    return load, lambda: sorted(home_of)
