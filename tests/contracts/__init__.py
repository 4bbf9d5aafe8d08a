"""The contracts of stores: `stores` collects those of every store, `durable` those of folders."""
