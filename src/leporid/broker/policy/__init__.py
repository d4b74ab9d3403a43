"""Policies: what they say, which of them governs, and what follows when they change."""
