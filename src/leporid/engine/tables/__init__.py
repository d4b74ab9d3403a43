"""Arrow tables: columns read in place, columns made of records."""
