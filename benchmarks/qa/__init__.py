"""Questions about conversations, answered by a model: with and without a memory."""
