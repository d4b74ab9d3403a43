"""Arrow tables: records as columns, columns as messages."""
