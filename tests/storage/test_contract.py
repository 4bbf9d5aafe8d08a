"""Both storages pass the contract, and the contract fails for wrong storages."""

import inspect
from pathlib import Path

import pytest

from factmem.storage.base import Storage
from factmem.storage.encrypted import EncryptedStorage
from factmem.storage.encryption.aes256gcm import Aes256GCMEncryptor
from factmem.storage.simple import SimpleStorage
from factmem.testing.storages import StorageContract
from tests.storage.stores import KEYS
from tests.storage.wrong_storages import WRONG


class TestSimpleStorage(StorageContract):
    @pytest.fixture
    def storage(self) -> Storage:
        return SimpleStorage()


class TestEncryptedStorage(StorageContract):
    @pytest.fixture
    def storage(self) -> Storage:
        return EncryptedStorage(Aes256GCMEncryptor(KEYS[0]))


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.__name__)
def test_a_wrong_storage_fails(wrong: type[Storage], tmp_path: Path) -> None:
    """Each test written for its fault fails, and no fixture does."""
    for number, test in enumerate(sorted(WRONG[wrong])):
        folder = tmp_path / str(number)
        folder.mkdir()

        with pytest.raises((AssertionError, pytest.fail.Exception)):
            _run(test, wrong(), folder / "store")


@pytest.mark.parametrize("test", sorted(set().union(*WRONG.values())))
def test_the_right_storage_passes(test: str, tmp_path: Path) -> None:
    """The same tests are run in the same way."""
    _run(test, SimpleStorage(), tmp_path / "store")


def _run(test: str, storage: Storage, folder: Path) -> None:
    """Call one test of the contract, with all its parameters and fixtures."""
    body = getattr(StorageContract(), test)
    marks = getattr(body, "pytestmark", [])
    parameters = [{mark.args[0]: value} for mark in marks for value in mark.args[1]] or [{}]
    for number, parameter in enumerate(parameters):
        own = folder.with_name(f"{folder.name}{number}")
        given = {"storage": storage, "folder": own, "journals": storage.open(own), **parameter}
        asked = inspect.signature(body).parameters
        body(**{name: given[name] for name in asked})
