"""The notebook among the examples runs from its first cell to its last."""

import json
import subprocess
import sys
from pathlib import Path

NOTEBOOK = Path(__file__).parent.parent.parent / "examples" / "notebook.ipynb"

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


def test_both_ways_work_in_a_notebook(tmp_path: Path) -> None:
    """A process of its own: the kernel's packages warn of themselves."""
    done = subprocess.run(
        [sys.executable, "-c", EXECUTE, str(NOTEBOOK)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    awaited, called, tree = json.loads(done.stdout)
    assert awaited == called == "[('vim',)]"
    assert tree.startswith("memory: 1\n  product/my-app: 1")


def test_the_notebook_is_stored_without_outputs() -> None:
    cells = json.loads(NOTEBOOK.read_text())["cells"]

    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in cells)
