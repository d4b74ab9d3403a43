"""Consumers with filters: selector groups, scan groups, messages that wait for verdicts."""
