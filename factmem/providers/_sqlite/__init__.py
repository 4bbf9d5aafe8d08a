"""The store in a folder: its SQLite database, and what protects the files of the database."""
