"""The notebooks among the examples run from their first cell to their last."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))

EXECUTE = """
import json, sys
import nbclient, nbformat
notebook = nbformat.read(sys.argv[1], as_version=4)
nbclient.NotebookClient(notebook, timeout=60, kernel_name="python3").execute()
texts = []
for cell in notebook.cells:
    for output in cell.get("outputs", []):
        texts.append(output.get("text") or output["data"]["text/plain"])
print(json.dumps(texts))
"""


def _executed(notebook: str, folder: Path) -> list[str]:
    """Run a notebook in its own process, as the kernel's packages warn; return its output."""
    done = subprocess.run(
        [sys.executable, "-c", EXECUTE, str(EXAMPLES / notebook)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    outputs: list[str] = json.loads(done.stdout)
    return outputs


@pytest.mark.storm
def test_async_and_sync_calls_work_in_a_notebook(tmp_path: Path) -> None:
    """The notebook uses both."""
    awaited, called, tree = _executed("notebook.ipynb", tmp_path)

    assert awaited == called == "[('vim',)]"
    assert tree.startswith("memory: 1\n  product/my-app: 1")


@pytest.mark.storm
def test_growth_is_plotted(tmp_path: Path) -> None:
    """Records show as a table, histories go into a data frame, and the picture exists."""
    records, _, chart = _executed("growth.ipynb", tmp_path)

    assert "PlacedFact" in records
    assert "Image" in chart  # the cell shows it
    assert (tmp_path / "growth.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda file: file.name)
def test_notebooks_are_stored_without_outputs(notebook: Path) -> None:
    """A diff then shows only changes by people."""
    cells = json.loads(notebook.read_text())["cells"]

    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in cells)
