"""NoMemory, the store of an agent without memory. It stores nothing."""

# pyright: reportPrivateUsage=false, reportUnknownLambdaType=false

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from logging import getLogger
from typing import TYPE_CHECKING, Any, TypeVar

from anyio.lowlevel import checkpoint
from typing_extensions import override

from factmem.ledger.entries import keywords_of
from factmem.ledger.ledger import Ledger
from factmem.models.places import Identity, Place
from factmem.models.when import StoreClock, TimeProvider, system_clock
from factmem.providers._backend import Erased, Extension, Present, Unread
from factmem.providers._definitions import Definition, checked_definitions
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
    async def define(self, concepts: Iterable[Definition]) -> None:
        checked_definitions(concepts)
        await checkpoint()

    @override
    async def begin(self, operation: str) -> datetime:
        await checkpoint()
        return self._clock()


def _answered(action: str, answer: Callable[..., Any]) -> Any:
    """Return a method that logs its call and answers it, without keyword arguments."""

    async def method(self: "_Nothing", identity: Identity, *given: Any, **_: Any) -> Any:
        await checkpoint()
        if _logger.isEnabledFor(10):
            named = keywords_of(given[0]) if action == "save" else ()
            place = Place.of_identity(identity)
            _logger.debug("NoMemory: %s", " ".join((action, str(place), *named)))
        return answer(self, *given)

    return method


class _Nothing:
    """A backend to which nothing is ever added."""

    _nothing = Ledger()

    def __init__(self, clock: StoreClock) -> None:
        self._clock = clock

    def warm(self, identity: Identity, present: Present[R | None]) -> R | None:
        return None

    present = _answered("load", lambda self, present: present(self._nothing, self._clock.now()))
    entries = _answered("entries", lambda _, use: use([]))
    append = _answered("save", lambda _, entry: None)
    change = _answered("forget", lambda _, decide: 0)
    erase = _answered("erase", lambda self: Erased(self._clock.now(), 0, 0))

    def _extended(self, extend: Extension) -> int:
        extend([], self._clock.recording())  # this checks the entries
        return 0

    extend = _answered("append", _extended)

    async def unread(self, known: object, use: Callable[[Mapping[Identity, Unread]], R]) -> R:
        await checkpoint()
        return use({})

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

        # A new empty store answers, and is dropped after the call.
        stored = InMemoryProvider()._conversations
        assert stored is not None  # noqa: S101 - such a store has them
        return await stored._stored.converse(call)

    def is_unchanged(self, place: Identity, since: object) -> bool:
        return False
