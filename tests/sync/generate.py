"""Writes the synchronous twins in `factmem/sync` from the async classes that they wrap.

    python -m tests.sync.generate

A twin has every public method of its class, with the signature, the types and the first paragraph
of the docstring, as source text: type checkers and editors read it like code that was written by
hand. A test compares the files with what this script makes.
"""

import ast
import importlib
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from factmem.providers.store import FactStore

ROOM = Path(__file__).parent.parent.parent / "factmem" / "sync"


@dataclass(frozen=True)
class Twin:
    """A class to write."""

    name: str
    of: str
    """Module and class, as `factmem.memory.agent_memory:AgentMemory`."""
    about: str
    """The class docstring; its first line goes on with "for code that does not use `await`."."""
    base: str = "Wraps"
    """The class that it inherits from, of the wrapped one or of a type variable."""
    bases: tuple[str, ...] = ()
    """Classes whose methods the base has already, as `of` names them."""
    head: str = ""
    """The constructor, which comes before the methods."""


@dataclass(frozen=True)
class File:
    """A module to write."""

    name: str
    about: str
    twins: tuple[Twin, ...]
    imports: tuple[tuple[str, str], ...] = ()
    """The imports of constructors."""
    variables: tuple[str, ...] = ()


WRAPPING = "factmem.sync._wrapping"
PORTAL = (("factmem.sync.portal", "SHARED_PORTAL"), ("factmem.sync.portal", "Portal"))

WRAPPED = {
    "MemoryContents": ("_contents", "ContentsSync"),
    "FactStore": ("stores", "StoreSync"),
    "AgentMemoryProvider": ("stores", "ProviderSync"),
    "ProviderKeys": ("_sql_stores", "KeysSync"),
    "MemoryTool": ("_documents", "ToolSync"),
    "MemoryDocuments": ("_documents", "DocumentsSync"),
    "MemoryConsolidation": ("_documents", "ConsolidationSync"),
    "MemoryReview": ("_review", "ReviewSync"),
    "Conversation": ("_conversations", "ConversationSync"),
    "MemoryConversations": ("_conversations", "ConversationsSync"),
}
"""The classes that a method may return and that have a twin: its module and name."""

LEFT_OUT = {"aclose", "watch"}
"""The methods without a generated twin: a `with` block closes, and a loop is written by hand."""

OF_MEMORIES = {
    *("begin", "changes", "is_searched", "candidates", "read_index", "write_index"),
    *("facts_to_embed", "add_vectors", "moment", "learn", "proposals", "define", "erased_at"),
    *("small_provider", "states", "entries_since"),
}
"""The methods of stores without a twin: a memory calls them, in the loop of its portal."""

PROVIDER = "factmem.providers.provider"
BASE = "factmem.providers.store"
CORE = "factmem.providers._sql.store"
LOCAL = "factmem.providers.local_file"
SQL = "factmem.providers.storages"
POSTGRES = "factmem.providers.postgres"

BASES = {
    "Wraps": WRAPPING,
    "WrapsContext": WRAPPING,
    "StoreSync": "factmem.sync.stores",
    "SqlStoreSync": "factmem.sync._sql_stores",
}
"""The modules of the classes that twins inherit from."""

FILES = (
    File(
        "memory",
        "MemorySync: an AgentMemory without await.",
        (
            Twin(
                "MemorySync",
                "factmem.memory.agent_memory:AgentMemory",
                """An `AgentMemory`

    memory = MemorySync(AgentMemory(store, scopes=MemoryScopesProfile(agent="desk")))
    facts = memory.current()

Methods run in the event loop of a portal. `with memory` is `async with memory`: work in the
background goes on inside the block.

Args:
    memory: The memory to call.
    portal: Where it runs; one loop that all twins share by default.""",
                base="WrapsContext",
                head="""
    def __init__(self, memory: AgentMemory, portal: Portal = SHARED_PORTAL) -> None:
        example = "MemorySync(AgentMemory(InMemoryProvider()))"
        super().__init__(expect(memory, AgentMemory, "memory", example), portal)
""",
            ),
        ),
        (("factmem._arguments", "expect"), *PORTAL),
    ),
    File(
        "_contents",
        "The contents of a memory without await.",
        (
            Twin(
                "ContentsSync", "factmem.memory.contents:MemoryContents", "The contents of a memory"
            ),
        ),
    ),
    File(
        "_documents",
        "Documents, tools and consolidation of a memory without await.",
        (
            Twin("DocumentsSync", "factmem.memory.documents:MemoryDocuments", "Texts under paths"),
            Twin(
                "ConsolidationSync",
                "factmem.memory.consolidation:MemoryConsolidation",
                "Merges of values that mean the same,",
            ),
            Twin("ToolSync", "factmem.memory.tools:MemoryTool", "A tool of a memory"),
        ),
    ),
    File(
        "_review",
        "The review of a memory without await.",
        (
            Twin(
                "ReviewSync",
                "factmem.memory.review:MemoryReview",
                "What a memory learnt, and decisions about it,",
            ),
        ),
    ),
    File(
        "_conversations",
        "The conversations of a memory without await.",
        (
            Twin(
                "ConversationSync",
                "factmem.memory.conversations:Conversation",
                "A chat of one user",
            ),
            Twin(
                "ConversationsSync",
                "factmem.memory.conversations:MemoryConversations",
                "The chats of a memory's user",
            ),
        ),
    ),
    File(
        "stores",
        "Fact stores without await: any provider, any FactStore.",
        (
            Twin("ProviderSync", f"{PROVIDER}:AgentMemoryProvider", "A provider"),
            Twin(
                "StoreSync",
                f"{BASE}:FactStore",
                """A `FactStore`

    with StoreSync(InMemoryProvider()) as store:
        store.save(fact, subject, scope)

Args:
    store: The store to call. Leaving the `with` block closes it.
    portal: Where it runs; one loop that all twins share by default.""",
                base="WrapsContext[S]",
                head="""
    def __init__(self, store: S, portal: Portal = SHARED_PORTAL) -> None:
        example = "StoreSync(InMemoryProvider())"
        needed = ("save", "load", "history", "forget", "aclose")
        super().__init__(expect_methods(store, needed, "store", example), portal)

    def watch(
        self,
        places: Iterable[Place],
        *,
        since: datetime | str | None = None,
        concepts: Iterable[Concept[Any, Any]] = (),
    ) -> Generator[FactChange]:
        \"\"\"See `FactStore.watch`. It blocks between two changes; `close()` ends it.\"\"\"
        changes = self._wrapped.watch(places, since=since, concepts=concepts)
        try:
            while True:
                yield self._portal.call(changes.__anext__)
        finally:
            self._portal.call(changes.aclose)
""",
            ),
        ),
        (
            ("factmem._arguments", "expect_methods"),
            ("collections.abc", "Generator"),
            ("factmem.ledger.history", "FactChange"),
            *PORTAL,
        ),
        ('S = TypeVar("S", bound=FactStore, default=FactStore)',),
    ),
    File(
        "_sql_stores",
        "What stores in local files and in PostgreSQL have in common, without await.",
        (
            Twin("KeysSync", f"{SQL}:ProviderKeys", "The keys of an encrypted store"),
            Twin(
                "SqlStoreSync",
                f"{CORE}:SqlStore",
                "A store in a database",
                base="StoreSync[D]",
                bases=(f"{BASE}:FactStore",),
            ),
        ),
        variables=('D = TypeVar("D", bound=SqlStore)',),
    ),
    File(
        "local_stores",
        "Stores in local files without await.",
        (
            Twin(
                "LocalStoreSync",
                f"{LOCAL}:LocalFileMemoryProvider",
                """A `LocalFileMemoryProvider`

    with LocalStoreSync(LocalFileMemoryProvider("facts")) as store:
        store.save(fact, subject, scope)""",
                base="SqlStoreSync",
                bases=(f"{BASE}:FactStore", f"{CORE}:SqlStore"),
            ),
        ),
    ),
    File(
        "postgres_stores",
        "Stores in PostgreSQL without await.",
        (
            Twin(
                "PostgresStoreSync",
                f"{POSTGRES}:PostgresMemoryProvider",
                """A `PostgresMemoryProvider`

    with PostgresStoreSync(PostgresMemoryProvider(dsn)) as store:
        store.save(fact, subject, scope)""",
                base="SqlStoreSync",
                bases=(f"{BASE}:FactStore", f"{CORE}:SqlStore"),
            ),
        ),
    ),
)

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass
class Source:
    """The text of a file as it grows: its imports, type variables and classes."""

    module: str
    imports: set[tuple[str, str]] = field(default_factory=set)
    variables: dict[str, str] = field(default_factory=dict)
    classes: list[str] = field(default_factory=list)

    def need(self, node: ast.AST, module: str) -> None:
        """Import or copy every name that a part of a signature uses."""
        for name in sorted({each.id for each in ast.walk(node) if isinstance(each, ast.Name)}):
            if hasattr(importlib.import_module("builtins"), name):
                continue
            where, found = _definition(module, name)
            if isinstance(found, ast.Assign) and "TypeVar" in ast.unparse(found):
                self.variables[name] = ast.unparse(found)
                self.imports.add(("typing_extensions", "TypeVar"))
                for constant in ast.walk(found.value):
                    if isinstance(constant, ast.Constant) and "[" in str(constant.value):
                        self.need(ast.parse(str(constant.value)), where)
            else:
                self.imports.add((where, name))


def made(file: File) -> str:
    """Return the text of a module, not formatted."""
    source = Source(file.name, set(file.imports))
    if file.variables:
        source.imports.add(("typing_extensions", "TypeVar"))
    for twin in file.twins:
        source.classes.append(_class(twin, source))
    names = sorted(twin.name for twin in file.twins)
    public = [
        name for name in names if name not in {each for _, each in WRAPPED.values()} - {"StoreSync"}
    ]
    lines = [
        f'"""{file.about}\n\nWritten by tests/sync/generate.py: change the async class.\n"""',
        "",
    ]
    lines += [
        f"from {module} import {name}"
        for module, name in sorted(source.imports)
        if name not in names
    ]
    lines += [
        "",
        *([f"__all__ = {public!r}"] if public else []),
        *file.variables,
        *source.variables.values(),
        *source.classes,
    ]
    return "\n".join(lines) + "\n"


def _class(twin: Twin, source: Source) -> str:
    module, _, owner = twin.of.partition(":")
    base = twin.base if "[" in twin.base else f"{twin.base}[{owner}]"
    parent = base.partition("[")[0]
    source.imports |= {(module, owner), (BASES[parent], parent)}
    whole = f"Each method is that of `{owner}` with its name, which says more."
    first, *others = twin.about.split("\n\n")
    first += " for code that does not use `await`."
    about = "\n\n".join([first, *others[:1], whole, *others[1:]])
    lines = [f"class {twin.name}({base}):", _docstring(about, 4), twin.head]
    have = {
        name: [_shape(each) for each in functions]
        for of in twin.bases
        for name, functions, _ in _members(of)
    }
    for name, functions, module in _members(twin.of):
        if have.get(name) != [_shape(each) for each in functions]:
            lines += [
                _method(
                    each,
                    module,
                    source,
                    is_overloaded=len(functions) > 1,
                    inherited=_inherited(twin, name),
                )
                for each in functions
            ]
    return "\n".join(lines)


def _inherited(twin: Twin, name: str) -> str:
    """Return the docstring of a method in the classes that the twin's base covers, or its own."""
    for of in (*twin.bases, twin.of):
        module, _, owner = of.partition(":")
        method = getattr(getattr(importlib.import_module(module), owner), name, None)
        if method is not None:
            return inspect.getdoc(method) or ""
    return ""


def _shape(function: Function) -> str:
    return f"{ast.unparse(function.args)} -> {ast.unparse(function.returns or ast.Constant(None))}"


def _members(of: str) -> Iterator[tuple[str, list[Function], str]]:
    """Yield the public methods and properties of a class in their order of definition."""
    module, _, name = of.partition(":")
    seen: set[str] = set()
    owner = getattr(importlib.import_module(module), name)
    left_out = left_out_of(owner)
    for each in owner.__mro__:
        if not each.__module__.startswith("factmem"):
            continue
        node = _class_node(each)
        methods = [item for item in node.body if isinstance(item, Function) and not _is_made(item)]
        for member in dict.fromkeys(method.name for method in methods):
            if member not in seen | left_out and not member.startswith("_"):
                yield member, [item for item in methods if item.name == member], each.__module__
        seen |= {method.name for method in methods}


def left_out_of(owner: type) -> set[str]:
    """Return the methods of a class that have no twin."""
    return LEFT_OUT | (OF_MEMORIES if issubclass(owner, FactStore) else set())


def _is_made(function: Function) -> bool:
    """Return True for what has no twin: class methods, and what only a memory's twins call."""
    returns = "" if function.returns is None else ast.unparse(function.returns)
    is_of_class = "classmethod" in map(ast.unparse, function.decorator_list)
    return is_of_class or returns == "ConversationStore"


def _class_node(owner: type) -> ast.ClassDef:
    tree = ast.parse(inspect.getsource(sys.modules[owner.__module__]))
    (node,) = (
        item for item in tree.body if isinstance(item, ast.ClassDef) and item.name == owner.__name__
    )
    return node


def _method(
    function: Function, module: str, source: Source, *, is_overloaded: bool, inherited: str
) -> str:
    decorators = [ast.unparse(each) for each in function.decorator_list]
    decorators = [each for each in decorators if each in {"property", "overload"}]
    if "overload" in decorators:
        source.imports.add(("typing", "overload"))
    source.need(ast.Module([ast.Expr(each) for each in _defaults(function)], []), module)
    for each in _annotations(function):
        source.need(each, module)
    returns = _returned(function, source)
    body = "..." if "overload" in decorators else _body(function, decorators, source)
    if is_overloaded and "overload" not in decorators:
        body = (
            f"any_call: Any = self._wrapped.{function.name}\n        "
            + body.replace(
                f"return self._portal.call(self._wrapped.{function.name}",
                f"result: {returns} = self._portal.call(any_call",
            )
            + "\n        return result"
        )
    lines = [f"    @{each}" for each in decorators]
    lines.append(f"    def {function.name}({ast.unparse(function.args)}) -> {returns}:")
    text = ast.get_docstring(function) or inherited
    if text and "overload" not in decorators:
        lines.append(_docstring(_shortened(_without_await(text)), 8))
    return "\n".join([*lines, f"        {body}", ""])


def _body(function: Function, decorators: list[str], source: Source) -> str:
    target = f"self._wrapped.{function.name}"
    if "property" in decorators:
        return f"return {_wrapped(target, function, source)}"
    names = [each.arg for each in (*function.args.posonlyargs, *function.args.args)][1:]
    several = function.args.vararg
    given = [*names, *([f"*{several.arg}"] if several else [])]
    given += [f"{each.arg}={each.arg}" for each in function.args.kwonlyargs]
    given += [f"**{function.args.kwarg.arg}"] if function.args.kwarg else []
    call = f"{target}({', '.join(given)})"
    if _entered(function) is not None:
        return f"return self._portal.entered({call})"
    if isinstance(function, ast.AsyncFunctionDef):
        if function.args.kwarg:  # mypy does not match an unpacked TypedDict with a ParamSpec
            return f"return self._portal.call(lambda: {call})"
        return f"return self._portal.call({', '.join([target, *given])})"
    return f"return {_wrapped(call, function, source)}"


def _wrapped(call: str, function: Function, source: Source) -> str:
    """Return the call of a synchronous method, its result in the twin of its type."""
    returns = "" if function.returns is None else ast.unparse(function.returns)
    if returns == "Self":
        return f"type(self)({call}, self._portal)"
    inner = returns.strip("'").removeprefix("list[").removesuffix("]")
    if inner not in WRAPPED:
        return call
    twin = WRAPPED[inner][1]
    if returns.strip("'") == inner:
        return f"{twin}({call}, self._portal)"
    return f"[{twin}(each, self._portal) for each in {call}]"


def _entered(function: Function) -> ast.expr | None:
    """Return the type of what an async context manager enters; None for other functions."""
    if "asynccontextmanager" not in map(ast.unparse, function.decorator_list):
        return None
    assert isinstance(function.returns, ast.Subscript)
    return function.returns.slice


def _returned(function: Function, source: Source) -> str:
    if (entered := _entered(function)) is not None:
        source.imports.add(("contextlib", "AbstractContextManager"))
        return f"AbstractContextManager[{ast.unparse(entered)}]"
    returns = "None" if function.returns is None else ast.unparse(function.returns)
    for name, (module, twin) in WRAPPED.items():
        if re.search(rf"\b{name}\b", returns):
            source.imports.add((f"factmem.sync.{module}", twin))
            returns = re.sub(rf"\b{name}\b", twin, returns).strip("'")
    return returns


def _annotations(function: Function) -> Iterator[ast.expr]:
    arguments = function.args
    several = [each for each in (arguments.vararg, arguments.kwarg) if each is not None]
    for each in (*arguments.posonlyargs, *arguments.args, *several, *arguments.kwonlyargs):
        if each.annotation is not None:
            yield each.annotation
    returns = _entered(function) or function.returns
    if returns is not None and not any(
        re.search(rf"\b{n}\b", ast.unparse(returns)) for n in WRAPPED
    ):
        yield returns


def _defaults(function: Function) -> Iterator[ast.expr]:
    yield from function.args.defaults
    yield from (each for each in function.args.kw_defaults if each is not None)


@cache
def _tree(module: str) -> ast.Module:
    return ast.parse(inspect.getsource(importlib.import_module(module)))


def _definition(module: str, name: str) -> tuple[str, ast.stmt | None]:
    """Return the module that a name comes from, and its definition in the package."""
    for node in _tree(module).body:
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    return str(node.module), None
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            return module, node
    return module, None


def _docstring(text: str, indent: int) -> str:
    space = " " * indent
    lines = [f"{space}{line}".rstrip() for line in text.splitlines()]
    lines[0] = f'{space}"""{text.splitlines()[0]}'
    return "\n".join(lines) + ('"""' if len(lines) == 1 else f'\n{space}"""')


def _without_await(text: str) -> str:
    """Return a docstring whose examples and references are those of the twin."""
    text = re.sub(r"\b(?:await|async) (?=\w)", "", text)
    return text.replace("aclose", "close").replace("__aexit__", "__exit__")


def _shortened(text: str) -> str:
    """Return the first paragraph of a docstring; the class refers to the rest."""
    return text.partition("\n\n")[0]


def main() -> None:
    """Write the files and format them."""
    for file in FILES:
        (ROOM / f"{file.name}.py").write_text(made(file))
    for command in (["check", "--fix", "--quiet", "--select", "I,RUF022"], ["format", "--quiet"]):
        subprocess.run([sys.executable, "-m", "ruff", *command, str(ROOM)], check=True)


if __name__ == "__main__":
    main()
