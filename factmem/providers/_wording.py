"""The calls of `FactStore` by the names that other libraries have for them."""

_SAVE = "await store.save(SingleFact(CONCEPT, value), subject, scope)"

NAMES = {
    "add put set insert write": f"{_SAVE}, or AgentMemory(store, ...).save(CONCEPT, value)",
    "get read value fetch": "await store.load(CONCEPT, subject, scope), or memory.value(CONCEPT)",
    "get_all all list items": "await store.load_all(subject, scope)",
    "search query recall find": "await AgentMemory(store, ...).recall(question)",
    "delete remove": "await store.forget(subject, scope, concept=CONCEPT), or store.erase",
    "close": "await store.aclose(), or async with",
}

ARGUMENTS = {"*": f"{_SAVE}, or AgentMemory(store, ...).of('alice').save(CONCEPT, value)"}
