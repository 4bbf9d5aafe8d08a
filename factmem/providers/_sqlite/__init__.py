"""The store in a folder: an SQLite database, and the protection of its files."""
