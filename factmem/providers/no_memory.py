"""NoMemory, the store of an agent without memory. It stores nothing."""

# pyright: reportPrivateUsage=false

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from logging import getLogger
from typing import TYPE_CHECKING, Any, TypeVar

from anyio.lowlevel import checkpoint
from typing_extensions import override

from factmem.ledger.entries import Entry, keywords_of
from factmem.ledger.ledger import Ledger
from factmem.models.places import Identity, Place
from factmem.models.when import StoreClock, TimeProvider, system_clock
from factmem.providers._backend import Decision, Erased, Extension, Present, Unread
from factmem.providers._definitions import Told, checked_told
from factmem.providers.conversation_store import ConversationStore
from factmem.providers.store import FactStore

if TYPE_CHECKING:
    from factmem.providers._sql.conversations import StoredConversations

__all__ = ["NoMemory"]

R = TypeVar("R")

_logger = getLogger(__name__)


class NoMemory(FactStore):
    """A `FactStore` that stores nothing and returns nothing.

    It raises the same exceptions for wrong calls as every other store, so an application that works
    with it also works with memory. At debug level it logs each call with the names of the place and
    of the saved concepts. Safe for any number of tasks and threads.

    Args:
        clock: Returns the time for the receipts of `erase`; the system clock by default.
    """

    def __init__(self, *, clock: TimeProvider = system_clock) -> None:
        backend = _Nothing(StoreClock(clock))
        super().__init__(backend)
        self._conversations = ConversationStore(backend, backend, self._enter_place, None)
        self._clock = clock

    @override
    async def define(self, concepts: Iterable[Told]) -> None:
        checked_told(concepts)
        await checkpoint()

    @override
    async def begin(self, operation: str) -> datetime:
        await checkpoint()
        return self._clock()


class _Nothing:
    """A backend to which nothing is ever added."""

    _nothing = Ledger()

    def __init__(self, clock: StoreClock) -> None:
        self._clock = clock

    def warm(self, identity: Identity, present: Present[R | None]) -> R | None:
        return None

    async def present(
        self,
        identity: Identity,
        present: Present[R],
        *,
        until: str | None = None,
        keyword: str | None = None,
    ) -> R:
        await _called("load", identity)
        return present(self._nothing, self._clock.now())

    async def entries(self, identity: Identity, use: Callable[[list[Entry]], R]) -> R:
        await _called("entries", identity)
        return use([])

    async def unread(
        self, known: Mapping[Identity, object], use: Callable[[Mapping[Identity, Unread]], R]
    ) -> R:
        await checkpoint()
        return use({})

    async def append(
        self, identity: Identity, entry: dict[str, Any], *, since: object = None
    ) -> None:
        await _called("save", identity, *keywords_of(entry))

    async def change(self, identity: Identity, decide: Decision) -> int:
        await _called("forget", identity)
        return 0

    async def extend(
        self, identity: Identity, extend: Extension, *, since: str | None = None
    ) -> int:
        extend([], self._clock.recording())  # this checks the entries
        await _called("append", identity)
        return 0

    async def erase(self, identity: Identity, *, only_empty: bool = False) -> Erased:
        await _called("erase", identity)
        return Erased(self._clock.now(), 0, 0)

    async def _none(self, *_: Any, **__: Any) -> None:
        await checkpoint()

    async def _empty(self, *_: Any, **__: Any) -> list[Any]:
        await checkpoint()
        return []

    moment = read_index = close = _none
    places = identities = _empty

    async def write_index(self, identity: Identity, index: bytes, version: str) -> bool:
        await checkpoint()
        return False

    async def converse(self, call: "Callable[[StoredConversations], R]") -> R:
        from factmem.providers.in_memory import InMemoryProvider

        # Its conversations are those of a store that is lost with the call.
        stored = InMemoryProvider()._conversations
        assert stored is not None  # noqa: S101 - such a store has them
        return await stored._stored.converse(call)

    def is_unchanged(self, place: Identity, since: object) -> bool:
        return False


async def _called(action: str, identity: Identity, *keywords: str) -> None:
    await checkpoint()
    if _logger.isEnabledFor(10):
        place = Place.of_identity(identity)
        _logger.debug("NoMemory: %s", " ".join((action, str(place), *keywords)))
