# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of credit.pyx."""

class Credit:
    """So many unsettled deliveries; made by `Channel.credit`."""

    def __init__(self, limit: int) -> None: ...
    @property
    def limit(self) -> int: ...
    @property
    def used(self) -> int: ...
