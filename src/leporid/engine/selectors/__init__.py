"""Filters as the engine runs them: one, several together, many at once."""
