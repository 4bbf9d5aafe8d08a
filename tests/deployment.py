"""Runs the example of a web service on a broken store, and returns what an operator sees."""

import logging
from itertools import repeat

import pytest
from fastapi.testclient import TestClient

from examples.web_service import create_app, fake_answer
from factmem import LocalFileMemoryProvider, StorageError
from factmem.providers.postgres import PostgresMemoryProvider
from factmem.testing.chat import ScriptedChatModel

HEADERS = {"X-User": "alice"}


def what_an_operator_sees(
    store: LocalFileMemoryProvider | PostgresMemoryProvider, caplog: pytest.LogCaptureFixture
) -> str:
    """Return the message of the error: of the start, or the one line of the log of each request."""
    model = ScriptedChatModel(*repeat(fake_answer, 10))
    lines: list[str] = []
    try:
        with TestClient(create_app(store, model)) as client:
            for method, path in [("GET", "/health"), ("POST", "/notes")]:
                caplog.clear()
                answer = client.request(method, path, json={"text": "tea"}, headers=HEADERS)
                assert answer.status_code == 503
                logged = [each for each in caplog.records if each.levelno >= logging.WARNING]
                assert len(logged) == 1, caplog.text
                assert logged[0].exc_info is None
                lines.append(logged[0].getMessage())
    except StorageError as exc:  # the server logs it and does not start
        return f"{type(exc).__name__}: {exc}"
    assert lines[0] == lines[1]
    return lines[0]
