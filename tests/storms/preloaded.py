"""Libraries that a storm's process preloads, so that its disk fails or writes are recorded."""

import shutil
import subprocess
import sys
from pathlib import Path


def library(folder: Path, source: str) -> Path:
    """Compile one of the C files of the storms into a folder."""
    compiler = shutil.which("cc")
    if compiler is None or not sys.platform.startswith("linux"):
        raise RuntimeError("Preloaded storms need Linux and the C compiler `cc`")
    made = folder / f"{Path(source).stem}.so"
    options = ["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", str(made)]
    file = str(Path(__file__).with_name(source))
    subprocess.run([compiler, *options, file, "-ldl", "-lpthread"], check=True)
    return made
