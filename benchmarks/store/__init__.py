"""The speed of the stores, beside a raw fsync, SQLite and LangGraph's SQLite store."""
