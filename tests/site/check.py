"""Builds the documentation site and checks it: `python -m tests.site.check`.

Warnings of the build are errors, every link on every page leads somewhere on the site, every public
name has an entry in the reference and every parameter there has a type, the pages are as short as
they promise, and the search finds the page that answers a question.
"""

import ast
import html
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import yaml

from tests.site.hooks import ROOT, public_modules
from tests.site.search import SiteSearch, questions

SITE = ROOT / "build" / "site"
MOST_WORDS = 600
"""Of a how-to page."""
MOST_IN_ALL = 31_000
"""Of all pages and the README."""
LEAST_FOUND = 190
"""Of the questions: so many must have their page among the first three."""

_TAGS = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)
"""The words of a page that only the search reads."""
_SIGNATURE = re.compile(r'<div class="[^"]*doc-signature[^"]*">(.*?)</div>', re.DOTALL)


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


def untyped() -> tuple[int, list[str]]:
    """Return how many signatures the reference shows, and those that lack a type."""
    count, found = 0, list[str]()
    for page in sorted((SITE / "reference").glob("*.html")):
        for block in _SIGNATURE.findall(page.read_text()):
            text = html.unescape(re.sub(r"<[^>]+>", "", block)).strip()
            try:
                tree = ast.parse(f"def {text}: ...").body[0]
            except SyntaxError:  # the value of a constant, or a type alias
                continue
            assert isinstance(tree, ast.FunctionDef)
            count += 1
            given = tree.args
            arguments = [
                *given.posonlyargs,
                *given.args,
                *given.kwonlyargs,
                given.vararg,
                given.kwarg,
            ]
            is_class = text[0].isupper()
            if any(each is not None and each.annotation is None for each in arguments) or (
                tree.returns is None and not is_class
            ):
                found.append(f"{page.name}: {text.partition('(')[0]}")
    return count, found


def how_tos() -> list[str]:
    """Return the how-to pages of the navigation."""
    nav = yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]
    [guides] = [section["How-to guides"] for section in nav if "How-to guides" in section]
    return [page for group in guides for pages in group.values() for page in pages]


def too_long() -> tuple[int, list[str]]:
    """Return the words of all pages, and the how-to pages that are too long."""
    words = {
        page.name: len(_TAGS.sub("", page.read_text()).split())
        for page in [ROOT / "README.md", *ROOT.glob("docs/*.md")]
    }
    found = [
        f"{page} has {words[page]} words, {MOST_WORDS} at most"
        for page in how_tos()
        if words[page] > MOST_WORDS
    ]
    return sum(words.values()), found


def not_found() -> list[str]:
    """Return the questions with none of their pages among the first three that the search shows."""
    search = SiteSearch(SITE)
    return [
        f"{question!r}: {', '.join(found)} instead of {' or '.join(sorted(pages))}"
        for question, pages in questions()
        if pages.isdisjoint(found := search.pages(question)[:3])
    ]


# Where ruff is installed, it would be a process for each of 570 signatures. `make docs` alone
# installs none.
MKDOCS = "import sys; sys.modules['ruff'] = None; from mkdocs.__main__ import cli; cli()"


def main() -> int:
    """Build and check; return the exit code."""
    command = [sys.executable, "-c", MKDOCS, "build", "--strict", "--clean", "--quiet"]
    built = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, check=False
    )
    if built.returncode != 0:
        return built.returncode
    pages = read_site()
    count, missing = missing_names(pages)
    dead = dead_links(pages)
    signatures, bare = untyped()
    words, long = too_long()
    faults = [
        *(f"not in the reference: {each}" for each in missing),
        *(f"dead link in {each}" for each in dead),
        *(f"without types: {each}" for each in bare),
        *(f"too long: {each}" for each in long),
    ]
    lost = not_found()
    if len(questions()) - len(lost) < LEAST_FOUND:
        faults += [f"not found: {each}" for each in lost]
    if words > MOST_IN_ALL:
        faults.append(f"{words} words in all, {MOST_IN_ALL} at most")
    for fault in faults:
        print(fault)
    print(
        f"{len(pages)} pages, {words} words, {count} public names, {signatures} signatures, "
        f"{len(questions()) - len(lost)} of {len(questions())} questions answered, "
        f"{len(faults)} faults"
    )
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
