"""Conformance suites for stores in a folder of files.

Subclass `DurableStoreContract` as `TestMyStore`, and once more with `is_encrypted = True` if it can be
encrypted. Override `open_store`. The suites know no file names: they read, copy, move and delete
the folder as a whole, start other processes on it, and fork. `tests.storms` damages it. Most tests are asynchronous, as those of
`factmem.testing.providers` are.
"""

from typing import Any

from tests.contracts.disks import ReadOnlyFolders
from tests.contracts.erasing import Erasing
from tests.contracts.folders import StoreFolder
from tests.contracts.rollback import RollingBack
from tests.contracts.rotation import Rotating
from tests.contracts.sharing import Sharing

__all__ = ["DurableStoreContract", "StoreFolder"]


class DurableStoreContract(Erasing, Sharing, RollingBack, ReadOnlyFolders, Rotating):
    """The contract of a store in a folder that any number of processes share.

    Override `open_store`, which other processes call too. Override the fixture
    `folder` if the folder of the store cannot be anywhere. With `is_encrypted = True` it is the contract
    of an encrypted store, which includes rotations of its key.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        """Leave out the tests of keys if there are none."""
        super().__init_subclass__(**options)
        for name in vars(Rotating):
            if name.startswith("test_"):
                setattr(cls, name, getattr(Rotating, name) if cls.is_encrypted else None)
