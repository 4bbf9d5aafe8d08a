"""A LangGraph store on an AgentMemory: `graph.compile(store=FactmemStore(memory))`.

It needs the extra `langgraph`. LangGraph's agents and tools and the files of deep agents use it
like any other store.

The `timestamp` of a fact is the creation of its item, its confirmation the last put. A read that
refreshes an item confirms the fact, too, and so keeps the time of the put in its metadata.
"""

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from itertools import takewhile
from math import hypot
from operator import eq, ge, gt, le, lt, mul, ne
from typing import Any, TypeAlias

from anyio import to_thread
from langgraph.store.base import (
    BaseStore,
    GetOp,
    IndexConfig,
    InvalidNamespaceError,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    TTLConfig,
    ensure_embeddings,
    get_text_at_path,
)
from pydantic import JsonValue

from factmem.ledger.entries import encoded_entry, stored, untimed
from factmem.memory.agent_memory import AgentMemory
from factmem.models.facts import AnyFact, Concept, FactType, SingleFact
from factmem.models.places import MemoryScope, MemorySubject
from factmem.sync.portal import SHARED_PORTAL

__all__ = ["ITEMS", "FactmemStore"]

Namespace: TypeAlias = tuple[str, ...]
"""The labels of a namespace: `("users", "alice")`."""

ItemPath: TypeAlias = tuple[Namespace, str]
"""The namespace and the key of an item."""

_Text: TypeAlias = tuple[Namespace, bytes]
"""The namespace and the digest of an indexed text."""

_MOST_VECTORS = 20_000
"""The number of vectors that are kept: 120 MB of 1,500 dimensions."""


class FieldVectors:
    """The vectors of the fields, kept in the process for the namespaces last searched.

    They are kept by the digest of the text, and those of former or erased values only until the
    next search of their namespace. No text of one namespace is compared with that of another.
    """

    def __init__(self, config: IndexConfig) -> None:
        self._embeddings = ensure_embeddings(config.get("embed"))
        self._fields = config.get("fields") or ["$"]
        self._kept: dict[_Text, array[float]] = {}

    async def scores(
        self, query: str, below: Namespace, items: Mapping[ItemPath, tuple[Any, object]]
    ) -> dict[ItemPath, float]:
        """Return the cosine of a question with the best field of each item, if it has any.

        `items` are all below a prefix: the value, and the paths of its own fields, False without an
        index.
        """
        fields = {path: self._texts(path[0], *item) for path, item in items.items()}
        texts = {key: text for found in fields.values() for key, text in found.items()}
        before = self._kept
        new = {key: text for key, text in texts.items() if key not in before}
        given = await self._embeddings.aembed_documents([*new.values()]) if new else []
        made = dict(zip(new, map(_unit, given), strict=True))
        vectors = {key: made[key] if key in made else before[key] for key in texts}
        others = {key: kept for key, kept in self._kept.items() if key[0][: len(below)] != below}
        most = max(_MOST_VECTORS, len(vectors))
        self._kept = dict([*(others | vectors).items()][-most:])
        if not vectors:
            return {}
        question = _unit(await self._embeddings.aembed_query(query))

        def best() -> dict[ItemPath, float]:
            return {
                path: max(sum(map(mul, vectors[each], question)) for each in found)
                for path, found in fields.items()
                if found
            }

        return await to_thread.run_sync(best)  # about 50 microseconds for 1,500 dimensions

    def _texts(self, namespace: Namespace, value: Any, own: object) -> dict[_Text, str]:
        if own is False:
            return {}
        fields = own if isinstance(own, Sequence) else self._fields
        texts = [text for field in fields for text in get_text_at_path(value, field)]
        return {(namespace, sha256(text.encode()).digest()): text for text in texts if text.strip()}


def _unit(vector: Sequence[float]) -> "array[float]":
    length = hypot(*vector) or 1.0
    return array("f", [number / length for number in vector])


ITEMS = MemoryScope.Feature("langgraph")
"""The default scope of the items."""

_SUBJECT = MemorySubject("namespace", "A namespace of a LangGraph store", 1, per_entity=True)
_ABOUT = "An item of a LangGraph store"
_ALL = 100_000
_INDEXED = "indexed"
_UPDATED = "updated_at"
"""The metadata of an item: False or its own fields to index; its last put before a refresh."""
_ONE_VALUE = FactType(FactType.SINGLE)  # not a literal type, because values have any type
_EQUAL: dict[str, Callable[[object, object], bool]] = {"$eq": eq, "$ne": ne}
_ORDER: dict[str, Callable[[Any, Any], bool]] = {"$gt": gt, "$gte": ge, "$lt": lt, "$lte": le}


class FactmemStore(BaseStore):
    """A LangGraph store with items as facts: durable, optionally encrypted, with a history.

    Each namespace is a place, in an encrypted store with its own key. The key of an item is a
    concept; its value is a JSON object. `ttl` is the expiry of the fact; a read that refreshes it
    confirms the fact. A search ranks by words, and by meaning if the memory has an embedder; with
    an `index`, by the cosine of the best indexed field alone, as LangGraph's own stores do. It
    reads the namespaces below its prefix and no others.

    The async methods run in the caller's loop. The sync methods run in a portal and can be called
    anywhere; in a coroutine they block its loop. A batch is checked whole before its first write.
    Its reads see the state before it, and its puts into one namespace are saved all or none.

    Args:
        memory: The memory, with its embedder and recall settings. Its subjects are not used.
        scope: The scope of the items; do not store other facts in it.
        ttl: LangGraph's configuration of the times to live. Expired items are never returned, so
            there is no sweep: `sweep_interval_minutes` and `omit_expired` change nothing.
        index: LangGraph's configuration of an index. A search embeds the fields that are new to
            this process, in one request, and raises the embedder's errors. 20,000 vectors are kept,
            in memory only; `dims` changes nothing. Items without an indexed
            field are returned last.

    Raises:
        TypeError: `memory` has the wrong type, or its provider is not a `FactStore`.
        InvalidNamespaceError: (from every method) A label is empty, no string, or has a period, or
            an item has no namespace.
        ValueError: (from puts) A value cannot be written as JSON, or a key or a namespace has more
            than 200 characters. (from searches) A limit or an offset is negative, or an operator
            of a filter is unknown.
        StorageError: (from every method) The store failed.
    """

    supports_ttl = True
    __slots__ = ("_fields", "_memory", "_scope", "_store", "index_config", "ttl_config")

    def __init__(
        self,
        memory: AgentMemory,
        scope: MemoryScope = ITEMS,
        *,
        ttl: TTLConfig | None = None,
        index: IndexConfig | None = None,
    ) -> None:
        if not isinstance(memory, AgentMemory):
            raise TypeError("memory must be an AgentMemory: FactmemStore(AgentMemory(provider))")
        self._memory = memory.view(scopes=[scope])
        self._store = self._memory.store
        self._scope = scope
        self._fields = FieldVectors(index) if index else None
        self.ttl_config: TTLConfig | None = ttl
        self.index_config: IndexConfig | None = index

    @staticmethod
    def subject(namespace: Namespace) -> MemorySubject:
        """Return the subject of a namespace, to erase it or to create a view of it."""
        return _SUBJECT.of(*namespace)

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Run operations from sync code; see `BaseStore.batch`."""
        return SHARED_PORTAL.call(self.abatch, list(ops))

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Run operations; see `BaseStore.abatch`."""
        results: list[Result] = []
        puts: dict[Namespace, dict[str, PutOp]] = {}
        for op in (given := list(ops)):
            _check(op)
        for op in given:
            match op:
                case PutOp():
                    puts.setdefault(op.namespace, {})[op.key] = op
                    results.append(None)
                case GetOp():
                    results.append(await self._get(op))
                case SearchOp():
                    results.append(await self._search(op))
                case _:
                    results.append(await self._namespaces(op))
        writes = [await self._prepared(each, by_key.values()) for each, by_key in puts.items()]
        if sum(bool(gone) + bool(facts) for _, gone, facts in writes) > 1:
            for _, _, facts in writes:
                # Raises for a value before another one is written.
                encoded_entry(untimed(map(stored, facts)))
        for subject, gone, facts in writes:
            for concept in gone:
                await self._store.forget(subject, self._scope, concept=concept)
            if facts:
                await self._store.save_many(facts, subject, self._scope)
        return results

    async def _get(self, op: GetOp) -> Item | None:
        if not op.namespace:
            return None
        subject = self.subject(op.namespace)
        found = await self._store.load(_concept(op.key), subject, self._scope)
        if not found:
            return None
        if op.refresh_ttl:
            await self._refresh(found, subject)
        return Item(**_fields(op.namespace, found[0]))

    async def _prepared(
        self, namespace: Namespace, ops: Iterable[PutOp]
    ) -> tuple[MemorySubject, list[Concept[Any, Any]], list[AnyFact]]:
        """Return what to forget and to save in a namespace."""
        subject = self.subject(namespace)
        current = await self._store.load_all(subject, self._scope)
        known = {fact.concept.keyword: fact for fact in current}
        facts: list[AnyFact] = [_fact(op, known.get(op.key)) for op in ops if op.value is not None]
        gone = [_concept(op.key) for op in ops if op.value is None and op.key in known]
        return subject, gone, facts

    async def _refresh(self, facts: Iterable[AnyFact], subject: MemorySubject) -> None:
        """Confirm facts and renew their expiry, with the time to live of their last save."""
        now = datetime.now(UTC)
        renewed = [
            SingleFact(
                _concept(fact.concept.keyword),
                fact.values[0],
                timestamp=fact.timestamp,
                metadata={**fact.metadata, _UPDATED: _updated_at(fact).isoformat()},
                expires_at=now + (fact.expires_at - fact.confirmed_at),
            )
            for fact in facts
            if fact.expires_at is not None and fact.confirmed_at is not None
        ]
        if renewed:
            await self._store.save_many(renewed, subject, self._scope)

    async def _search(self, op: SearchOp) -> list[SearchItem]:
        items: dict[ItemPath, AnyFact] = {}
        below = [_SUBJECT.every(*op.namespace_prefix)]
        places = await self._store.list_places(subjects=below, scopes=[self._scope])
        for subject in sorted((each.subject for each in places), key=lambda each: each.levels):
            facts = await self._store.load_all(subject, self._scope)
            items |= {(subject.levels, fact.concept.keyword): fact for fact in facts}
        wanted = op.filter or {}
        found = [path for path, fact in items.items() if _has(fact.values[0], wanted)]
        scores = await self._scores(op, items, found)
        if scores:
            found.sort(key=lambda path: -scores.get(path, -1.0))
        shown = found[op.offset : op.offset + op.limit]
        if op.refresh_ttl:
            for path in shown:
                await self._refresh([items[path]], self.subject(path[0]))
        return [
            SearchItem(**_fields(path[0], items[path]), score=scores.get(path)) for path in shown
        ]

    async def _scores(
        self, op: SearchOp, items: Mapping[ItemPath, AnyFact], wanted: Iterable[ItemPath]
    ) -> dict[ItemPath, float]:
        query = op.query
        if not query or not query.strip():
            return {}
        if self._fields is not None:
            marked = {p: (f.values[0], f.metadata.get(_INDEXED)) for p, f in items.items()}
            return await self._fields.scores(query, tuple(op.namespace_prefix), marked)
        subjects = [self.subject(each) for each in dict.fromkeys(path[0] for path in wanted)]
        if not subjects:
            return {}
        found = await self._memory.recall(query, limit=_ALL, subjects=subjects)
        return {
            (match.place.subject.levels, match.fact.concept.keyword): match.score
            for match in found
            if match.fact.metadata.get(_INDEXED) is not False
        }

    async def _namespaces(self, op: ListNamespacesOp) -> list[Namespace]:
        conditions = op.match_conditions or ()
        first = max((_first_labels(each) for each in conditions), key=len, default=())
        places = await self._store.places(subjects=[_SUBJECT.every(*first)], scopes=[self._scope])
        found = [
            info.subject.levels
            for info in places
            if info.count and all(_matches(each, info.subject.levels) for each in conditions)
        ]
        if op.max_depth is not None:
            found = list(dict.fromkeys(namespace[: op.max_depth] for namespace in found))
        return sorted(found)[op.offset : op.offset + op.limit]


def _check(op: Op) -> None:
    """Refuse what LangGraph's own stores refuse, and negative limits, before anything is done."""
    match op:
        case GetOp() | PutOp():
            paths = [op.namespace]
        case SearchOp():
            paths = [op.namespace_prefix]
            _check_operators(list((op.filter or {}).values()))
        case ListNamespacesOp():
            paths = [each.path for each in op.match_conditions or ()]
        case _:
            raise ValueError(f"The operation {type(op).__name__} is not supported")
    labels: Iterable[object] = (label for path in paths for label in path)
    for label in labels:
        if not isinstance(label, str) or not label or "." in label:
            raise InvalidNamespaceError(
                "Each label of a namespace must be a string with no period, and not empty: "
                "('users', 'alice')"
            )
    if isinstance(op, PutOp) and not op.namespace:
        raise InvalidNamespaceError("An item needs a namespace: put(('users',), key, value)")
    if isinstance(op, SearchOp | ListNamespacesOp) and min(op.limit, op.offset) < 0:
        raise ValueError("limit and offset must not be negative: search(namespace, limit=10)")


def _check_operators(wanted: object) -> None:
    if isinstance(wanted, dict):
        if unknown := [n for n in wanted if n.startswith("$") and n not in _EQUAL | _ORDER]:
            raise ValueError(f"Unknown operator {unknown[0]}: use $eq, $ne, $gt, $gte, $lt or $lte")
        wanted = [*wanted.values()]
    if isinstance(wanted, list | tuple):
        for each in wanted:
            _check_operators(each)


def _concept(key: str) -> Concept[Any, Any]:
    value_type: object = JsonValue
    return Concept(key, _ABOUT, _ONE_VALUE, value_type=value_type)


def _fact(op: PutOp, before: AnyFact | None) -> SingleFact[Any]:
    now = datetime.now(UTC)
    # A save does not remove metadata: the marks of the item before must be overridden.
    marks = {} if before is None else before.metadata
    metadata: dict[str, JsonValue] = {}
    if op.index is not None or _INDEXED in marks:
        metadata[_INDEXED] = list[JsonValue](op.index) if op.index else op.index is None
    if _UPDATED in marks:
        metadata[_UPDATED] = None
    return SingleFact(
        _concept(op.key),
        dict(op.value or {}),
        timestamp=now if before is None else before.timestamp,  # when the item was created
        expires_at=None if op.ttl is None else now + timedelta(minutes=op.ttl),
        metadata=metadata,
    )


def _fields(namespace: Namespace, fact: AnyFact) -> dict[str, Any]:
    return {
        "namespace": namespace,
        "key": fact.concept.keyword,
        "value": fact.values[0],
        "created_at": fact.timestamp,
        "updated_at": _updated_at(fact),
    }


def _updated_at(fact: AnyFact) -> datetime:
    """Return the time of the last put, also if a read has refreshed the item since."""
    marked = fact.metadata.get(_UPDATED)
    if isinstance(marked, str):
        return datetime.fromisoformat(marked)
    return fact.confirmed_at or fact.timestamp


def _first_labels(condition: MatchCondition) -> Namespace:
    """Return the labels with which a namespace must begin."""
    path = condition.path if condition.match_type == "prefix" else ()
    return tuple(takewhile(lambda label: label != "*", path))


def _matches(condition: MatchCondition, namespace: Namespace) -> bool:
    wanted = tuple(condition.path)
    is_prefix = condition.match_type == "prefix"
    part = namespace[: len(wanted)] if is_prefix else namespace[len(namespace) - len(wanted) :]
    if len(namespace) < len(wanted):
        return False
    return all(label in ("*", own) for own, label in zip(part, wanted, strict=True))


def _has(value: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Return whether a value meets a filter: equal fields, or operators such as `{"$gt": 3}`."""
    return all(_meets(_field(value, name), each) for name, each in wanted.items())


def _field(value: Any, name: str) -> Any:
    """Return a field of an item; `user.level` is the field `level` of the field `user`."""
    if not isinstance(value, dict) or name in value:
        return value.get(name) if isinstance(value, dict) else None
    first, dot, rest = name.partition(".")
    return _field(value.get(first), rest) if dot else None


def _meets(value: Any, wanted: Any) -> bool:
    """Return whether a field meets a condition: an object by its parts, a list item by item."""
    if isinstance(wanted, list | tuple):
        is_long = isinstance(value, list) and len(value) == len(wanted)
        return is_long and all(map(_meets, value, wanted))
    if not isinstance(wanted, dict):
        return bool(value == wanted)
    if any(name.startswith("$") for name in wanted):
        return all(_compared(value, name, operand) for name, operand in wanted.items())
    return isinstance(value, dict) and _has(value, wanted)


def _compared(value: Any, name: str, operand: Any) -> bool:
    if name in _EQUAL:
        return _EQUAL[name](value, operand)
    if isinstance(value, str) and isinstance(operand, str):  # times in ISO 8601, for example
        return _ORDER[name](value, operand)
    try:
        return _ORDER[name](float(value), float(operand))
    except (TypeError, ValueError):  # of another type
        return False
