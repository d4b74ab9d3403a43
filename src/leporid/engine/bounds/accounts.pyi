# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of accounts.pyx."""

class Account:
    """How many bytes somebody makes the broker keep."""

    limit: int
    full: bool
    """Nothing more is kept: the broker is above its watermark."""

    def __init__(
        self, title: str, limit: int | None = None, parent: Account | None = None
    ) -> None: ...
    @property
    def title(self) -> str: ...
    @property
    def parent(self) -> Account | None: ...
    @property
    def bytes(self) -> int:
        """What it and the accounts below it have been charged."""

    def over(self, size: int) -> Account | None:
        """The account whose limit so many more bytes would exceed; None: there is none."""

    def refusing(self, size: int) -> Account | None:
        """The account that is full, or whose limit so many more bytes would exceed; or None."""

    def charge(self, size: int) -> Account | None:
        """Count bytes, unless an account refuses them: it is returned, and nothing changes."""

    def add(self, size: int) -> int:
        """Count bytes that are there anyway, such as definitions that a restart finds."""

    def release(self, size: int) -> int:
        """These bytes are kept no more."""

    def move(self, parent: Account) -> None:
        """Count in another parent from now on, as when a connection has logged in."""

    def close(self) -> None:
        """Whose it is has gone, with all that was kept: nothing is counted any more."""

    def text(self, size: int) -> str:
        """Say why so many more bytes are refused, with the limit's value."""
