"""The speed of factmem's stores, compared with a raw fsync, SQLite and LangGraph's SQLite store."""
