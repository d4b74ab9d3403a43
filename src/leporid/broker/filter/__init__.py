"""Filters of bindings and consumers, and the filter classes that administrators register."""
