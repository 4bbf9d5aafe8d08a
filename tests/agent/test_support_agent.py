"""The support agent of the examples with an endpoint, over HTTP."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.chat_server import ChatServer, calls_tools, says

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "support_agent.py"


PHONE = {
    "message": 1,
    "quote": "Please phone me",
    "action": "assert",
    "subject": "user",
    "scope": "product",
    "keyword": "contact-channel",
    "value": "phone",
}


@pytest.mark.storm
def test_a_configured_endpoint_is_used(tmp_path: Path) -> None:
    """The output names it; the endpoint gets tools and memory, and its answers become facts."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    with ChatServer() as server:
        server.answer(
            calls_tools(("call-1", "device_status", {"serial_number": "router-7741"})),
            *(says("Is there a light?"), says("We will call you."), says({"facts": [PHONE]})),
            *(says("Hello again."), says("Good."), says({"facts": []})),
        )
        done = subprocess.run(
            [sys.executable, "-W", "error", str(EXAMPLE)],
            cwd=tmp_path,
            env={**kept, "OPENAI_BASE_URL": server.url, "OPENAI_MODEL": "tiny"},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    assert done.returncode == 0, done.stderr
    assert f"answered by tiny at {server.url}" in done.stdout
    assert "saved: contact-channel = phone (user)" in done.stdout
    assert "contact by phone: she said 'Please phone me'" in done.stdout
    assert len(server.requests) == 7
    assert server.troubles == []
    first, second = server.requests[0], server.requests[1]
    assert [tool["function"]["name"] for tool in first.body["tools"]] == ["device_status"]
    assert second.messages[-1] == {
        "role": "tool",
        "tool_call_id": "call-1",
        "content": '{"model":"X200","firmware":"1.9.2","newest_firmware":"2.0.1"}',
    }
    friday = server.requests[4]
    assert '"phone" (user' in friday.messages[1]["content"]
