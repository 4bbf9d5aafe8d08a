"""The cost of importing the chat models."""

import subprocess
import sys

import pytest


@pytest.mark.storm
def test_the_openai_package_waits_for_the_first_call() -> None:
    """It takes longer to import than all the rest; creating a model does not need it."""
    script = (
        "import sys, factmem.llm.base, factmem.llm.extraction, factmem.llm.openai\n"
        "factmem.llm.openai.OpenAIChatModel('test')\n"
        "print(sorted({'openai', 'httpx', 'httpx2', 'jiter'} & sys.modules.keys()))"
    )

    run = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)

    assert run.stdout == "[]\n"
