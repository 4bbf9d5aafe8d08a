"""The contracts of stores, one topic a file: `stores` collects those of every store, `durable` those of folders."""
