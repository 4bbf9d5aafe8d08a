"""The calls of `AgentMemory` by the names that mem0, LangMem, SQLModel and dicts have for them."""

_SAVE = "await memory.save(CONCEPT, value), or memory.remember(text) with a chat model"
_CURRENT = "await memory.current() returns all facts, memory.value(CONCEPT) one value"
_FORGET = (
    "await memory.clear(CONCEPT), memory.contents.forget(concept=...), contents.delete(fact_id)"
)

NAMES = {
    "add put set insert create write store_fact upsert": _SAVE,
    "commit flush": "a fact is durable when await memory.save(CONCEPT, value) returns",
    "get read get_value fetch": "await memory.value(CONCEPT)",
    "get_all all list load load_all facts items": _CURRENT,
    "search query find retrieve similarity_search": "await memory.recall(question)",
    "get_context context prompt": "await memory.text(), or memory.load_facts_to_agent(messages)",
    "delete forget remove pop": _FORGET,
    "delete_all reset clear_all erase": "await memory.contents.reset(confirm=True)",
    "history": "await memory.why(fact), or memory.contents.history(fact_id)",
    "update": "await memory.save(CONCEPT, value), or memory.contents.update(fact_id, value=...)",
    "keys concepts": "await memory.contents.concepts()",
    "export": "await memory.contents.export(path), or export_facts(memory.store, path)",
    "learn pending": "await memory.conversations.learn(), memory.conversations.pending()",
    "close": "await memory.aclose(), or async with AgentMemory.open(...) as memory:",
    "*": "await memory.value(CONCEPT), current(), recall(question), save(CONCEPT, value) and "
    "memory.contents read and write facts",
}

_OF = "memory.of('alice') is the memory of one user, with the same methods"
_FACT = "await memory.store.save(SingleFact(CONCEPT, value, ...), subject, scope) has all fields"

ARGUMENTS = {
    "user user_id entity agent_id run_id": f"{_OF}; AgentMemory.open(folder, user='alice')",
    "subject scope": f"{_OF}; {_FACT}",
    "timestamp metadata source importance expires_at since until": _FACT,
    "top_k k n": "limit=5",
    "filters filter": "where=RecallFilter(...), from factmem.recall",
    "llm model": "chat_model=OpenAIChatModel(name)",
    "default": "await memory.value(CONCEPT) or default",
    "store": "AgentMemory(store, scopes=..., subjects=...)",
}

CALLS = (
    "__init__", "open", "view", "of", "text", "conversation", "current", "value", "values", "clear",
    "save", "edit", "note", "why", "remember", "auto_detect_facts", "recall", "load_facts_to_agent",
    "recall_facts_to_agent", "documents", "tools",
)  # fmt: skip

ITEMS = (
    "await memory.value(CONCEPT), save(CONCEPT, value), clear(CONCEPT); current() lists all facts"
)
