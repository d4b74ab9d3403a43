"""Accounts: how many bytes a peer, its user, and all of them make the broker keep.

Responsible for the sums and their limits. It must not know what is kept, nor which fault a refusal
is. An account has a parent, up to that of the whole broker; what it is charged, they are. Sizes are
estimates: of an object, what it takes in memory, rounded up.

Invariants: an account has at least the bytes of the accounts below it; a charge that one of them
refuses changes none.
"""

from libc.stdint cimport UINT64_MAX, uint64_t


cdef class Account:
    """What one of them keeps.

    Args:
        title: whose it is, for texts: "connection", "user 'x'".
        limit: bytes that it may keep; None: no limit of its own.
        parent: the account that it counts in; None: there is none.
    """

    def __cinit__(self, str title not None, limit=None, Account parent=None):
        self.title = title
        self.limit = UINT64_MAX if limit is None else limit
        self.parent = parent

    def __repr__(self):
        return f"<Account of {self.title} bytes={self.bytes}>"

    cpdef Account over(self, uint64_t size):
        """The account whose limit so many more bytes would exceed; None: there is none."""
        cdef Account account = self
        while account is not None:
            if size > account.limit or account.bytes > account.limit - size:
                return account
            account = account.parent
        return None

    cpdef Account refusing(self, uint64_t size):
        """The account that is full, or whose limit so many more bytes would exceed; or None."""
        cdef Account account = self
        while account is not None:
            if account.full:
                return account
            account = account.parent
        return self.over(size)

    cpdef Account charge(self, uint64_t size):
        """Count bytes, unless an account refuses them: it is returned, and nothing changes."""
        cdef Account found = self.refusing(size)
        if found is None:
            self.add(size)
        return found

    cpdef int add(self, uint64_t size) except -1:
        """Count bytes that are there anyway, such as definitions that a restart finds."""
        cdef Account account = None if self.closed else self
        while account is not None:
            account.bytes += size
            account = account.parent
        return 0

    cpdef int release(self, uint64_t size) except -1:
        """These bytes are kept no more."""
        cdef Account account = self
        if self.closed:
            return 0
        if size > self.bytes:
            raise ValueError(f"{self.title} keeps {self.bytes} bytes and cannot release {size}")
        while account is not None:
            account.bytes -= size
            account = account.parent
        return 0

    def move(self, Account parent not None):
        """Count in another parent from now on, as when a connection has logged in."""
        if self.parent is not None:
            self.parent.release(self.bytes)
        self.parent = parent
        parent.add(self.bytes)

    def close(self):
        """Whose it is has gone, with all that was kept: nothing is counted any more."""
        self.release(self.bytes)
        self.parent = None
        self.closed = True

    def text(self, uint64_t size):
        """Say why so many more bytes are refused, with the limit's value."""
        if self.full:
            return "the broker is above its memory watermark (memory_watermark)"
        return f"{self.title} keeps {self.bytes} bytes, and may keep {self.limit}; {size} more"
