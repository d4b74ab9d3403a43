"""Configuration, listeners, start-up and shutdown: where the parts meet the operating system."""
