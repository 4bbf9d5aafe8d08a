"""The memory of each user over HTTP, for programs in other languages: an example to copy.

    app = service(memory, Tokens(secret))       # uvicorn service:app

The application's backend mints a token for each user. No path, query or body names a user, so that no
client can name another one. Every fact has an ETag; a write with `If-Match` happens only if nobody was
faster. The document is at `/openapi.json`.
"""

import base64
import hashlib
import hmac
import json
import re
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from inspect import Parameter, signature
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

import anyio
from anyio.streams.memory import MemoryObjectSendStream
from pydantic import BaseModel, ConfigDict, Field, JsonValue, TypeAdapter, ValidationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from factmem import AgentMemory, Concept, FactType, acting
from factmem.errors import ChangedError, InputError, MemoryAccessError, StorageError

MOST_BYTES = 1_000_000
Role = Literal["read", "write", "erase"]
RANK = {"read": 0, "write": 1, "erase": 2}


class Caller(NamedTuple):
    """The user of a token: an entity with its levels, such as ("acme", "alice")."""

    entity: tuple[str, ...]
    role: Role


class Tokens:
    """Signed tokens with an end: `mint` in the backend of the application, `caller` verifies."""

    def __init__(self, secret: bytes, clock: Callable[[], float] = time.time) -> None:
        if len(secret) < 32:
            raise ValueError("secret must have at least 32 bytes: secrets.token_bytes(32)")
        self._secret, self._clock = secret, clock

    def mint(self, *entity: str, hours: float = 1, role: Role = "write") -> str:
        claims = {"sub": entity, "exp": self._clock() + hours * 3600, "role": role}
        body = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode()
        return f"{body}.{self._sign(body)}"

    def caller(self, token: str) -> Caller | None:
        body, _, sign = token.partition(".")
        if not hmac.compare_digest(self._sign(body).encode(), sign.encode()):
            return None
        claims = json.loads(base64.urlsafe_b64decode(body))
        is_valid = claims["exp"] > self._clock()
        return Caller(tuple(claims["sub"]), claims["role"]) if is_valid else None

    def _sign(self, body: str) -> str:
        return hmac.new(self._secret, body.encode(), hashlib.sha256).hexdigest()


class Model(BaseModel):
    model_config = ConfigDict(extra="forbid")


class FactOut(Model):
    id: str
    concept: str
    description: str
    values: list[JsonValue]
    is_single: bool
    said_at: datetime
    confirmed_at: datetime
    importance: float
    metadata: dict[str, JsonValue]
    source: dict[str, JsonValue] | None
    etag: str


class FactPage(Model):
    facts: list[FactOut]
    total: int
    is_last: bool


class FactIn(Model):
    concept: str
    description: str = ""
    value: JsonValue = None
    values: list[JsonValue] | None = None
    """Instead of `value`, for a concept with many."""


class FactPatch(Model):
    value: JsonValue = None
    values: list[JsonValue] | None = None
    metadata: dict[str, JsonValue] | None = None
    importance: float | None = None


class VersionOut(Model):
    action: str
    at: datetime
    values: list[JsonValue]


class MatchOut(Model):
    id: str | None
    """Of a fact; else it is a quote of a message."""
    conversation: str | None
    number: int | None
    text: str
    relevance: float


class MessageIn(Model):
    id: str
    """Repeating an id stores nothing twice."""
    role: Literal["user", "assistant", "tool", "system"]
    content: str


class TurnOut(Model):
    number: int
    id: str
    said_at: datetime
    message: dict[str, JsonValue]


class Problem(Model):
    """An error, as RFC 9457 writes it."""

    title: str
    status: int
    detail: str = ""


class HttpError(Exception):
    def __init__(self, status: int, title: str, detail: str = "", **headers: str) -> None:
        super().__init__(title)
        self.problem = Problem(title=title, status=status, detail=detail[:500])
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


PROBLEMS: list[tuple[type[Exception], int, str]] = [
    (InputError, 400, "Invalid request"),
    (MemoryAccessError, 403, "Forbidden"),
    (ChangedError, 412, "Somebody was faster"),
    (StorageError, 503, "The memory is not available"),
]


def refused(error: Exception) -> HttpError:
    """Return what an error means to a client; raise it if it is a mistake of this program."""
    if isinstance(error, HttpError):
        return error
    if isinstance(error, ValidationError):  # without the input
        found = [f"{'.'.join(map(str, each['loc']))}: {each['type']}" for each in error.errors()]
        return HttpError(400, "Invalid request", "; ".join(found))
    for kind, status, title in PROBLEMS:
        if isinstance(error, kind):
            return HttpError(status, title, str(error))
    raise error


@dataclass
class Changes:
    """One watcher for all open streams of a process: the store is looked at once for all of them."""

    memory: AgentMemory
    _streams: dict[MemoryObjectSendStream[Any], tuple[frozenset[Any], datetime]] = field(
        default_factory=dict
    )
    _scope: anyio.CancelScope | None = None
    _since: datetime = field(default_factory=lambda: datetime.now(UTC))
    _seen: deque[str] = field(default_factory=lambda: deque(maxlen=10_000))

    async def run(self) -> None:
        while True:
            places = frozenset().union(*(places for places, _ in self._streams.values()))
            with anyio.CancelScope() as self._scope:  # a new stream cancels it: other places
                if not places:
                    await anyio.sleep_forever()
                async for change in self.memory.store.watch(places, since=self._since):
                    self._send(change)

    def _send(self, change: Any) -> None:
        if change.id in self._seen:
            return
        self._since = max(self._since, change.at)
        self._seen.append(change.id)
        for stream, (places, begin) in list(self._streams.items()):
            try:
                if change.place in places and change.at >= begin:
                    stream.send_nowait(change)
            except (anyio.WouldBlock, anyio.BrokenResourceError, anyio.ClosedResourceError):
                stream.close()  # too slow, or gone: who connects again misses nothing
                self._streams.pop(stream, None)

    @asynccontextmanager
    async def of(self, view: AgentMemory) -> AsyncGenerator[AsyncIterator[Any]]:
        """Return the changes of one user from now on."""
        send, receive = anyio.create_memory_object_stream[Any](1_000)
        self._streams[send] = frozenset(view.places), datetime.now(UTC)
        if self._scope is not None:
            self._scope.cancel()
        with send, receive:
            yield receive
        self._streams.pop(send, None)


Handler = Callable[..., Awaitable[Any]]


class Operation(NamedTuple):
    """A function over HTTP: its body, its query and its result are those of its signature."""

    method: str
    path: str
    call: Handler
    role: Role
    status: int
    if_match: bool

    def form(self) -> tuple[Any, Any, dict[str, tuple[TypeAdapter[Any], Any]]]:
        """Return the types of body and result, and those of the query with their defaults."""
        form = signature(self.call)
        given = {k: (each.annotation, each.default) for k, each in form.parameters.items()}
        body, _ = given.pop("body", (None, None))
        named = {"to", *re.findall(r"\{(\w+)\}", self.path)}
        query = {
            k: (TypeAdapter(kind), value) for k, (kind, value) in given.items() if k not in named
        }
        result = form.return_annotation
        return body, None if result is Response else result, query


OPERATIONS: list[Operation] = []


def operation(
    method: str, path: str, role: Role = "read", status: int = 200, *, if_match: bool = False
) -> Callable[[Handler], Handler]:
    """Register a function as an operation."""

    def register(call: Handler) -> Handler:
        OPERATIONS.append(Operation(method, path, call, role, status, if_match))
        return call

    return register


def plain(values: Sequence[Any]) -> list[JsonValue]:
    found: list[JsonValue] = TypeAdapter(list[Any]).dump_python(list(values), mode="json")
    return found


def fact_out(placed: Any) -> FactOut:
    fact, source = placed.fact, placed.fact.source
    return FactOut(
        id=fact.id,
        concept=fact.concept.keyword,
        description=fact.concept.description,
        values=plain(fact.values),
        is_single=fact.concept.fact_type is FactType.SINGLE,
        said_at=fact.timestamp,
        confirmed_at=placed.heard_at,
        importance=fact.importance,
        metadata=dict(fact.metadata),
        source=source and asdict(source),
        etag=placed.version,
    )


def turn_out(turn: Any) -> TurnOut:
    return TurnOut(number=turn.number, id=turn.id, said_at=turn.said_at, message=turn.message)


class Call(NamedTuple):
    """A request, and the memory of the user of its token."""

    request: Request
    view: AgentMemory


def expected(to: Call) -> dict[str, str]:
    """Return the condition of a write: the ETag that the client has read."""
    etag = to.request.headers.get("if-match", "").strip().strip('"')
    return {"if_unchanged": etag} if etag else {}


async def found(to: Call, fact_id: str) -> Any:
    placed = await to.view.contents.get(fact_id)
    if placed is None:
        raise HttpError(404, "Not found", "No current fact of this user has the id")
    return placed


Limit: TypeAlias = Annotated[int, Field(ge=1, le=200)]
Offset: TypeAlias = Annotated[int, Field(ge=0)]
Messages = Annotated[list[MessageIn], Field(min_length=1, max_length=100)]
ONE, CHAT = "/v1/facts/{fact_id}", "/v1/conversations/{name}/messages"


@operation("GET", "/v1/facts")
async def list_facts(
    to: Call, concept: str | None = None, limit: Limit = 50, offset: Offset = 0
) -> FactPage:
    """The current facts of the user, last confirmed first."""
    only = None if concept is None else [Concept(concept, concept)]
    page = await to.view.contents.records(limit, offset, concepts=only)
    return FactPage(facts=[*map(fact_out, page)], total=page.total, is_last=page.is_last)


@operation("POST", "/v1/facts", "write", 201)
async def save_fact(to: Call, body: FactIn) -> FactOut:
    """Save a value, or add values to a concept with many; with `If-None-Match: *` the first one."""
    declared = {each.keyword: each for each in to.request.app.state.concepts}
    kind = FactType.SINGLE if body.values is None else FactType.MULTIPLE
    about, any_json = body.description or body.concept, JsonValue
    concept = declared.get(body.concept) or Concept(body.concept, about, kind, value_type=any_json)
    value = body.value if body.values is None else body.values
    is_first = to.request.headers.get("if-none-match") == "*"
    options: dict[str, Any] = {"if_unchanged": None} if is_first else {}
    fact = await to.view.save(concept, value, **options)
    records = await to.view.contents.records(1_000, concepts=[concept])
    return fact_out(next((p for p in records if p.fact.id == fact.id), records[0]))


@operation("GET", ONE)
async def get_fact(to: Call, fact_id: str) -> FactOut:
    """One fact, with its ETag."""
    placed = await found(to, fact_id)
    if to.request.headers.get("if-none-match") == f'"{placed.version}"':
        raise HttpError(304, "Not modified")
    return fact_out(placed)


@operation("PATCH", ONE, "write", if_match=True)
async def update_fact(to: Call, fact_id: str, body: FactPatch) -> FactOut:
    """Change a fact; with `If-Match` only if nobody has changed it meanwhile."""
    fields = body.model_dump(exclude_unset=True)
    options: dict[str, Any] = {**fields, **expected(to)}
    placed = await to.view.contents.update(fact_id, **options)
    return fact_out(placed or await found(to, fact_id))


@operation("DELETE", ONE, "write", 204, if_match=True)
async def forget_fact(to: Call, fact_id: str, purge: bool = False) -> None:
    """Forget a fact; with `purge` in its history too, and with `If-Match` as `update_fact`."""
    if not await to.view.contents.delete(fact_id, purge=purge, **expected(to)):
        await found(to, fact_id)


@operation("GET", ONE + "/history")
async def fact_history(to: Call, fact_id: str) -> list[VersionOut]:
    """The versions of a fact, oldest first."""
    return [
        VersionOut(action=e.action, at=e.recorded_at, values=plain(e.fact.values if e.fact else ()))
        for e in await to.view.contents.history(fact_id)
    ]


@operation("GET", "/v1/recall")
async def recall(to: Call, question: str, limit: Limit = 5) -> list[MatchOut]:
    """The facts, and then the messages, that a question is about, best first."""
    result = await to.view.recall(question, limit=limit)
    rows: list[tuple[Any, ...]] = [(m.fact.id, None, None, m.text, m.relevance) for m in result]
    rows += [(None, t.conversation, t.turn.number, t.quote, t.relevance) for t in result.turns]
    return [MatchOut(**dict(zip(MatchOut.model_fields, row, strict=True))) for row in rows]


@operation("GET", "/v1/prompt")
async def prompt(to: Call, question: str | None = None, max_tokens: int | None = None) -> str:
    """The memory as a text for a system prompt: facts as data, escaped."""
    return await to.view.text(question, max_tokens=max_tokens)


@operation("GET", "/v1/conversations")
async def list_conversations(to: Call) -> list[str]:
    """The names of the stored chats."""
    return [each.id for each in await to.view.conversations.infos()]


@operation("POST", CHAT, "write", 201)
async def append_messages(to: Call, name: str, body: Messages) -> list[TurnOut]:
    """Store messages, from which a worker learns facts. Repeating is safe."""
    said = [{"role": each.role, "content": each.content} for each in body]
    turns = await to.view.conversation(name).append(*said, ids=[each.id for each in body])
    return [*map(turn_out, turns)]


@operation("GET", CHAT)
async def list_messages(
    to: Call, name: str, last: Limit = 50, before: int | None = None
) -> list[TurnOut]:
    """Stored messages, oldest first; `before` the first number of a page continues."""
    return [*map(turn_out, await to.view.conversation(name).turns(last=last, before=before))]


@operation("GET", "/v1/changes")
async def watch_changes(to: Call) -> Response:
    """Server-sent events: what anyone saves, confirms and forgets. `Last-Event-ID` continues."""
    at, _, last = to.request.headers.get("last-event-id", "").partition("/")
    since = datetime.fromisoformat(at) if at else None

    def event(change: Any) -> bytes:
        facts = [
            {"id": f.id, "concept": f.concept.keyword, "values": plain(f.values)}
            for f in change.facts
        ]
        data = {"kind": change.kind, "actor": change.actor, "facts": facts}
        return f"id: {change.at.isoformat()}/{change.id}\ndata: {json.dumps(data)}\n\n".encode()

    async def events() -> AsyncGenerator[bytes]:
        async with to.request.app.state.changes.of(to.view) as live:
            yield b": ready\n\n"
            sent = {last}
            missed = [] if since is None else await to.view.review.changes(since=since)
            for change in reversed(missed):
                if change.id not in sent:
                    sent.add(change.id)
                    yield event(change)
            async for change in live:
                if change.id not in sent:
                    yield event(change)

    return StreamingResponse(events(), media_type="text/event-stream")


@operation("GET", "/v1/export")
async def export(to: Call) -> Response:
    """Everything that is stored about the user."""
    return JSONResponse(await to.view.contents.export())


@operation("DELETE", "/v1/me", "erase")
async def erase(to: Call) -> list[str]:
    """Erase the user: facts, history and chats. Returns the places."""
    return [str(each.place) for each in (await to.view.contents.reset(confirm=True)).places]


def route(operation: Operation, memory: AgentMemory, tokens: Tokens) -> Route:
    body, result_type, query = operation.form()
    takes, gives = TypeAdapter(body), TypeAdapter(result_type)

    async def answer(request: Request) -> Response:
        given: dict[str, Any] = dict(request.path_params)
        caller = _caller(request, tokens, operation.role)
        view = memory.of(*caller.entity).view(read_only=caller.role == "read")
        for name, (kind, default) in query.items():
            if name in request.query_params or default is Parameter.empty:
                given[name] = kind.validate_strings(request.query_params.get(name, ""))
            else:
                given[name] = default
        if body is not None:
            given["body"] = takes.validate_json(await _body(request))
        result = await operation.call(Call(request, view), **given)
        if result is None or isinstance(result, Response):
            return result or Response(status_code=operation.status)
        headers = {"ETag": f'"{result.etag}"'} if isinstance(result, FactOut) else {}
        return Response(gives.dump_json(result), operation.status, headers, "application/json")

    async def endpoint(request: Request) -> Response:
        try:
            with acting("http"):
                response = await answer(request)
        except Exception as error:  # noqa: BLE001 - `refused` raises those of this program
            known = refused(error)
            status = known.problem.status
            text = "" if status == 304 else known.problem.model_dump_json()
            response = Response(text, status, known.headers, "application/problem+json")
        response.headers["Cache-Control"] = "no-store"
        return response

    return Route(operation.path, endpoint, methods=[operation.method])


def _caller(request: Request, tokens: Tokens, role: Role) -> Caller:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    caller = tokens.caller(token) if scheme.lower() == "bearer" else None
    if caller is None:
        raise HttpError(401, "Unauthorized", "A bearer token is needed", WWW_Authenticate="Bearer")
    if RANK[caller.role] < RANK[role]:
        raise HttpError(403, "Forbidden", f"The token does not permit to {role}")
    return caller


async def _body(request: Request) -> bytes:
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MOST_BYTES:
            raise HttpError(413, "Too large", f"At most {MOST_BYTES} bytes")
    return body


TEXT = {"type": "string"}


def openapi() -> dict[str, Any]:
    """Return the OpenAPI 3.1 document of the operations."""
    kinds: list[Any] = [
        (f"{each.call.__name__} {way}", way, TypeAdapter(kind))
        for each in OPERATIONS
        for way, kind in zip(("validation", "serialization"), each.form()[:2], strict=True)
    ]
    kinds.append(("problem", "serialization", TypeAdapter(Problem)))
    ways, shared = TypeAdapter.json_schemas(kinds, ref_template="#/components/schemas/{model}")
    schemas = {name: {"schema": schema} for (name, _), schema in ways.items()}
    problem = {"application/problem+json": schemas["problem"]}
    paths: dict[str, Any] = {}
    for each in OPERATIONS:
        name, doc, (takes, gives, query) = each.call.__name__, each.call.__doc__, each.form()
        named: list[tuple[str, str, bool, Any]] = [
            *((word, "path", True, TEXT) for word in re.findall(r"\{(\w+)\}", each.path)),
            *(
                (word, "query", default is Parameter.empty, kind.json_schema())
                for word, (kind, default) in query.items()
            ),
            *([("If-Match", "header", False, TEXT)] if each.if_match else []),
        ]
        content = {"application/json": schemas[f"{name} serialization"]} if gives else {}
        entry: dict[str, Any] = {
            "operationId": name,
            "summary": doc,
            "parameters": [
                {"name": word, "in": where, "required": is_needed, "schema": schema}
                for word, where, is_needed, schema in named
            ],
            "responses": {
                str(each.status): {"description": doc} | ({"content": content} if content else {}),
                "default": {"description": "A problem", "content": problem},
            },
        }
        if takes:
            body = {"application/json": schemas[f"{name} validation"]}
            entry["requestBody"] = {"required": True, "content": body}
        paths.setdefault(each.path, {})[each.method.lower()] = entry
    security = {"token": {"type": "http", "scheme": "bearer"}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "factmem", "version": "1"},
        "security": [{"token": []}],
        "paths": paths,
        "components": {"schemas": shared["$defs"], "securitySchemes": security},
    }


def service(
    memory: AgentMemory, tokens: Tokens, concepts: Sequence[Concept[Any, Any]] = ()
) -> Starlette:
    """Return the application. It closes the store of the memory at its end."""
    changes = Changes(memory)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with memory, anyio.create_task_group() as tasks:
            tasks.start_soon(changes.run)
            yield
            tasks.cancel_scope.cancel()

    document = openapi()

    async def described(_: Request) -> Response:
        return JSONResponse(document)

    routes = [route(each, memory, tokens) for each in OPERATIONS]
    app = Starlette(routes=[*routes, Route("/openapi.json", described)], lifespan=lifespan)
    app.state.changes, app.state.concepts = changes, concepts
    return app
