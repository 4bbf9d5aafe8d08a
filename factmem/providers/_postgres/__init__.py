"""Places in a PostgreSQL database: connections, schema, sealing, reads and writes."""
