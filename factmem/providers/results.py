"""Arguments and results of a store's methods: their types, checks and conversions."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from types import EllipsisType
from typing import Any, Generic, Literal, NamedTuple, Protocol, Self, TypeAlias

from typing_extensions import TypedDict, TypeVar

from factmem._arguments import expect, expect_all, expect_function, expect_within
from factmem.errors import InputTypeError, InputValueError, PlaceFullError
from factmem.ledger._items import Condition, digest_of, values_of
from factmem.ledger.entries import RetractedValue, StoredFact, source_entry, stored
from factmem.ledger.ledger import Ledger
from factmem.models._display import Displayed
from factmem.models._values import Canonical, JsonValue, canonical, checked_name
from factmem.models.facts import (
    AnyFact,
    Concept,
    FactSource,
    FactType,
    MultipleFacts,
    SingleFact,
    checked_concept,
    checked_concepts,
    checked_metadata,
    new_id,
)
from factmem.models.places import Identity, MemoryScope, MemorySubject, Place
from factmem.models.recall_filter import RecallFilter
from factmem.models.when import before, moment, stamp, utc
from factmem.providers.conversations import Turn

__all__ = [
    "ErasureReceipt", "ForgetConditions", "Forgotten", "Learned", "Moment", "PlaceChanges",
    "PlaceInfo", "PlaceLimit", "PlaceStatistics", "RetractedFact", "SearchAnswer",
    "SearchCandidate", "SearchDocument", "SearchQuestion",
]  # fmt: skip


T = TypeVar("T", default=Any)


@dataclass(frozen=True, slots=True)
class PlaceInfo(Displayed):
    """A place that is not empty, with its number of values and its size.

    Pass its parts to other methods: `erase(info.subject, info.scope)`. Stores do not keep the
    descriptions and priorities of subjects, so this subject's description is empty and its priority
    is the lowest.
    """

    scope: MemoryScope
    subject: MemorySubject
    count: int
    """How many values are current."""
    bytes: int
    """Its size on disk or in memory, history included."""
    oldest: datetime | None
    """When the oldest current value was last confirmed; None if no value is current."""
    newest: datetime | None
    concepts: tuple[str, ...] = ()
    """The keywords with a current value, sorted."""
    conversations: int = 0
    """How many conversations it has; their messages are part of its size."""

    @property
    def place(self) -> Place:
        """The place itself."""
        return Place(self.scope, self.subject)


def is_extended(before: str, after: str, lines: int) -> bool:
    """Return whether a place only got `lines` more lines between two states of `states`."""
    place, snapshot, last = _of_state(after)
    if not before:
        return (snapshot, last) == (0, lines)
    return (place, snapshot, last - lines) == _of_state(before)


def is_edited(before: str, after: str) -> bool:
    """Return whether the history of a place was edited between two states of `states`."""
    (place, snapshot, count), (same, later, last) = _of_state(before), _of_state(after)
    return place == same and later > snapshot and last >= count


def _of_state(state: str) -> tuple[str, int, int]:
    """Return the place of a state, how often it was edited, and its number of lines."""
    key, made, snapshot, last, *_ = [*state.split("."), "", "-1", "-1"]
    return f"{key}.{made}", int(snapshot), int(last)


@dataclass(frozen=True, slots=True)
class ErasureReceipt(Displayed):
    """The result of `erase`, to keep as evidence. It contains no values."""

    scope: MemoryScope
    subject: MemorySubject
    erased_at: datetime
    count: int | None
    """How many current values were erased; 0 if the place did not exist, None if it was too damaged
    to count them."""
    bytes: int
    """How many bytes of storage were removed."""
    copies_remain: bool = False
    """Whether the store itself still has copies, such as a database in its logs and standbys."""
    is_shreddable: bool = False
    """Whether `shred` makes the place unreadable in all copies made before it: in backups, logs and
    standbys. Otherwise they can be read until they are deleted, if encrypted by the store's key."""
    conversations: int = 0
    """How many conversations of the place were erased with it."""

    @property
    def place(self) -> Place:
        """The place itself."""
        return Place(self.scope, self.subject)


Purge: TypeAlias = bool | Literal["quotes"]
"""Whether forgotten values are also removed from the history; with "quotes" also from the quotes of
all other facts of the place."""


class Forgotten(int):
    """The number of forgotten values as an `int`, with the remains that a purge found."""

    quoting: tuple[str, ...]
    """The ids of stored facts whose quotes contain a purged value. `forget` the value again with
    `purge="quotes"`, or forget these facts. After that, the value is only a part of words here."""
    mentioning: tuple[str, ...]
    """The ids of stored facts with a purged value in their keyword, description, metadata or actor,
    in another value, or as a part of a word in the reason of a change. A purge does not change
    these: purge the facts, or save others."""
    messages: tuple[str, ...]
    """The ids of messages that contain a purged value as a part of a word, such as "peanuts" for
    "peanut". As a word it was removed: remove these messages, or let them stay."""
    copies_remain: bool
    """Whether bytes of purged values are still in the files of the store; see `ErasureReceipt`."""

    def __new__(
        cls,
        count: int,
        quoting: Iterable[str] = (),
        mentioning: Iterable[str] = (),
        messages: Iterable[str] = (),
        *,
        copies_remain: bool = False,
    ) -> Self:
        """Create a count; see the class."""
        made = super().__new__(cls, count)
        made.quoting = tuple(quoting)
        made.mentioning = tuple(mentioning)
        made.messages = tuple(messages)
        made.copies_remain = copies_remain
        return made

    @classmethod
    def total(cls, counts: Iterable[int]) -> Self:
        """Return the sum of the results of several calls to `forget`."""
        given = list(counts)
        left = [
            [each for count in given for each in getattr(count, name, ())]
            for name in ("quoting", "mentioning", "messages")
        ]
        remain = any(getattr(count, "copies_remain", False) for count in given)
        return cls(sum(given), *left, copies_remain=remain)


@dataclass(frozen=True, slots=True)
class PlaceChanges:
    """The current facts of the keywords that have changed since a version."""

    version: str
    """The present version of the place, for the next call."""
    facts: Mapping[str, Sequence[AnyFact | str]]
    """The current facts of each changed keyword, in the order of `load_all`. A fact that is
    unchanged in every field may be represented by its id. A keyword without current facts has an
    empty sequence; absent keywords are unchanged."""


@dataclass(frozen=True, slots=True)
class RetractedFact:
    """A statement that a value is no longer true."""

    concept: Concept[Any, Any]
    value: Any = field(repr=False)
    said_at: datetime
    """When it was said, as an aware datetime."""
    source: FactSource | None = None
    """Where it was said. Its words are not stored."""
    is_proposed: bool = False
    """Whether a person or the application has to decide."""


@dataclass(frozen=True, slots=True, eq=False)
class Moment:
    """An opaque marker for the state of a place, as one process saw it."""

    state: object = field(repr=False)


@dataclass(frozen=True, slots=True)
class Learned:
    """The result of recording statements."""

    superseded: frozenset[str] = frozenset()
    """The ids of facts that are only in the history, because of a statement that was said later."""
    refused: tuple[RetractedFact, ...] = ()
    """The retractions without effect, because their values were said later."""
    is_erased: bool = False
    """Whether nothing was recorded, because the place was erased after the chat was read."""
    proposed: frozenset[str] = frozenset()
    """The ids of facts with a value that waits for a decision; see `FactStore.proposals`."""
    disputed: tuple[RetractedFact, ...] = ()
    """The retractions that wait for a decision, as a person confirmed their values."""


def learned(
    stated: Sequence[StoredFact],
    ended: Sequence[tuple[RetractedFact, Sequence[RetractedValue]]],
    ledger: Ledger,
    _: str,
) -> Learned:
    """Return what became of statements, from the ledger that has folded them."""
    return Learned(
        frozenset(fact["id"] for fact in stated if ledger.is_superseded(fact)),
        tuple(each for each, made in ended if any(map(ledger.is_refused, made))),
        proposed=frozenset(fact["id"] for fact in stated if ledger.is_proposed(fact)),
        disputed=tuple(each for each, made in ended if any(map(ledger.is_disputed, made))),
    )


@dataclass(frozen=True, slots=True)
class ShredReceipt:
    """The result of `shred`. Keep it with the receipts of erasures, which it makes final."""

    began_at: datetime
    """Data that was erased or purged before this time is now unreadable in all copies of the store
    made before."""
    places: int
    """The number of remaining places. The data key of each is now encrypted under a new key."""


@dataclass(frozen=True, slots=True)
class StoreStatus(Displayed):
    """The result of `ping`."""

    id: str
    """The random id that the store got when it was created."""
    version: int
    """The version of its tables."""
    is_encrypted: bool


ConditionAt: TypeAlias = Callable[[str], Condition]
"""Returns the condition of a `forget` for the time of the call, as a stamp. Spans count back from
that time."""

_OLDER = "older_than=timedelta(days=90)"


class ForgetConditions(TypedDict, Generic[T], total=False):
    """The arguments of `forget` that select values. A value must meet all that are passed."""

    concept: Concept[Any, SingleFact[T] | MultipleFacts[T]] | None
    """Values with this concept's keyword."""
    value: T | EllipsisType
    """This value of `concept`."""
    source: FactSource | None
    """Values whose sources all match it: each of its fields that is not None must be equal."""
    older_than: datetime | timedelta | None
    """Values last confirmed before this moment, or longer ago than this."""
    concepts: Iterable[Concept[Any, Any]] | None
    """Values with one of these concepts' keywords."""
    fact_ids: Iterable[str] | None
    """Values saved as one of these facts."""
    metadata: Mapping[str, JsonValue] | None
    """Values whose metadata has all of these keys, with equal values."""


def condition_of(
    *,
    concept: Concept[Any, Any] | None = None,
    value: object = ...,
    source: FactSource | None = None,
    older_than: datetime | timedelta | None = None,
    concepts: Iterable[Concept[Any, Any]] | None = None,
    fact_ids: Iterable[str] | None = None,
    metadata: Mapping[str, JsonValue] | None = None,
) -> ConditionAt:
    """Return the condition for the arguments of `forget`. A `value` of `...` means no value.

    Raises:
        TypeError: An argument is of the wrong type.
        ValueError: No condition is given, `value` is given without `concept` or does not fit it, or
            `older_than` is naive, negative or reaches back beyond the year 1.
    """
    has_value = value is not ...
    if concept is None and has_value:
        raise InputValueError("value needs its concept: forget(..., concept=CONCEPT, value=value)")
    several = (concepts, fact_ids, metadata or None)
    if all(each is None for each in (concept, source, older_than, *several)):
        raise InputValueError(
            "forget needs a condition: concept, value, concepts, fact_ids, metadata, source or "
            "older_than. To remove the whole place with its history, call erase"
        )
    if source is not None:
        expect(source, FactSource, "source", "source=FactSource(SourceKind.USER)")
    keyword = key = reading = None
    if concept is not None:
        keyword = checked_concept(concept).keyword
        if has_value:
            reading = None if concept.read is None else partial(_read_key, concept)
            key = canonical(concept.codec.dump(concept.codec.check(value, keyword), keyword))
    limit = None if older_than is None else _limit(older_than)
    named: frozenset[str] | None = None
    if concepts is not None:
        named = frozenset(word for each in checked_concepts(concepts) for word in each.keywords)
    is_renamed = concept is not None and bool(concept.was)
    if concept is not None and is_renamed:
        keyword, ours = None, frozenset(concept.keywords)
        named = ours if named is None else ours & named
    is_single = is_renamed and concept is not None and concept.fact_type is FactType.SINGLE
    ids: frozenset[str] | None = None
    if fact_ids is not None:
        given = expect_all(fact_ids, str, "fact_ids", "fact_ids=[fact.id]")
        ids = frozenset(checked_name(each, "fact id") for each in given)
    wanted = checked_metadata(metadata) if metadata else None

    def condition(now: str) -> Condition:
        old = None if limit is None else limit(now)
        return Condition(keyword, key, source, old, named, ids, wanted, reading, is_single)

    return condition


def _read_key(concept: Concept[Any, Any], plain: JsonValue) -> Canonical | None:
    try:
        return canonical(concept.codec.dump(concept.codec.load(plain), concept.keyword))
    except ValueError:
        return None


def _limit(older_than: datetime | timedelta) -> Callable[[str], str]:
    """Return a function that computes the stamp before which a value is old, from the time now."""
    expect(older_than, (datetime, timedelta), "older_than", _OLDER)
    if isinstance(older_than, datetime):
        limit = stamp(utc(older_than, "moment older_than"))
        return lambda _: limit
    expect_within(older_than, timedelta, "older_than", _OLDER, least=timedelta(0))
    try:
        _ = datetime.now(UTC) - older_than
    except OverflowError:
        raise InputValueError(
            f"older_than reaches back beyond the year 1: pass a shorter span, {_OLDER}"
        ) from None
    return lambda now: before(now, older_than)


TextVectors: TypeAlias = Mapping[bytes, Sequence[float] | None]
"""The vectors of texts by their digests; None marks a text that the embedder refused."""


class SearchDocument(NamedTuple):
    """The words of a fact, or of a passage of a message."""

    terms: Mapping[str, int]
    """Its terms, without those of its neighbours, each with a byte that `ItemScan.best` reads."""
    length: float
    """The sum of their weighted counts."""
    counts: bytes
    """The counts, as `SearchQuestion.scan` reads them."""
    digest: bytes = b""
    """A digest of 16 bytes of the text that is embedded."""


class Letters(Protocol):
    """The terms of a place, to find those with similar letters."""

    def similar(self, word: tuple[str, ...]) -> Mapping[str, float]:
        """Return the terms that are similar to the terms of a word, with their similarities."""
        ...


class FoundItem(NamedTuple):
    """An item that may answer a question, or that was said beside one."""

    identity: Identity
    """Its place."""
    item: int
    """Its number in the index of the place."""
    said_at: float
    length: float
    counts: bytes
    """See `SearchDocument`."""
    chat: int | None
    """A number of its conversation."""
    message: int | None


class ItemScore(NamedTuple):
    """The words of an item, compared with those of a question."""

    score: float
    coverage: float
    terms: Collection[str]
    """The terms of the question that it has."""


class HeldTerms(NamedTuple):
    """The items of a place that have some terms."""

    blocks: Mapping[str, Sequence[tuple[int, bytes]]]
    """For each term the first item of each block, and for all items of the block the distance from
    it, as 16 bits, and the byte of `SearchDocument.terms`."""
    inside: Collection[int] | None
    """The items that a filter lets through; None for all."""


class ItemScan(Protocol):
    """Scores items by the words of a question, first roughly, then as ranking scores a fact."""

    terms: Collection[str]
    """The terms of the question, and those that are similar to them."""

    def weigh(self, places: "Mapping[Identity, PlaceStatistics]") -> Sequence[str]:
        """Take the statistics of all places; return the terms to search for."""
        ...

    def best(
        self, held: "Mapping[Identity, HeldTerms]", most: int
    ) -> Mapping[Identity, Sequence[int]]:
        """Return the best items of all places."""
        ...

    def scores(self, items: Sequence[FoundItem], *, has_meaning: bool) -> Sequence[ItemScore]:
        """Return the score of each item; `has_meaning` if vectors are compared, too."""
        ...


@dataclass(frozen=True, slots=True)
class SearchQuestion:
    """The question of a search."""

    limit: int
    """The number of candidates to return, by words of all places, and by meaning of each."""
    spans: Sequence[tuple[float, float]]
    """The times that the question names, in seconds since 1970, whose items are candidates too."""
    letters: Callable[[Sequence[str]], Letters]
    """Returns the vocabulary of a place with some terms."""
    scan: Callable[[Mapping[Identity, Letters]], ItemScan]
    """Scores items of places with some vocabularies."""
    can_scan: Callable[[], bool]
    """Whether `scan` has what it needs, which the first call may import."""
    form: str
    """What the terms depend on beside the texts. Another form makes an index again."""
    describe: Callable[[AnyFact, str | None], SearchDocument]
    """Returns the document of a fact of an entity. A pure function, called in a worker thread."""
    describe_turn: Callable[[Turn], Iterable[SearchDocument]]
    """Returns the documents of the passages of a message."""
    filter: RecallFilter = field(default_factory=RecallFilter)
    model: str = ""
    """The embedding model of the vector."""
    vector: Sequence[float] | None = None
    """The embedding of the question, of length 1; None to search only by words."""
    common: float = 0.0
    """The share of a fact's cosine with the mean of all vectors that ranking subtracts."""


class SearchCandidate(NamedTuple):
    """A fact that may answer a question."""

    identity: Identity
    """The place of the fact."""
    item: int
    """Its number in the index of the place."""
    load: Callable[[Mapping[str, Concept[Any, Any]]], AnyFact]
    """Returns the fact, with the type of its concept if the passed mapping has its keyword. Raises
    `StoredFactError` if a value does not fit that type."""
    words: ItemScore
    cosine: float | None = None
    """The cosine between its text and the question; None without a vector."""
    ranked: float | None = None
    """The same cosine, reduced as `SearchQuestion.common` says."""


class PlaceStatistics(NamedTuple):
    """Statistics of all items of a place, which the scores of its candidates depend on."""

    size: int
    length: float
    """The sum of their lengths."""
    holders: Mapping[str, int]
    """For each term of the question, and each similar one, how many items have it."""
    letters: Letters
    vectors: int = 0
    cosines: float = 0.0
    """The sum of the cosines of all vectors with the question."""
    ranked: float = 0.0
    """The sum of the cosines reduced as `SearchQuestion.common` says."""


class SearchAnswer(NamedTuple):
    """The result of a search for facts."""

    candidates: Sequence[SearchCandidate]
    places: Mapping[Identity, PlaceStatistics]
    """The statistics of the places that are not empty."""
    others: Sequence[SearchCandidate] = ()
    """Facts with the candidates' keywords in other places, which may take precedence over them."""
    has_meaning: bool = False
    """Whether vectors were compared."""
    unembedded: frozenset[Identity] = frozenset()
    """The places with facts that have no vector of the question's model: `facts_to_embed` returns
    these facts. Empty if the question has no vector or the store keeps none."""


class TurnCandidate(NamedTuple):
    """A passage of a message that may answer a question."""

    identity: Identity
    """The place of its conversation."""
    conversation: str
    turn: Turn
    part: int
    """The number of the passage in the message; see `SearchQuestion.describe_turn`."""
    words: ItemScore


@dataclass(frozen=True, slots=True)
class PlaceLimit:
    """A limit on the values and the size of each place, so that one user cannot fill a store.

    Concurrent saves do not see each other and can exceed the limit by their own values.

    Raises:
        ValueError: A limit is not positive, or none is given.
    """

    values: int | None = None
    """The maximum number of current values."""
    bytes: int | None = None
    """The maximum size in bytes, history and conversations included; `contents.tidy` frees some.
    What is being saved counts without the framing and padding of its file."""

    def __post_init__(self) -> None:
        given = [each for each in (self.values, self.bytes) if each is not None]
        if not given or min(given) < 1:
            raise InputValueError("PlaceLimit needs positive limits: PlaceLimit(values=10_000)")

    def check_values(
        self, identity: Identity, ledger: Ledger, facts: Iterable[StoredFact], now: str
    ) -> None:
        """Raise `PlaceFullError` if saving facts would exceed the number of current values."""
        if self.values is None:
            return
        keys: dict[str, set[Canonical]] = {}
        for fact in facts:
            keyword = fact["keyword"]
            new = {canonical(value) for _, value in values_of(fact)}
            held = keys.get(keyword, set(ledger.items(keyword, now)))
            is_one = fact["type"] == "SINGLE" and not ledger.is_wide(keyword, now)
            keys[keyword] = new if is_one else held | new
        before = len(ledger.confirmations(now))
        replaced = sum(len(ledger.items(keyword, now)) for keyword in keys)
        after = before - replaced + sum(map(len, keys.values()))
        if after > max(self.values, before):
            raise PlaceFullError(
                f"{str(Place.of_identity(identity))!r} may have {self.values} values and would "
                f"have {after}; nothing was saved. Forget some, or raise the limit"
            )

    def check_bytes(self, identity: Identity, size: int) -> None:
        """Raise `PlaceFullError` if a place of this size exceeds the limit."""
        if self.bytes is not None and size > self.bytes:
            raise PlaceFullError(
                f"{str(Place.of_identity(identity))!r} may use {self.bytes} bytes and would use "
                f"{size}; nothing was saved. Remove history with contents.tidy or messages of "
                "conversations, or raise the limit"
            )


def place_info(
    identity: Identity, ledger: Ledger, size: int, now: str, *, conversations: int = 0
) -> PlaceInfo:
    """Return the contents of a place of `size` bytes at `now`, a stamp."""
    place = Place.of_identity(identity)
    confirmed = ledger.confirmations(now)
    return PlaceInfo(
        scope=place.scope,
        subject=place.subject,
        count=len(confirmed),
        bytes=size,
        oldest=moment(min(confirmed)) if confirmed else None,
        newest=moment(max(confirmed)) if confirmed else None,
        concepts=tuple(ledger.keywords(now)),
        conversations=conversations,
    )


def in_order(found: Iterable[PlaceInfo]) -> list[PlaceInfo]:
    """Sort places by identity. A subject without an entity precedes those with one."""
    return sorted(found, key=lambda info: tuple(each or "" for each in info.place.identity))


def checked_page(after: Place | None, limit: int | None) -> tuple[Identity | None, int | None]:
    """Check the arguments of `list_places`, and return them for the backend."""
    first = None if after is None else expect(after, Place, "after", "after=page[-1]").identity
    if limit is not None and expect(limit, int, "limit", "limit=1000") < 1:
        raise InputValueError("limit must be at least 1: limit=1000")
    return first, limit


_SAVE = "await store.save(SingleFact(CONCEPT, value), subject, scope)"

NAMES = {
    "backup restore": "only LocalFileMemoryProvider has it: pg_dump, or export_facts(store, path)",
    "add put set insert write": f"{_SAVE}, or AgentMemory(store, ...).save(CONCEPT, value)",
    "get read value fetch": "await store.load(CONCEPT, subject, scope), or memory.value(CONCEPT)",
    "get_all all list items": "await store.load_all(subject, scope)",
    "search query recall find": "await AgentMemory(store, ...).recall(question)",
    "delete remove": "await store.forget(subject, scope, concept=CONCEPT), or store.erase",
    "close": "await store.aclose(), or async with",
}
"""The calls of `FactStore` by the names that other libraries have for them."""

ARGUMENTS = {"*": f"{_SAVE}, or AgentMemory(store, ...).of('alice').save(CONCEPT, value)"}

_FACTS = (SingleFact, MultipleFacts)


def stored_fact(fact: object) -> StoredFact:
    if isinstance(fact, _FACTS):  # a call costs as much as the rest of the usual way
        return stored(fact)
    return stored(expect(fact, _FACTS, "fact", "SingleFact(concept, value)"))


def stored_facts(facts: Iterable[AnyFact]) -> list[StoredFact]:
    if isinstance(facts, SingleFact | MultipleFacts):
        raise InputTypeError(
            "facts must be a list, not one fact: save_many([fact], ...) or save(fact)"
        )
    given = expect_all(facts, object, "facts", "[SingleFact(concept, value)]")
    return [stored_fact(fact) for fact in given]


def statements(facts: Iterable[AnyFact]) -> list[StoredFact]:
    stated = stored_facts(facts)
    for each in stated:
        each["stated"] = True
    return stated


def retracted_values(retracted: RetractedFact) -> list[RetractedValue]:
    """Return a retraction as an entry has it: one for each keyword of its concept."""
    expect(retracted, RetractedFact, "retracted", "RetractedFact(concept, value, said_at)")
    concept = checked_concept(retracted.concept)
    value = concept.codec.check(retracted.value, concept.keyword)
    said_at = stamp(utc(retracted.said_at, "moment said_at"))
    digest = digest_of(canonical(concept.codec.dump(value, concept.keyword)))
    made: RetractedValue = {"keyword": concept.keyword, "timestamp": said_at, "digest": digest}
    made["id"] = new_id()
    if retracted.is_proposed:
        made["proposed"] = True
    if (source := retracted.source) is not None:
        made["source"] = source_entry(replace(source, quote=None, before=None))
    return [{**made, "keyword": keyword} for keyword in concept.keywords]


def check_purge(purge: Purge) -> None:
    if not isinstance(purge, bool) and expect(purge, str, "purge", "purge=True") != "quotes":
        raise InputValueError("purge must be True, False or 'quotes': forget(..., purge='quotes')")


def check_span(keep_history: timedelta) -> None:
    example = "keep_history=timedelta(days=90)"
    expect_within(keep_history, timedelta, "keep_history", example, least=timedelta(0))


def stamp_of(as_of: datetime) -> str:
    return stamp(utc(as_of, "moment as_of"))


def check_progress(progress: Callable[[int, int], None] | None) -> None:
    """Raise TypeError unless a progress callback can be called."""
    if progress is not None:
        expect_function(progress, "progress", "progress=lambda done, total: print(done, total)")
