"""Chat models: the protocol, and one for every endpoint that speaks OpenAI's API."""
