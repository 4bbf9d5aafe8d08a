"""A local HTTP server for chat completions that can misbehave on request.

    with ChatServer() as server:
        server.answer(says("Hello"), fails(500), hangs())

Answers are given in order, one for each request; every request is kept in `server.requests`.
Nothing sleeps: what takes long waits for an event of the test, or for the client to hang up.
"""

import json
import socket
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self, TypeAlias

PATHS = {"/v1/chat/completions", "/v1/embeddings", "/v1/messages"}
PATIENCE = 60.0
"""Seconds after which a condition that a test waits for fails."""


@dataclass
class Request:
    """A client's request."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def messages(self) -> list[dict[str, Any]]:
        messages: list[dict[str, Any]] = self.body["messages"]
        return messages

    @property
    def response_format(self) -> str:
        """The requested kind of structured output; `text` if there is none."""
        kind: str = self.body.get("response_format", {"type": "text"})["type"]
        return kind


class ChatServer:
    """Serves `POST /v1/chat/completions` and other calls of models on a free local port."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.refused_formats: set[str] = set()
        """Kinds of `response_format` that are refused with 400 without using an answer."""
        self.resume = threading.Event()
        """Set it to release `waits`."""
        self.hung_up = threading.Event()
        """Set when a client closes the connection on `hangs` or `waits`."""
        self.troubles: list[str] = []
        """Errors of the server itself: requests without an answer, exceptions."""
        self._replies: deque[Reply] = deque()
        self._news = threading.Condition()
        self._connections: set[socket.socket] = set()
        self._is_closing = False
        self._http = _HTTPServer(("127.0.0.1", 0), _Handler)
        self._http.chat = self
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,))

    @property
    def url(self) -> str:
        """The base URL in the form of the `openai` package."""
        return f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    def answer(self, *replies: "Reply") -> None:
        """Queue these answers for the next requests."""
        self._replies.extend(replies)

    def wait_for_requests(self, count: int) -> None:
        """Return when `count` requests have come in; call it from a worker thread."""
        with self._news:
            if not self._news.wait_for(lambda: len(self.requests) >= count, PATIENCE):
                message = f"{len(self.requests)} of {count} requests came in {PATIENCE} seconds"
                raise AssertionError(message)

    def wait_for_hanging_up(self) -> None:
        """Return when a client has closed its connection; call it from a worker thread."""
        if not self.hung_up.wait(PATIENCE):
            raise AssertionError(f"no client hung up in {PATIENCE} seconds")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._is_closing = True
        self.resume.set()
        self._http.shutdown()
        for connection in list(self._connections):
            _hang_up(connection)
        self._http.server_close()
        self._thread.join()

    def _reply_to(self, request: Request) -> "Reply":
        with self._news:
            self.requests.append(request)
            self._news.notify_all()
            if request.response_format in self.refused_formats:
                return _refuses_format(request.response_format)
            if self._replies:
                return self._replies.popleft()
            self.troubles.append(f"request {len(self.requests)} found no answer")
            return fails(500, {"error": {"message": "the test gave no answer for this request"}})


class _HTTPServer(ThreadingHTTPServer):
    daemon_threads = False
    request_queue_size = 128  # a client retries a refused connection only after a second
    chat: ChatServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        import sys

        error = sys.exception()
        if not isinstance(error, ConnectionError):
            self.chat.troubles.append(repr(error))


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # otherwise a body waits 40 ms for the headers' acknowledgement
    server: _HTTPServer

    def setup(self) -> None:
        super().setup()
        self.server.chat._connections.add(self.connection)
        if self.server.chat._is_closing:
            _hang_up(self.connection)

    def finish(self) -> None:
        self.server.chat._connections.discard(self.connection)
        super().finish()

    def do_POST(self) -> None:
        size = int(self.headers["Content-Length"])
        body = self.rfile.read(size)
        if len(body) < size:  # the client closed the connection between headers and body
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        if self.path.partition("?")[0] not in PATHS:
            self.server.chat.troubles.append(f"request for {self.path}")
        self.server.chat._reply_to(Request(self.path, headers, json.loads(body)))(self)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Log nothing: standard error belongs to the tests."""

    def send(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def wait_for_client(self) -> None:
        """Block until the client hangs up or the server closes."""
        self.close_connection = True
        try:
            gone = self.connection.recv(1, socket.MSG_PEEK) == b""
        except ConnectionError:
            gone = True
        if gone and not self.server.chat._is_closing:
            self.server.chat.hung_up.set()


Reply: TypeAlias = Callable[[_Handler], None]
"""Answers one request."""

JSON = {"Content-Type": "application/json"}


def says(
    text: Any, *, finish_reason: str = "stop", usage: tuple[int, int] = (10, 5), **message: Any
) -> Reply:
    """Answer with a message: a string `text` unchanged, other data as JSON."""
    content = text if isinstance(text, str | None) else json.dumps(text)
    choice = {
        "index": 0,
        "finish_reason": finish_reason,
        "message": {"role": "assistant", "content": content, **message},
    }
    prompt, completion = usage
    body = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 0,
        "model": "test",
        "choices": [choice],
        "usage": {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
        },
    }
    return sends(json.dumps(body).encode())


def streams(text: str) -> Reply:
    """Answer with a message as a stream of events, a word in each."""
    base = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 0, "model": "test"}
    words = [f"{word} " for word in text.split(" ")]
    deltas = [{"role": "assistant", "content": word} for word in words]
    chunks: list[Any] = [
        base | {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
        for delta in deltas
    ]
    chunks.append(base | {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    lines = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks]
    return sends("".join([*lines, "data: [DONE]\n\n"]).encode(), content_type="text/event-stream")


def calls_tools(*calls: tuple[str, str, Any]) -> Reply:
    """Answer with calls of tools: an id, a name, and the arguments as text or as data."""
    tool_calls = [
        {
            "id": id_,
            "type": "function",
            "function": {
                "name": name,
                "arguments": arguments if isinstance(arguments, str) else json.dumps(arguments),
            },
        }
        for id_, name, arguments in calls
    ]
    return says(None, finish_reason="tool_calls", tool_calls=tool_calls)


def sends(body: bytes, *, content_type: str = "application/json") -> Reply:
    """Answer with status 200 and any body."""
    return lambda handler: handler.send(200, body, {"Content-Type": content_type})


def fails(status: int, body: Any = None, **headers: str) -> Reply:
    """Answer with an error; a header's name is written with underscores: `retry_after_ms="1"`."""
    error = {"error": {"message": "it failed", "type": "test", "code": None}}
    content = json.dumps(error if body is None else body).encode()
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda handler: handler.send(status, content, JSON | fields)


def hangs() -> Reply:
    """Never answer; the connection stays open until the client closes it."""
    return _Handler.wait_for_client


def waits(reply: Reply) -> Reply:
    """Answer once the test sets `server.resume`."""

    def resume(handler: _Handler) -> None:
        if not handler.server.chat.resume.wait(PATIENCE):
            handler.server.chat.troubles.append("resume was never set")
        reply(handler)

    return resume


def breaks_off() -> Reply:
    """Announce a body of 1,000 bytes, send the beginning of it, and close the connection."""

    def send(handler: _Handler) -> None:
        handler.send(200, b'{"choices": [{"mess', JSON | {"Content-Length": "1000"})
        handler.close_connection = True

    return send


def breaks_off_stream() -> Reply:
    """Send the first chunk of a chunked body, and close the connection before the last one."""

    def send(handler: _Handler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        handler.wfile.write(b'13\r\n{"choices": [{"mess\r\n')
        handler.close_connection = True

    return send


def refused_url() -> str:
    """Return the base URL of a port without a server."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{unused.getsockname()[1]}/v1"


def _refuses_format(kind: str) -> Reply:
    message = f"Invalid parameter: 'response_format' of type '{kind}' is not supported."
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": None}
    return fails(400, {"error": error})


def _hang_up(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # the client was faster
