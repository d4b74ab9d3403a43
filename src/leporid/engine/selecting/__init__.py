"""Consumers with filters: who gets which message of a queue, and what a filter class is asked."""
