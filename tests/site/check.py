"""Builds the documentation site and checks it: `python -m tests.site.check`.

Warnings of the build are errors, every link on every page leads somewhere on the site, and every
public name has an entry in the reference.
"""

import os
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tests.site.hooks import ROOT, public_modules

SITE = ROOT / "build" / "site"


class Links(HTMLParser):
    """The links and the anchors of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.targets: set[str] = set()
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note where a tag leads, and what leads to it."""
        named = dict(attrs)
        for name in ("href", "src"):
            if target := named.get(name):
                self.targets.add(target)
        if (anchor := named.get("id")) is not None:
            self.anchors.add(anchor)


def read_site() -> dict[Path, Links]:
    """Return the links of every page."""
    found: dict[Path, Links] = {}
    for file in sorted(SITE.rglob("*.html")):
        found[file] = Links()
        found[file].feed(file.read_text())
    return found


def dead_links(pages: dict[Path, Links]) -> list[str]:
    """Return the links that lead nowhere on the site; other sites are not asked."""
    dead: list[str] = []
    for page, links in pages.items():
        for target in sorted(links.targets):
            parts = urlsplit(target)
            if parts.scheme or parts.netloc or page.name == "404.html":
                continue
            file = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            anchor = unquote(parts.fragment)
            # Anchors with two underscores are the theme's own, made by its script.
            is_checked = anchor and file in pages and "__" not in anchor
            if not file.exists() or (is_checked and anchor not in pages[file].anchors):
                dead.append(f"{page.relative_to(SITE)}: {target}")
    return dead


def missing_names(pages: dict[Path, Links]) -> tuple[int, list[str]]:
    """Return how many public names there are, and those without an entry in the reference."""
    anchors = set[str]().union(*(links.anchors for links in pages.values()))
    names = [f"{module}.{name}" for module, own in public_modules().items() for name in own]
    return len(names), [name for name in names if name not in anchors]


def main() -> int:
    """Build and check; return the exit code."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--clean", "--quiet"]
    built = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, check=False
    )
    if built.returncode != 0:
        return built.returncode
    pages = read_site()
    count, missing = missing_names(pages)
    dead = dead_links(pages)
    for each in missing:
        print(f"not in the reference: {each}")
    for each in dead:
        print(f"dead link in {each}")
    print(
        f"{len(pages)} pages, {count} public names of which {len(missing)} are missing, "
        f"{len(dead)} dead links"
    )
    return 1 if missing or dead else 0


if __name__ == "__main__":
    sys.exit(main())
