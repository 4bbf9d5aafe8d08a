"""A typed fact store for AI agents."""
