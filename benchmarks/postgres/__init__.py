"""factmem in PostgreSQL, compared with LangGraph's AsyncPostgresStore."""
