"""The README as a package index shows it: links that work there, or plain text.

A package index does not know the files beside the README. Once `[project.urls]` of pyproject.toml
has a `Source`, links lead there; until then they become text, because no address is invented.
"""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_PICTURE = re.compile(r"^!\[[^\]]*\]\((?!https?://)[^)]*\)\n\n?", re.MULTILINE)
_LINK = re.compile(r"\[([^\]]*)\]\((?!https?://|#)([^)]*)\)")


def indexed(readme: str, source: str | None) -> str:
    """Return the README with links for a package index."""
    if source is None:
        return _LINK.sub(r"\1", _PICTURE.sub("", readme))
    base = source.rstrip("/")
    return _LINK.sub(rf"[\1]({base}/blob/main/\2)", readme)


class ReadmeHook(MetadataHookInterface):
    """Sets the description of the package from the README."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the README to the metadata."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        source = metadata.get("urls", {}).get("Source")
        readme = {"content-type": "text/markdown", "text": indexed(text, source)}
        metadata["readme"] = readme
