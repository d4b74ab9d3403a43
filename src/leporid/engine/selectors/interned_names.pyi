# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of interned_names.pyx."""

class InternedNames:
    """Names by id, and ids by name."""

    def __len__(self) -> int: ...
