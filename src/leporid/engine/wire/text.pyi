# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of text.pyx."""

def text_of(value: bytes, json: bool = False) -> str:
    """The encoded value of a field, its type first, as text or JSON; ValueError if it is none."""
