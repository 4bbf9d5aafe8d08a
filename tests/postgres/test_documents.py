"""Documents in PostgreSQL: edits of several processes, and what an edit reads."""

from factmem.memory.agent_memory import AgentMemory
from factmem.models.places import MemoryScope
from factmem.testing._facts import USER
from tests.memory.document_editor import check_that_no_edit_is_lost
from tests.postgres.conftest import NewStore

NOTES = MemoryScope.Feature("notes")


async def test_edits_by_several_processes_lose_nothing(dsn: str, store: str) -> None:
    await check_that_no_edit_is_lost(f"{dsn} {store}")


async def test_documents_are_written_moved_and_removed(new_store: NewStore) -> None:
    """In two stores at once, as two hosts see them."""
    async with new_store() as one, new_store() as two:
        first = AgentMemory(one, subjects=[USER]).documents(NOTES)
        second = AgentMemory(two, subjects=[USER]).documents(NOTES)
        await first.write("/a.md", "text")
        assert await second.edit("/a.md", str.upper) == "TEXT"
        await first.rename("/a.md", "/folder/b.md")
        assert await second.texts() == {"/folder/b.md": "TEXT"}
        assert await second.remove("/folder") == 1
        assert await first.infos() == []
        assert [len(await first.history(path)) for path in ("/a.md", "/folder/b.md")] == [3, 2]
