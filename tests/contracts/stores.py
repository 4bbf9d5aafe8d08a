"""The contract of `FactStore`, which every kind of store passes."""

from factmem.testing.providers import ProviderContract
from tests.contracts.amending import Amending
from tests.contracts.batches import Batches
from tests.contracts.changes import Changes, Versions
from tests.contracts.conversations import Queue, TurnChanges, Turns
from tests.contracts.definitions import Definitions
from tests.contracts.forgetting import Forgetting, Purging
from tests.contracts.history import History
from tests.contracts.indexes import Indexes
from tests.contracts.instances import SecondInstances
from tests.contracts.metadata import FactMetadata, Rewriting
from tests.contracts.places import Closing, Places
from tests.contracts.renaming import Renaming
from tests.contracts.replay import Replay
from tests.contracts.reviewing import Reviewing
from tests.contracts.statements import Statements
from tests.contracts.time import Clocks, Expiry, LookingBack
from tests.contracts.validity import ValidTime


class FactStoreContract(
    SecondInstances,
    Batches,
    Forgetting,
    Purging,
    Expiry,
    Clocks,
    LookingBack,
    ValidTime,
    History,
    Renaming,
    Places,
    Replay,
    Amending,
    FactMetadata,
    Rewriting,
    Closing,
    Versions,
    Indexes,
    Changes,
    Statements,
    Reviewing,
    ProviderContract,
):
    """The contract of `FactStore`, which includes that of a provider.

    Conversations are left out: `WholeStoreContract` has them. Override `make_provider`. If creating
    a store needs other fixtures, override the fixture `provider`
    instead: request the fixture `clock` there and pass it to the store. If two instances can share
    their data, override the fixture `second` too: it returns another instance on the data of
    `provider`, on the same clock.

    """


class WholeStoreContract(Turns, TurnChanges, Queue, Definitions, FactStoreContract):
    """The contract of a store that keeps conversations and definitions of concepts too."""
