"""The core of the stores in SQL databases: all that SQLite and PostgreSQL have in common."""
