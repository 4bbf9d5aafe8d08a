"""The guide to the commands: their groups in the help, and two examples for each."""

GROUPS: dict[str, tuple[str, ...]] = {
    "Read": ("show", "recall", "places", "stats", "browse"),
    "Review": (
        "inbox",
        "approve",
        "reject",
        "correct",
        "undo",
        "review",
        "log",
        "diff",
        "watch",
        "history",
        "why",
    ),
    "Change": ("set", "forget", "erase"),
    "Change concepts": ("rename", "merge", "convert"),
    "Measure": ("eval",),
    "Move": ("import", "export", "mcp"),
    "Maintain": (
        "learn",
        "doctor",
        "verify",
        "anchor",
        "backup",
        "restore",
        "compact",
        "salvage",
        "keys",
    ),
}
"""The commands by what people want to do."""

EXAMPLES: dict[str, tuple[str, str]] = {
    "show": ("show alice", "show alice city --as-of 2026-03-01"),
    "recall": ('recall "Which pets has she?"', "recall pets --place alice --limit 1"),
    "places": ("places", "places --json"),
    "stats": ("stats", "stats --json"),
    "browse": ("browse", "--key-file store.key browse"),
    "review": (
        "review --name jane",
        "review --token-env REVIEW_SECRET --link reader --name tom --hours 2",
    ),
    "inbox": ("inbox", "inbox alice --since 1d"),
    "approve": ("approve alice plan", "approve alice pets --value Rex --name jane"),
    "reject": ("reject alice plan", 'reject alice pets --value Rex --reason "a joke"'),
    "correct": (
        'correct alice plan Silver --name jane --reason "she called"',
        "correct alice pets Rex --value Rax",
    ),
    "undo": ("undo 3fa2b1", 'undo 5c0e9d3fa2b1c4d7 --reason "the wrong user"'),
    "watch": ("watch alice", "watch --since 1h --json"),
    "log": ("log --since 1d", "log alice --limit 10"),
    "diff": ("diff alice 7d", "diff alice 2026-03-01 2026-04-01"),
    "history": ("history alice city", "history alice city --json"),
    "why": ("why alice city", "why product/my-app/user/alice city"),
    "set": (
        "set product/my-app/user/alice city Paris --type text",
        "set alice pets Rex",
    ),
    "forget": ("forget alice pets --value Rex", "forget alice --older-than 365d --purge"),
    "erase": ("erase alice", "erase product/my-app/user/alice --yes"),
    "rename": ("rename home-city city --dry-run", "rename home-city city --if-both later"),
    "merge": ("merge pets pet animals --if-both both", "merge pets pet --dry-run --json"),
    "convert": (
        "--concepts app:CONCEPTS convert age app:to_int --operation ages --dry-run",
        "--concepts app:CONCEPTS convert age app:to_int --operation ages --yes",
    ),
    "import": ("import facts.jsonl", "import people.csv --place product/my-app/user/alice"),
    "export": ("export facts.jsonl", "export alice.jsonl --place alice --no-history"),
    "mcp": ("mcp --user alice --read-only", "mcp --port 8000 --token-env MCP_TOKEN"),
    "learn": ("learn my_app:MEMORY --every 5", "learn my_app:MEMORY --retry --json"),
    "eval draft": (
        "eval draft chats.json --model ollama:qwen3",
        "eval draft chats.jsonl --model my_app:MODEL --out cases.jsonl",
    ),
    "eval accept": ("eval accept cases.jsonl", "eval accept cases.jsonl --yes"),
    "eval run": (
        "eval run cases.jsonl",
        "eval run cases.jsonl --memory my_app:MEMORY --out report.html",
    ),
    "eval compare": ("eval compare before.json after.json", "eval compare main.json branch.json"),
    "doctor": ("doctor", "--key-env FACTMEM_KEY doctor"),
    "verify": ("verify", "verify --anchor memory.anchor"),
    "anchor": ("anchor", "anchor --out memory.anchor"),
    "backup": ("backup memory-backup", "backup memory-backup --anchor safe.anchor"),
    "restore": ("restore memory-backup", "restore memory-backup --anchor safe.anchor"),
    "compact": ("compact --keep-history 90d", "compact alice"),
    "salvage": ("salvage memory-saved", "salvage memory-saved --json"),
    "keys list": ("keys list", "--key-file store.key keys list --json"),
    "keys add": ("keys add --key-file recovery.key", "keys add --passphrase"),
    "keys rotate": ("keys rotate --key-file new.key", "keys rotate --passphrase --no-rewrite"),
    "keys remove": ("keys remove --key-file old.key", "keys remove --key-env OLD_KEY --yes"),
    "keys generate": ("keys generate store.key", "keys generate store.key --json"),
}
"""Two examples for each command; the store comes from FACTMEM_STORE."""


def examples_of(name: str) -> str:
    """Return the examples of a command for the end of its help."""
    # \b keeps the lines of a paragraph.
    return "\b\nExamples:\n" + "\n".join(f"  factmem {each}" for each in EXAMPLES[name])
