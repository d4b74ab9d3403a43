"""Connections, channels and consumers: frames in and out, settling, confirms, transactions."""
