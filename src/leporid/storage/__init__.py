"""What survives a restart: the log files, and the definitions in SQLite."""
