"""Devices whose stores are in PostgreSQL or in folders, compared with what each of them did."""

import os
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from factmem.encryption import Aes256GCMEncryptor
from tests.postgres.conftest import NewStore
from tests.properties import examples
from tests.transfer.devices import Clock, Device, World, differences

HISTORIES = int(os.environ.get("HISTORIES", examples(30)))


class RealClock(Clock):
    """The time: the server has a clock of its own."""

    @property
    def now(self) -> datetime:
        return datetime.now(UTC)

    @now.setter
    def now(self, _: datetime) -> None:
        pass


async def test_devices_converge(new_store: NewStore, tmp_path: Path) -> None:
    """Every second store is on the server, of these every second one is encrypted."""

    class Mixed(World):
        async def add(self, name: str = "", clock: Clock | None = None) -> Device:
            device = await super().add(name, clock)
            count = len(self.devices)
            if count % 2:
                key = Aes256GCMEncryptor(Aes256GCMEncryptor.generate_key())
                given: Any = {"encryption": key} if count % 4 == 1 else {}
                store = new_store(store=f"{self.root.name}-{count}", **given)
                device.store = await self.stack.enter_async_context(store)
                device.path = self.root / "no such folder"  # so there are no backups
            return device

    wrong: list[str] = []
    for seed in range(HISTORIES):
        async with AsyncExitStack() as stack:
            root = tmp_path / str(seed)
            root.mkdir()
            wrong += await differences(Mixed(root, stack, RealClock()), seed)

    assert not wrong, f"{len(wrong)} in {HISTORIES} histories, the first: {wrong[0]}"
