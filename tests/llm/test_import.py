"""What importing the chat models costs."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    "module", ["factmem.llm.base", "factmem.llm.extraction", "factmem.llm.openai"]
)
def test_the_openai_package_waits_for_the_first_call(module: str) -> None:
    """It takes longer to import than everything else together; making a model does not need it."""
    script = (
        f"import sys, {module}\n"
        "if 'factmem.llm.openai' in sys.modules:\n"
        "    factmem.llm.openai.OpenAIChatModel('test')\n"
        "print(sorted({'openai', 'httpx', 'httpx2', 'jiter'} & sys.modules.keys()))"
    )

    run = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)

    assert run.stdout == "[]\n"
