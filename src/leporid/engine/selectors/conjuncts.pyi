# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of conjuncts.pyx, which the engine alone calls."""
