"""How well, and how fast, recall finds the facts that a question is about."""
