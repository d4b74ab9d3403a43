"""C declarations of `hashing.h`; each module that hashes keys of peers calls `keep_secret` once."""

from libc.stdint cimport int64_t, uint8_t, uint64_t

cdef extern from "hashing.h" nogil:
    void hide_hashes(uint64_t one, uint64_t other)
    uint64_t hash_hidden(const uint8_t *p, size_t n)
    uint64_t hash_pair(uint64_t a, uint64_t b)
    uint64_t hash_key(const uint8_t *p, size_t n)


cdef inline int keep_secret() except -1:
    """Take the secrets from Python's hash of bytes, which is keyed differently in each process."""
    hide_hashes(<uint64_t> <int64_t> hash(b"leporid"), <uint64_t> <int64_t> hash(b"dilepor"))
    return 0
