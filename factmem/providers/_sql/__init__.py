"""The core of the stores in SQL databases: everything that SQLite and PostgreSQL have in common."""
