"""Turning texts into vectors: what factmem asks of an embedder, and embedders for what is in use."""
