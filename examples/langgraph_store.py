"""A LangGraph store in an encrypted folder. Needs `factmem[langgraph]`."""

from importlib.util import find_spec

if find_spec("langgraph") is None:
    raise SystemExit("This example needs more: pip install 'factmem[langgraph]'")


from tempfile import TemporaryDirectory

from factmem import Aes256GCMEncryptor, AgentMemory, EncryptedStorage, Key, LocalFileMemoryProvider
from factmem.integrations.langgraph import FactmemStore
from factmem.sync import LocalStoreSync


def main(folder: str) -> None:
    """Put items, close the folder, open it again and search it; all without `await`."""
    key = Key.generate()
    storage = EncryptedStorage(Aes256GCMEncryptor(key))
    with LocalStoreSync(LocalFileMemoryProvider(folder, storage=storage)) as provider:
        store = FactmemStore(AgentMemory(provider.wrapped))
        store.put(("users", "alice"), "router", {"text": "The router is an X200."})
        store.put(("users", "alice"), "bike", {"text": "She owns a bike."})
        store.put(("users", "bob"), "editor", {"text": "He uses vim."})

    storage = EncryptedStorage(Aes256GCMEncryptor(key))
    with LocalStoreSync(LocalFileMemoryProvider(folder, storage=storage)) as provider:
        store = FactmemStore(AgentMemory(provider.wrapped))
        print(store.list_namespaces())
        for item in store.search(("users", "alice"), query="Which router?", limit=1):
            print(item.key, item.value)
        print(store.search(("users", "bob"), filter={"text": "He uses vim."})[0].key)


if __name__ == "__main__":
    with TemporaryDirectory() as made:
        main(made)
