"""Connections and channels as the rules see them, and the methods that come on them."""
