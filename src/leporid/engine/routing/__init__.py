"""Routing: routes, route caches, conditional routes, topic patterns, consistent hashing."""
