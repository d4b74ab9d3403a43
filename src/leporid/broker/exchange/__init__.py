"""Exchanges: their types, their bindings, where messages go, and what exchanges keep."""
