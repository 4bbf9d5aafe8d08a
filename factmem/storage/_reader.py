"""Paths of journals."""


def journal_path(file: str) -> str:
    """Return where a journal's file stands, relative to the store."""
    return f"journals/{file}"
