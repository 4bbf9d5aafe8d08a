"""factmem in PostgreSQL beside LangGraph's AsyncPostgresStore."""
