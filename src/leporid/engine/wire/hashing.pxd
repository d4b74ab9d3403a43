"""A hash for tables that peers fill; each module that has such tables calls `hide_hashes` once."""

from libc.stdint cimport int64_t, uint8_t, uint64_t

cdef extern from "hashing.h" nogil:
    void hide_hashes(uint64_t one, uint64_t other)
    uint64_t hash_hidden(const uint8_t *p, size_t n)


cdef inline int keep_secret() except -1:
    """Python's own hashes of bytes are another in each process, unless it is told otherwise."""
    hide_hashes(<uint64_t> <int64_t> hash(b"leporid"), <uint64_t> <int64_t> hash(b"dilepor"))
    return 0
