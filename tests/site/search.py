"""The site's search, asked as its theme asks: which pages come first for a question.

It repeats what docs/assets/search.js asks, each word as a beginning and as its stem, and what the
search worker of mkdocs-material does with lunr: fields and their weights, and more weight for pages
and for hits of all words.
"""

import json
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

from lunr import lunr

from tests.site.hooks import ROOT

QUESTIONS = Path(__file__).parent / "questions.tsv"
_WORDS = re.compile(r'"([a-z ]+)"')


def questions() -> list[tuple[str, set[str]]]:
    """Return what people type into a search box, each with the pages that answer it."""
    lines = QUESTIONS.read_text().splitlines()
    return [
        (question, set(pages.split())) for question, pages in (line.split("\t") for line in lines)
    ]


class SiteSearch:
    """The search over a built site.

    Args:
        site: The folder of the site.
    """

    def __init__(self, site: Path) -> None:
        built: dict[str, Any] = json.loads((site / "search" / "search_index.json").read_text())
        self._separator = built["config"]["separator"].replace("(?!", "(?!")
        documents = [
            {
                "ref": each["location"],
                "title": each["title"],
                "text": _plain(each["text"]),
                "tags": each.get("tags", []),
            }
            for each in built["docs"]
        ]
        self._index = lunr(
            "ref",
            [
                {"field_name": "title", "boost": 1000},
                "text",
                {"field_name": "tags", "boost": 1000000},
            ],
            documents,
        )
        script = (ROOT / "docs" / "assets" / "search.js").read_text()
        self._without = {word for found in _WORDS.findall(script) for word in found.split()}

    def pages(self, question: str) -> list[str]:
        """Return the pages that the search shows, best first."""
        words = [word.strip("?!.,;:()\"'") for word in question.split()]
        kept = [word for word in words if word and word.lower() not in self._without] or words
        terms = [term.lower() for word in kept for term in re.split(r"[\s\-]+", word) if term]
        scores: dict[str, float] = defaultdict(float)
        for hit in self._index.search(" ".join(f"{term}* {term}^1" for term in terms)):
            ref: str = hit["ref"]
            found = hit["match_data"].metadata
            part = sum(any(word.startswith(term) for word in found) for term in terms)
            weight = (0 if "#" in ref else 1) + part / len(terms)
            page = ref.partition("#")[0]
            scores[page] = max(scores[page], hit["score"] * (1 + weight**2))
        return [
            page.removesuffix(".html") for page in sorted(scores, key=lambda page: -scores[page])
        ]


def _plain(text: str) -> str:
    return re.sub(r"<[^>]+>", " ", text)
