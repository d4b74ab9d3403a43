# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of members.pyx, which the engine alone calls."""
