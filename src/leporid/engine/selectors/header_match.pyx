"""What a binding of a headers exchange asks of a message's headers: all terms, or any of them.

Responsible for comparing values as `leporid.amqp.values.comparable` does, which is what RabbitMQ
does: numbers by their value, whatever their types are, text and octets by their bytes. It must not
know `x-match`, nor what else is bound. Of several headers with one name the first counts. A message
costs one walk over its headers, however many terms there are. Invariant: the answer is the same as
that of the terms compared one by one in Python; what only Python can compare is compared there.
"""

from libc.stdint cimport INT64_MAX, INT64_MIN, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE

from leporid.engine.selectors.filter cimport Filter
from leporid.engine.selectors.machine cimport (
    BOOLEAN, Operand, TEXT_VALUE, order_numerics, same_text, set_field, set_integer, set_number,
    set_text,
)
from leporid.engine.wire.codec cimport (
    FIELD_BOOLEAN, FIELD_DOUBLE, FIELD_FLOAT, FIELD_INTEGER, FIELD_TEXT, FIELD_TIME, Field, Value,
    headers_in, next_field, read_value,
)
from leporid.engine.wire.hashing cimport hash_hidden, keep_secret

from leporid.amqp.tables import decode_table
from leporid.amqp.values import comparable

keep_secret()

cdef extern from *:
    uint32_t NO_TERM "UINT32_MAX"

cdef enum:
    WORD = 64
    SIZE_BYTES = 4              # of a text, a table, an array, before their content


cdef class HeaderMatch(Filter):
    """Lets those messages pass whose headers meet terms.

    Args:
        terms: (name, wanted) of each: what `comparable` makes of a value, or None: the header is to
            be there. No name stands twice.
        any: whether one term is enough.
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
        if term.kind == IS_TERM or (value.kind == FIELD_TIME and value.seconds > INT64_MAX):
            return self.is_equal(term, field)
        if value.kind == FIELD_TEXT:
            return term.value.kind == TEXT_VALUE and same_text(
                &term.value, field.content, field.size)
        if term.kind == IS_BOOLEAN or value.kind == FIELD_BOOLEAN:
            return term.kind == IS_BOOLEAN and value.kind == FIELD_BOOLEAN and (
                term.value.integer == value.integer)
        if term.value.kind == TEXT_VALUE or value.kind not in (
                FIELD_INTEGER, FIELD_TIME, FIELD_FLOAT, FIELD_DOUBLE):
            return False
        set_field(&number, field.type, field.content, field.size)
        return not order_numerics(&term.value, &number)

    cdef bint is_equal(self, const HeaderTerm *term, const Field *field) noexcept with gil:
        """The same, of values that take Python to compare."""
        cdef const uint8_t *start = field.content - 1
        if field.type in (c"S", c"x", c"F", c"A"):
            start -= SIZE_BYTES
        try:
            one = b"\x01v" + PyBytes_FromStringAndSize(
                <const char *> start, field.content + field.size - start)
            table, _ = decode_table(len(one).to_bytes(SIZE_BYTES, "big") + one)
            return comparable(table["v"]) == self.kept[term - self.terms][1]
        except Exception:
            return False


cdef int set_wanted(HeaderTerm *term, object wanted) except -1:
    """Note what a term wants."""
    if wanted is None:
        term.kind = IS_THERE
        return 0
    term.kind = IS_VALUE
    if type(wanted) is bytes:
        set_text(&term.value, <const uint8_t *> PyBytes_AS_STRING(wanted),
                 <uint32_t> PyBytes_GET_SIZE(wanted))
    elif type(wanted) is int and INT64_MIN <= wanted <= INT64_MAX:
        set_integer(&term.value, wanted)
    elif type(wanted) is float:
        set_number(&term.value, wanted)
    elif wanted == "true" or wanted == "false":
        term.kind, term.value.kind, term.value.integer = IS_BOOLEAN, BOOLEAN, wanted == "true"
    else:
        term.kind = IS_TERM
    return 0
