"""How journals of records are kept in local files."""
