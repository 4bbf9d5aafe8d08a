"""Every Python block in the documentation runs, and prints its documented output.

A block is a program of its own, run in an empty directory; the lines that it prints are those of
its `#>` comments, in their order. A block that goes on where the one before it ended says so in its
fence, ```python {continues="true"}; one that cannot run says why: ```python {skip="needs a key"}.
"""

import contextlib
import io
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

from tests.tables import table

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])

_FENCE = re.compile(
    r"^(?P<indent> *)```(?P<info>[^\n`]*)\n(?P<code>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL
)
_SETTING = re.compile(r'(\w+)="([^"]*)"')
_LINK = re.compile(r"\]\((?!https?://|mailto:)([^)#\s]*)(#[^)\s]*)?\)")


@dataclass(frozen=True)
class Block:
    """One fenced block of a page."""

    page: Path
    line: int
    language: str
    settings: dict[str, str]
    code: str

    @property
    def expected(self) -> list[str]:
        """The lines that it must print."""
        shown = re.findall(r"^ *#>(?: (.*)|)$", self.code, flags=re.MULTILINE)
        return [line.rstrip() for line in shown]


def blocks_of(page: Path) -> list[Block]:
    """Return the fenced blocks of a page."""
    text = page.read_text()
    return [
        Block(
            page,
            text[: found.start()].count("\n") + 1,
            found["info"].partition("{")[0].strip(),
            dict(_SETTING.findall(found["info"])),
            re.sub(f"^{found['indent']}", "", found["code"], flags=re.MULTILINE),
        )
        for found in _FENCE.finditer(text)
    ]


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def run_block(block: Block, module: ModuleType) -> list[str]:
    """Run a block in a module and return its output."""
    code = "\n" * block.line + block.code  # so that a traceback names the page's own line
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, _name(block.page), "exec"), vars(module))
    return [line.rstrip() for line in printed.getvalue().splitlines()]


def test_every_fence_is_closed() -> None:
    """A block without an end is text to the tests, so its program would never run."""
    open_pages = [
        _name(page)
        for page in PAGES
        if len(re.findall(r"^ *```", page.read_text(), flags=re.MULTILINE)) % 2
    ]
    assert open_pages == []


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_blocks_print_the_documented_output(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader who copies a block gets the output on the page."""
    module = ModuleType("__main__")
    for number, block in enumerate(blocks_of(page)):
        if block.language != "python" or "skip" in block.settings:
            continue
        if "continues" not in block.settings:
            module = ModuleType("__main__")
            folder = tmp_path / str(number)
            folder.mkdir()
            monkeypatch.chdir(folder)
        monkeypatch.setitem(sys.modules, "__main__", module)

        printed = run_block(block, module)

        assert printed == block.expected, f"{_name(page)}, line {block.line}"


@table("page", PAGES, ids=_name)
def test_blocks_name_their_language_and_the_reason_of_a_skip(page: Path) -> None:
    """Otherwise a block without a language, or a silent skip, would not be tested."""
    for block in blocks_of(page):
        where = f"{_name(page)}, line {block.line}"
        assert block.language, f"{where}: name the language of the block"
        assert block.language not in {"py", "python3", "pycon"}, f"{where}: call it python"
        assert len(block.settings.get("skip", "a reason")) > 5, (
            f"{where}: give the reason of the skip"
        )


@table("page", PAGES, ids=_name)
def test_links_have_a_target(page: Path) -> None:
    """A link to a page or a file of the project finds it, and its heading too."""
    for target, anchor in _LINK.findall(page.read_text()):
        file = (page.parent / target).resolve() if target else page
        assert file.exists(), f"{_name(page)} links to {target}, which does not exist"
        if anchor and file.suffix == ".md":
            assert anchor[1:] in _anchors(file), f"{_name(page)} links to {target}{anchor}"


def test_every_page_is_in_the_navigation() -> None:
    """Users do not find a page without a link."""
    site = (ROOT / "mkdocs.yml").read_text()
    pages = {str(page.relative_to(ROOT / "docs")) for page in ROOT.glob("docs/**/*.md")}

    assert [page for page in sorted(pages) if f" {page}" not in site] == []


def _anchors(page: Path) -> set[str]:
    text = _FENCE.sub("", page.read_text())
    headings = re.findall(r"^#+ +(.*)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_a_wrong_page_fails(tmp_path: Path) -> None:
    """A wrong output, a missing one, and one that is never printed all fail."""
    page = ROOT / "docs" / "none.md"
    wrong = Block(page, 1, "python", {}, "print(1)\n#> 2\n")
    silent = Block(page, 1, "python", {}, "print(1)\n")
    idle = Block(page, 1, "python", {}, "def f():\n    print(1)\n    #> 1\n")

    for block in (wrong, silent, idle):
        assert run_block(block, ModuleType("__main__")) != block.expected
