"""What a binding of a headers exchange asks of a message's headers: all terms, or any of them.

Responsible for comparing values as `leporid.amqp.values.comparable` does, which is what RabbitMQ
does: numbers by their value, whatever their types are, text and octets by their bytes. It must not
know `x-match`, nor what else is bound. Of several headers with one name the first counts. A message
costs one walk over its headers, however many terms there are. Arrays, tables and numbers that no
64 bits hold are left to Python. Invariant: the answer is the same as that of the terms compared one
by one there.
"""

from libc.stdint cimport INT64_MAX, INT64_MIN, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE

from leporid.engine.selectors.filter cimport Filter
from leporid.engine.selectors.machine cimport (
    NUMBER, Operand, TEXT_VALUE, order_numerics, same_text, set_field, set_integer, set_number,
    set_text,
)
from leporid.engine.wire.codec cimport (
    FIELD_BOOLEAN, FIELD_DECIMAL, FIELD_DOUBLE, FIELD_FLOAT, FIELD_INTEGER, FIELD_TEXT, FIELD_TIME,
    Field, Value, headers_in, next_field, read_value,
)
from leporid.engine.wire.hashing cimport hash_hidden, keep_secret

keep_secret()

cdef extern from *:
    uint32_t NO_TERM "UINT32_MAX"

cdef enum:
    WORD = 64

cdef double INT64_END = 9223372036854775808.0   # the least double above every int64_t


cdef class HeaderMatch(Filter):
    """Lets those messages pass whose headers meet terms.

    Args:
        terms: (name, wanted) of each: what `comparable` makes of a value and `can_compare` allows,
            or None: the header is to be there. No name stands twice.
        any: whether one term is enough.

    Raises:
        ValueError: a term wants something else.
    """

    def __cinit__(self, terms, bint any):
        cdef uint32_t at, size = 1
        cdef HeaderTerm *term
        cdef bytes name
        self.kept, self.any = tuple(terms), any
        self.count = <uint32_t> len(self.kept)
        while size < 2 * self.count:
            size *= 2
        self.mask = size - 1
        self.terms = <HeaderTerm *> calloc(max(1, self.count), sizeof(HeaderTerm))
        self.buckets = <uint32_t *> calloc(size, sizeof(uint32_t))
        if self.terms == NULL or self.buckets == NULL:
            raise MemoryError("no memory for the terms of a binding")
        for at in range(size):
            self.buckets[at] = NO_TERM
        for at, (name, wanted) in enumerate(self.kept):
            term = &self.terms[at]
            term.name, term.length = <const uint8_t *> PyBytes_AS_STRING(name), <uint8_t> len(name)
            term.hash = hash_hidden(term.name, term.length)
            term.next = self.buckets[term.hash & self.mask]
            self.buckets[term.hash & self.mask] = at
            self.lengths |= <uint64_t> 1 << (term.length & (WORD - 1))
            set_wanted(term, wanted)

    def __dealloc__(self):
        free(self.terms)
        free(self.buckets)

    def __len__(self):
        return self.count

    cdef int matches(self, const uint8_t *names, size_t names_len, const uint8_t *properties,
                     size_t properties_len) noexcept nogil:
        cdef const uint8_t *end = NULL
        cdef const uint8_t *p = headers_in(properties, properties_len, &end)
        cdef const HeaderTerm *term
        cdef Field field
        cdef uint64_t few = 0
        cdef uint64_t *seen = &few
        cdef uint32_t left = self.count, at
        cdef int outcome = 0
        if not left:
            return not self.any
        if left > WORD:
            seen = <uint64_t *> calloc(left // WORD + 1, sizeof(uint64_t))
            if seen == NULL:
                return 0
        while p != NULL and p < end and not next_field(&p, end, &field):
            if not self.lengths >> (field.length & (WORD - 1)) & 1:
                continue
            term = self.find(&field)
            if term == NULL:
                continue
            at = <uint32_t> (term - self.terms)
            if seen[at // WORD] >> (at % WORD) & 1:
                continue
            seen[at // WORD] |= <uint64_t> 1 << (at % WORD)
            left -= 1
            if self.holds(term, &field):
                if self.any or not left:
                    outcome = 1
                    break
            elif not self.any or not left:
                break
        if seen != &few:
            free(seen)
        return outcome

    cdef const HeaderTerm *find(self, const Field *field) noexcept nogil:
        cdef uint64_t hash = hash_hidden(field.name, field.length)
        cdef uint32_t at = self.buckets[hash & self.mask]
        cdef const HeaderTerm *term
        while at != NO_TERM:
            term = &self.terms[at]
            if term.hash == hash and term.length == field.length and not memcmp(
                    term.name, field.name, term.length):
                return term
            at = term.next
        return NULL

    cdef bint holds(self, const HeaderTerm *term, const Field *field) noexcept nogil:
        """Whether a header is what a term of its name wants."""
        cdef Value value
        cdef Operand number
        if term.kind == IS_THERE:
            return True
        value = read_value(field.type, field.content)
        if term.kind == IS_BOOLEAN:
            return value.kind == FIELD_BOOLEAN and value.integer == term.value.integer
        if term.kind == IS_DECIMAL:
            return (value.kind == FIELD_DECIMAL and value.integer == term.value.integer
                    and value.scale == term.scale)
        if value.kind == FIELD_TEXT or term.value.kind == TEXT_VALUE:
            return value.kind == FIELD_TEXT and term.value.kind == TEXT_VALUE and same_text(
                &term.value, field.content, field.size)
        if value.kind == FIELD_TIME and value.seconds > INT64_MAX:
            return (term.value.kind == NUMBER and INT64_END <= term.value.number < 2 * INT64_END
                    and <uint64_t> term.value.number == value.seconds)
        if value.kind not in (FIELD_INTEGER, FIELD_TIME, FIELD_FLOAT, FIELD_DOUBLE):
            return False
        set_field(&number, field.type, field.content, field.size)
        return not order_numerics(&term.value, &number)


def can_compare(wanted):
    """Whether a term may want this: no array or table, and no whole number beyond 64 bits."""
    if type(wanted) is int:
        return INT64_MIN <= wanted <= INT64_MAX
    return type(wanted) in (bytes, float, str) or is_decimal(wanted)


cdef bint is_decimal(object wanted):
    """Scale and digits, as no array or table begins with a number."""
    return len(wanted) == 2 and type(wanted[0]) is int and type(wanted[1]) is int


cdef int set_wanted(HeaderTerm *term, object wanted) except -1:
    """Note what a term wants."""
    if wanted is None:
        term.kind = IS_THERE
        return 0
    if not can_compare(wanted):
        raise ValueError(f"{wanted!r} is not compared here")
    term.kind = IS_VALUE
    if type(wanted) is bytes:
        set_text(&term.value, <const uint8_t *> PyBytes_AS_STRING(wanted),
                 <uint32_t> PyBytes_GET_SIZE(wanted))
    elif type(wanted) is int:
        set_integer(&term.value, wanted)
    elif type(wanted) is float:
        set_number(&term.value, wanted)
    elif type(wanted) is str:
        term.kind, term.value.integer = IS_BOOLEAN, wanted == "true"
    else:
        term.kind, term.scale, term.value.integer = IS_DECIMAL, wanted[0], wanted[1]
    return 0
