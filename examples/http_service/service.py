"""The memory of each user over HTTP, for programs in other languages: an example to copy.

    app = service(memory, Tokens(secret))       # pip install starlette uvicorn pyjwt

The application's backend mints a token for each user. No path, query or body names a user, so that
no client can name another one. Every fact has an ETag; a write with `If-Match` happens only if
nobody was faster. The document is at `/openapi.json`.
"""

import re
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from inspect import Parameter, signature
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias, get_args

import anyio
import jwt
from anyio.streams.memory import MemoryObjectSendStream
from pydantic import BaseModel, Field, JsonValue, NonNegativeInt, TypeAdapter, ValidationError
from pydantic_core import to_json
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from factmem import AgentMemory, Concept, FactType, acting
from factmem.errors import ChangedError, InputError, MemoryAccessError, StorageError

MOST_BYTES = 1_000_000
Role = Literal["read", "write", "erase"]
ROLES = get_args(Role)


class Tokens:
    """JSON web tokens: `mint` in the application's backend, in any language; `caller` verifies."""

    def __init__(self, secret: bytes) -> None:
        if len(secret) < 32:
            raise ValueError("secret must have at least 32 bytes: secrets.token_bytes(32)")
        self._secret = secret

    def mint(self, *entity: str, hours: float = 1, role: Role = "write") -> str:
        end = datetime.now(UTC) + timedelta(hours=hours)
        return jwt.encode({"user": entity, "role": role, "exp": end}, self._secret, "HS256")

    def caller(self, token: str) -> tuple[tuple[str, ...], Role] | None:
        """Return the entity of a user with its levels, such as ("acme", "alice"), and the role."""
        needed: Any = {"require": ["exp", "user", "role"]}
        with suppress(jwt.InvalidTokenError):
            claims = jwt.decode(token, self._secret, ["HS256"], options=needed)
            return tuple(claims["user"]), claims["role"]
        return None


class FactOut(BaseModel):
    id: str
    concept: str
    description: str
    values: list[Any]
    is_single: bool
    said_at: datetime
    confirmed_at: datetime
    importance: float
    metadata: dict[str, JsonValue]
    source: dict[str, JsonValue] | None
    etag: str


class FactPage(BaseModel):
    facts: list[FactOut]
    total: int
    is_last: bool


class FactIn(BaseModel, extra="forbid"):
    concept: str
    description: str = ""
    value: JsonValue = None
    values: list[JsonValue] | None = None
    """Instead of `value`, for a concept with many."""


class FactPatch(BaseModel, extra="forbid"):
    value: JsonValue = None
    values: list[JsonValue] | None = None
    metadata: dict[str, JsonValue] | None = None
    importance: float | None = None


class VersionOut(BaseModel):
    action: str
    at: datetime
    values: list[Any]


class MatchOut(BaseModel):
    id: str | None = None
    """Of a fact; else it is a quote of a message."""
    conversation: str | None = None
    number: int | None = None
    text: str
    relevance: float


class MessageIn(BaseModel, extra="forbid"):
    id: str
    """Repeating an id stores nothing twice."""
    role: Literal["user", "assistant", "tool", "system"]
    content: str


class TurnOut(BaseModel, from_attributes=True):
    number: int
    id: str
    said_at: datetime
    message: dict[str, JsonValue]


class Problem(BaseModel):
    """An error, as RFC 9457 writes it."""

    title: str
    status: int
    detail: str = ""


PROBLEMS: dict[type[Exception], tuple[int, str]] = {
    InputError: (400, "Invalid request"),
    ValidationError: (400, "Invalid request"),
    MemoryAccessError: (403, "Forbidden"),
    ChangedError: (412, "Changed meanwhile"),
    StorageError: (503, "The memory is not available"),
}
NO_STORE = {"Cache-Control": "no-store"}


async def problem(_: Request, error: Exception) -> Response:
    """Answer what an error means to a client, without its input. Others are mistakes: 500."""
    headers, detail = NO_STORE, str(error)
    if isinstance(error, HTTPException):
        status, detail = error.status_code, error.detail
        title, headers = HTTPStatus(status).phrase, {**NO_STORE, **(error.headers or {})}
    else:
        status, title = next(PROBLEMS[kind] for kind in type(error).__mro__ if kind in PROBLEMS)
    if isinstance(error, ValidationError):
        errors = error.errors()
        found = [f"{'.'.join(map(str, each['loc'])) or 'body'}: {each['type']}" for each in errors]
        detail = "; ".join(found)
    elif isinstance(error, ChangedError):
        detail = "Read the fact again, and decide by its present value and ETag"
    body = Problem(title=title, status=status, detail=detail[:500]).model_dump_json()
    return Response("" if status == 304 else body, status, headers, "application/problem+json")


class Changes:
    """One watcher for all open streams of a process, so that the store is polled once for all."""

    def __init__(self, memory: AgentMemory) -> None:
        self._memory, self._since, self._scope = memory, datetime.now(UTC), anyio.CancelScope()
        self._streams: dict[MemoryObjectSendStream[Any], frozenset[Any]] = {}

    async def run(self) -> None:
        while True:
            places = frozenset().union(*self._streams.values())
            with anyio.CancelScope() as self._scope:  # a new stream cancels it: other places
                if not places:
                    await anyio.sleep_forever()
                async for change in self._memory.store.watch(places, since=self._since):
                    self._since = max(self._since, change.at)
                    for stream in [s for s, at in self._streams.items() if change.place in at]:
                        try:
                            stream.send_nowait(change)
                        except anyio.WouldBlock:  # too slow: who connects again misses nothing
                            stream.close()
                            del self._streams[stream]

    @asynccontextmanager
    async def of(self, view: AgentMemory) -> AsyncGenerator[AsyncIterator[Any]]:
        """Return the changes of one user; some come again when another stream begins."""
        send, receive = anyio.create_memory_object_stream[Any](1_000)
        self._streams[send] = frozenset(view.places)
        self._scope.cancel()
        try:
            with send, receive:
                yield receive
        finally:
            self._streams.pop(send, None)


class Call(NamedTuple):
    """A request, and the memory of the user of its token."""

    request: Request
    view: AgentMemory


OPERATIONS: list["operation"] = []


@dataclass
class operation:  # noqa: N801 - a decorator
    """A function over HTTP: its body, its query and its result are those of its signature."""

    method: str
    path: str
    role: Role = "read"
    status: int = 200
    if_match: bool = False
    body: TypeAdapter[Any] | None = None
    result: TypeAdapter[Any] | None = None
    query: dict[str, tuple[TypeAdapter[Any], Any]] = field(default_factory=dict)

    def __call__(self, call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        self.call, form = call, signature(call)
        for name, each in form.parameters.items():
            if name == "body":
                self.body = TypeAdapter(each.annotation)
            elif name != "to" and f"{{{name}}}" not in self.path:
                self.query[name] = TypeAdapter(each.annotation), each.default
        if form.return_annotation not in {None, Response}:
            self.result = TypeAdapter(form.return_annotation)
        OPERATIONS.append(self)
        return call

    async def answer(self, request: Request) -> Response:
        app, given = request.app.state, dict[str, Any](request.path_params)
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        caller = app.tokens.caller(token) if scheme.lower() == "bearer" else None
        if caller is None:
            raise HTTPException(401, "A bearer token is needed", {"WWW-Authenticate": "Bearer"})
        entity, role = caller
        if ROLES.index(role) < ROLES.index(self.role):
            raise HTTPException(403, f"The token does not permit to {self.role}")
        for name, (kind, default) in self.query.items():
            if name in request.query_params or default is Parameter.empty:
                given[name] = kind.validate_strings(request.query_params.get(name, ""))
        if self.body is not None:
            if int(request.headers.get("content-length", MOST_BYTES + 1)) > MOST_BYTES:
                raise HTTPException(413, f"At most {MOST_BYTES} bytes, with a Content-Length")
            given["body"] = self.body.validate_json(await request.body())
        view = app.memory.of(*entity).view(read_only=role == "read")
        with acting("http"):
            result = await self.call(Call(request, view), **given)
        response = result if isinstance(result, Response) else Response(status_code=self.status)
        if self.result is not None:
            text = self.result.dump_json(result)
            response = Response(text, self.status, media_type="application/json")
        if isinstance(result, FactOut):
            response.headers["ETag"] = f'"{result.etag}"'
        response.headers.update(NO_STORE)
        return response


def fact_out(placed: Any) -> FactOut:
    fact, source = placed.fact, placed.fact.source
    return FactOut(
        id=fact.id,
        concept=fact.concept.keyword,
        description=fact.concept.description,
        values=fact.values,
        is_single=fact.concept.fact_type is FactType.SINGLE,
        said_at=fact.timestamp,
        confirmed_at=placed.heard_at,
        importance=fact.importance,
        metadata=dict(fact.metadata),
        source=source and asdict(source),
        etag=placed.version,
    )


def expected(to: Call) -> dict[str, str]:
    """Return the condition of a write: the ETag that the client has read."""
    etag = to.request.headers.get("if-match", "").strip().strip('"')
    return {"if_unchanged": etag} if etag else {}


async def found(to: Call, fact_id: str) -> Any:
    placed = await to.view.contents.get(fact_id)
    if placed is None:
        raise HTTPException(404, "No current fact of this user has the id")
    return placed


Limit: TypeAlias = Annotated[int, Field(ge=1, le=200)]
Messages = Annotated[list[MessageIn], Field(min_length=1, max_length=100)]
ONE, CHAT = "/v1/facts/{fact_id}", "/v1/conversations/{name}/messages"


@operation("GET", "/v1/facts")
async def list_facts(
    to: Call, concept: str | None = None, limit: Limit = 50, offset: NonNegativeInt = 0
) -> FactPage:
    """The current facts of the user, last confirmed first."""
    only = None if concept is None else [Concept(concept, concept)]
    page = await to.view.contents.records(limit, offset, concepts=only)
    return FactPage(facts=[*map(fact_out, page)], total=page.total, is_last=page.is_last)


@operation("POST", "/v1/facts", "write", 201)
async def save_fact(to: Call, body: FactIn) -> FactOut:
    """Save a value, or add values to a concept with many; with `If-None-Match: *` the first one."""
    declared = to.request.app.state.concepts.get(body.concept)
    kind = FactType.SINGLE if body.values is None else FactType.MULTIPLE
    about, any_json = body.description or body.concept, JsonValue
    concept = declared or Concept(body.concept, about, kind, value_type=any_json)
    value = body.value if body.values is None else body.values
    options: dict[str, Any] = {}
    if to.request.headers.get("if-none-match") == "*":
        options["if_unchanged"] = None
    fact = await to.view.save(concept, value, **options)
    placed = await to.view.contents.get(fact.id)
    return fact_out(placed or (await to.view.contents.records(1, concepts=[concept]))[0])


@operation("GET", ONE)
async def get_fact(to: Call, fact_id: str) -> FactOut:
    """One fact, with its ETag."""
    placed = await found(to, fact_id)
    if to.request.headers.get("if-none-match") == f'"{placed.version}"':
        raise HTTPException(304)
    return fact_out(placed)


@operation("PATCH", ONE, "write", if_match=True)
async def update_fact(to: Call, fact_id: str, body: FactPatch) -> FactOut:
    """Change a fact; with `If-Match` only if nobody has changed it meanwhile."""
    options: dict[str, Any] = {**body.model_dump(exclude_unset=True), **expected(to)}
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
        VersionOut(action=e.action, at=e.recorded_at, values=e.fact.values if e.fact else ())
        for e in await to.view.contents.history(fact_id)
    ]


@operation("GET", "/v1/recall")
async def recall(to: Call, question: str, limit: Limit = 5) -> list[MatchOut]:
    """The facts, and then the messages, that a question is about, best first."""
    result = await to.view.recall(question, limit=limit)
    facts = [MatchOut(id=m.fact.id, text=m.text, relevance=m.relevance) for m in result]
    for t in result.turns:
        chat, number = t.conversation, t.turn.number
        found = MatchOut(conversation=chat, number=number, text=t.quote, relevance=t.relevance)
        facts.append(found)
    return facts


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
    return [TurnOut.model_validate(each) for each in turns]


@operation("GET", CHAT)
async def list_messages(
    to: Call, name: str, last: Limit = 50, before: int | None = None
) -> list[TurnOut]:
    """Stored messages, oldest first; `before` the first number of a page continues."""
    turns = await to.view.conversation(name).turns(last=last, before=before)
    return [TurnOut.model_validate(each) for each in turns]


@operation("GET", "/v1/changes")
async def watch_changes(to: Call) -> Response:
    """Server-sent events: what anyone saves, confirms and forgets. `Last-Event-ID` continues."""
    at, _, last = to.request.headers.get("last-event-id", "").partition("/")
    since = datetime.fromisoformat(at) if at else datetime.now(UTC)
    sent = deque([last], maxlen=10_000)

    def event(change: Any) -> bytes:
        if change.id in sent or change.at < since:
            return b""
        sent.append(change.id)
        of = [{"id": f.id, "concept": f.concept.keyword, "values": f.values} for f in change.facts]
        data = to_json({"kind": change.kind, "actor": change.actor, "facts": of})
        return f"id: {change.at.isoformat()}/{change.id}\ndata: ".encode() + data + b"\n\n"

    async def events() -> AsyncGenerator[bytes]:
        async with to.request.app.state.changes.of(to.view) as live:
            yield b": ready\n\n"
            for change in reversed(await to.view.review.changes(since=since) if at else []):
                yield event(change)
            async for change in live:
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


def openapi() -> dict[str, Any]:
    """Return the OpenAPI 3.1 document of the operations."""
    shared, paths = dict[str, Any](), dict[str, dict[str, Any]]()

    def content(kind: Any, media: str = "application/json", mode: str = "serialization") -> Any:
        made = kind.json_schema(ref_template="#/components/schemas/{model}", mode=mode)
        shared.update(made.pop("$defs", {}))
        if "properties" in made:
            shared[made["title"]] = made
            made = {"$ref": f"#/components/schemas/{made['title']}"}
        return {"content": {media: {"schema": made}}}

    def parameter(name: str, where: str, schema: Any = None, *, needed: bool = False) -> Any:
        schema = schema or {"type": "string"}
        return {"name": name, "in": where, "required": needed, "schema": schema}

    failed = content(TypeAdapter(Problem), "application/problem+json")
    for each in OPERATIONS:
        named = re.findall(r"\{(\w+)\}", each.path)
        parameters = [parameter(name, "path", needed=True) for name in named]
        for name, (kind, default) in each.query.items():
            needed, schema = default is Parameter.empty, kind.json_schema()
            parameters.append(parameter(name, "query", schema, needed=needed))
        if each.if_match:
            parameters.append(parameter("If-Match", "header"))
        done = {"description": "Done", **(content(each.result) if each.result else {})}
        entry = paths.setdefault(each.path, {})[each.method.lower()] = {
            "operationId": each.call.__name__,
            "summary": each.call.__doc__,
            "parameters": parameters,
            "responses": {
                str(each.status): done,
                "default": {"description": "A problem", **failed},
            },
        }
        if each.body:
            entry["requestBody"] = {"required": True, **content(each.body, mode="validation")}
    schemes = {"token": {"type": "http", "scheme": "bearer"}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "factmem", "version": "1"},
        "security": [{"token": []}],
        "paths": paths,
        "components": {"schemas": shared, "securitySchemes": schemes},
    }


def service(
    memory: AgentMemory, tokens: Tokens, concepts: Sequence[Concept[Any, Any]] = ()
) -> Starlette:
    """Return the application. It closes the store of the memory at its end."""

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        app.state.changes = Changes(memory)
        async with memory, anyio.create_task_group() as tasks:
            tasks.start_soon(app.state.changes.run)
            yield
            tasks.cancel_scope.cancel()

    document = openapi()
    routes = [Route(each.path, each.answer, methods=[each.method]) for each in OPERATIONS]
    routes.append(Route("/openapi.json", lambda _: JSONResponse(document)))
    handlers: Any = dict.fromkeys([HTTPException, *PROBLEMS], problem)
    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers=handlers)
    app.state.memory, app.state.tokens = memory, tokens
    app.state.concepts = {each.keyword: each for each in concepts}
    return app
