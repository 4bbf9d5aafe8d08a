"""Conformance suites for stores in a folder of files.

Subclass `DurableStoreContract` as `TestMyStore`, and `EncryptedStoreContract` if it can be encrypted.
Override `open_store` and `tampered`. The suites know no file names: they read, copy, move and delete
the folder as a whole, start other processes on it, and fork. Most tests are asynchronous, as those of
`factmem.testing.providers` are.
"""

from factmem.testing._contracts.disks import AnyNames, FullDisks, ReadOnlyFolders
from factmem.testing._contracts.erasing import Erasing
from factmem.testing._contracts.folders import StoreFolder
from factmem.testing._contracts.rollback import Damage, RollingBack, Tampering
from factmem.testing._contracts.rotation import Rotating
from factmem.testing._contracts.sharing import Sharing

__all__ = ["Damage", "DurableStoreContract", "EncryptedStoreContract", "StoreFolder"]


class DurableStoreContract(
    Erasing, Sharing, RollingBack, Tampering, FullDisks, ReadOnlyFolders, AnyNames
):
    """The contract of a store in a folder that any number of processes share.

    Override `open_store`, which other processes call too, and `tampered`. Override the fixture
    `folder` if the folder of the store cannot be anywhere.
    """


class EncryptedStoreContract(Rotating, DurableStoreContract):
    """The contract of an encrypted store in a folder, which includes that of a plain one."""

    is_encrypted = True
