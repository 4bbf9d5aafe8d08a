"""What a docstring in Google's style says about a function and its parameters.

Docstrings are given without the indentation of the code, as `inspect.getdoc` returns them.
"""

import re
from collections.abc import Iterable

__all__ = ["described_parameters", "summary"]

_HEADING = re.compile(r"(Args|Arguments|Parameters|Params):\s*")
_ENTRY = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)")


def summary(docstring: str) -> str:
    """Return the first paragraph in one line; empty where there is none."""
    paragraph, _, _ = docstring.partition("\n\n")
    if _HEADING.fullmatch(paragraph.partition("\n")[0]):
        return ""
    return " ".join(paragraph.split())


def described_parameters(docstring: str) -> dict[str, str]:
    """Return what the section `Args:` says, by the name of the parameter."""
    lines = iter(docstring.split("\n"))
    if not any(_HEADING.fullmatch(line) for line in lines):
        return {}
    found: dict[str, str] = {}
    name, depth = "", -1
    for line in _section(lines):
        indent = len(line) - len(line.lstrip())
        entry = _ENTRY.fullmatch(line.strip())
        if depth < 0:
            depth = indent
        if indent <= depth and entry:
            name = entry[1]
            found[name] = entry[2].strip()
        elif name:
            found[name] = f"{found[name]} {line.strip()}".strip()
    return {name: text for name, text in found.items() if text}


def _section(lines: Iterable[str]) -> Iterable[str]:
    """Yield the lines of the section that has just begun: all that are indented."""
    for line in lines:
        if line.strip():
            if not line.startswith(" "):
                return
            yield line
