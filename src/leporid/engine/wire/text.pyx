"""Text for people who read tables: bytes that grow, UTF-8 that is always valid, and the values of
field tables as text or JSON.

Takes what peers sent, and reads nothing past the end it was given. It does not know columns or
messages. Invariant: what is appended as text is valid UTF-8, whatever came. Each maximal part of a
broken sequence becomes U+FFFD, as in Python and in browsers (Unicode 3.9, "U+FFFD Substitution of
Maximal Subparts"). No text is more than `EXPANSION_MAX` times as long as what it was made of.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, realloc, strtod
from libc.string cimport strcat, strlen, strpbrk
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE

from leporid.engine.wire.codec cimport (
    FIELD_BOOLEAN, FIELD_DECIMAL, FIELD_DOUBLE, FIELD_FLOAT, FIELD_TIME, FIELD_VOID,
    TABLE_DEPTH_MAX, Value, next_value, read_value,
)

cdef extern from "<stdio.h>" nogil:
    int snprintf(char *text, size_t size, const char *format, ...)

cdef extern from "<stdlib.h>" nogil:
    float strtof(const char *text, char **end)

cdef enum:
    SMALLEST_SIZE = 64
    DIGITS_MAX = 20                     # of a number of 64 bits
    FLOAT_DIGITS_MAX = 9                # that a float may need to be read back as it was
    DOUBLE_DIGITS_MAX = 17
    DAY_SECONDS = 86400
    # Beyond, a decimal is written with an exponent: six bytes of a peer become 24, not 260.
    PLAIN_SCALE_MAX = 20

cdef const char *REPLACEMENT = b"\xef\xbf\xbd"      # U+FFFD
cdef const char *HEX_DIGITS = b"0123456789abcdef"
cdef const char *ESCAPES = b"btn\0fr"               # of 8 to 13; 11 has no short form


cdef int grow(Bytes *b, size_t more) noexcept nogil:
    cdef size_t size = max(b.size, <size_t> SMALLEST_SIZE)
    cdef void *data
    if more > COLUMN_BYTES_MAX or b.used + more > COLUMN_BYTES_MAX:
        return NO_MEMORY
    while size < b.used + more:
        size *= 2
    data = realloc(b.data, size)
    if data == NULL:
        return NO_MEMORY
    b.data = <uint8_t *> data
    b.size = size
    return DONE


# ---------------------------------------------------------------------- UTF-8


cdef size_t utf8_step(const uint8_t *p, const uint8_t *end, bint *bad) noexcept nogil:
    """The length of the character at p; or, if that is `bad`, of what U+FFFD stands for."""
    cdef uint8_t first = p[0], low = 0x80, high = 0xbf
    cdef size_t length = 1, whole
    bad[0] = False
    if first < 0x80:
        return 1
    bad[0] = True
    if first < 0xc2 or first > 0xf4:
        return 1
    if first < 0xe0:
        whole = 2
    elif first < 0xf0:
        whole = 3
        if first == 0xe0:
            low = 0xa0          # below, there is a shorter form
        elif first == 0xed:
            high = 0x9f         # above are surrogates
    else:
        whole = 4
        if first == 0xf0:
            low = 0x90
        elif first == 0xf4:
            high = 0x8f         # above is nothing: U+10FFFF is the last
    while length < whole:
        if p + length >= end or not low <= p[length] <= high:
            return length
        low, high = 0x80, 0xbf
        length += 1
    bad[0] = False
    return length


cdef int put_valid(Bytes *b, const uint8_t *p, const uint8_t *end) noexcept nogil:
    cdef size_t length
    cdef bint bad
    while p < end:
        length = utf8_step(p, end, &bad)
        if put(b, REPLACEMENT, 3) if bad else put(b, p, length):
            return NO_MEMORY
        p += length
    return DONE


cdef int put_escaped(Bytes *b, uint8_t code) noexcept nogil:
    """Append a control character to a JSON string."""
    if 8 <= code <= 13 and code != 11:
        return put_byte(b, c"\\") or put_byte(b, ESCAPES[code - 8])
    return (put(b, b"\\u00", 4) or put_byte(b, HEX_DIGITS[code >> 4])
            or put_byte(b, HEX_DIGITS[code & 15]))


cdef int put_json_text(Bytes *b, const uint8_t *p, size_t n) noexcept nogil:
    cdef const uint8_t *end = p + n
    cdef size_t length
    cdef int failed = put_byte(b, c'"')
    cdef bint bad
    while p < end and not failed:
        length = utf8_step(p, end, &bad)
        if bad:
            failed = put(b, REPLACEMENT, 3)
        elif p[0] == c'"' or p[0] == c"\\":
            failed = put_byte(b, c"\\") or put_byte(b, p[0])
        elif p[0] >= 0x20:
            failed = put(b, p, length)
        else:
            failed = put_escaped(b, p[0])
        p += length
    return NO_MEMORY if failed else put_byte(b, c'"')


# ---------------------------------------------------------------------- numbers and times


cdef int put_digits(Bytes *b, uint64_t value, int least) noexcept nogil:
    """Append a number with so many digits at least."""
    cdef uint8_t digits[DIGITS_MAX]
    cdef int at = DIGITS_MAX
    while value or at > DIGITS_MAX - least:
        at -= 1
        digits[at] = <uint8_t> (c"0" + value % 10)
        value //= 10
    return put(b, digits + at, DIGITS_MAX - at)


cdef int put_integer(Bytes *b, int64_t value) noexcept nogil:
    if value < 0:
        return put_byte(b, c"-") or put_digits(b, 0 - <uint64_t> value, 1)
    return put_digits(b, <uint64_t> value, 1)


cdef int put_real(Bytes *b, double value, bint single) noexcept nogil:
    """Append the shortest text that reads back as the same number, with a point or an exponent."""
    cdef char text[40]
    cdef int digits = 6 if single else 15, most = FLOAT_DIGITS_MAX if single else DOUBLE_DIGITS_MAX
    if value - value != 0:
        return put(b, b"null", 4)       # refused when it came; JSON has no word for it
    while digits <= most:
        snprintf(text, sizeof(text), b"%.*g", digits, value)
        if (strtof(text, NULL) == <float> value) if single else (strtod(text, NULL) == value):
            break
        digits += 1
    if strpbrk(text, b".e") == NULL:
        strcat(text, b".0")
    return put(b, text, strlen(text))


cdef int put_decimal(Bytes *b, uint8_t scale, int64_t unscaled) noexcept nogil:
    cdef uint64_t value = <uint64_t> (-unscaled if unscaled < 0 else unscaled), power = 1
    cdef int _digit
    if unscaled < 0 and put_byte(b, c"-"):
        return NO_MEMORY
    if scale > PLAIN_SCALE_MAX:
        return put_digits(b, value, 1) or put(b, b"e-", 2) or put_digits(b, scale, 1)
    if scale > 10:                      # more digits than 32 bits have
        if put(b, b"0.", 2):
            return NO_MEMORY
        for _digit in range(scale - 10):
            if put_byte(b, c"0"):
                return NO_MEMORY
        return put_digits(b, value, 10)
    for _digit in range(scale):
        power *= 10
    if put_digits(b, value // power, 1):
        return NO_MEMORY
    return put_byte(b, c".") or put_digits(b, value % power, scale) if scale else DONE


cdef int put_time(Bytes *b, uint64_t seconds, bint json) noexcept nogil:
    """Append a time in ISO 8601, UTC; beyond the year 9999 the number of seconds."""
    cdef uint64_t days, rest, era, of_era, year, of_year, month, day
    if seconds > SECONDS_MAX:
        return put_digits(b, seconds, 1)
    # Days to a date, in a calendar of eras of 400 years whose years begin in March.
    days, rest = seconds // DAY_SECONDS + 719468, seconds % DAY_SECONDS
    era, of_era = days // 146097, days % 146097
    year = (of_era - of_era // 1460 + of_era // 36524 - of_era // 146096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    month = (5 * of_year + 2) // 153
    day = of_year - (153 * month + 2) // 5 + 1
    month = month + 3 if month < 10 else month - 9
    year += era * 400 + (month <= 2)
    if json and put_byte(b, c'"'):
        return NO_MEMORY
    if (put_digits(b, year, 4) or put_byte(b, c"-") or put_digits(b, month, 2)
            or put_byte(b, c"-") or put_digits(b, day, 2) or put_byte(b, c"T")
            or put_digits(b, rest // 3600, 2) or put_byte(b, c":")
            or put_digits(b, rest // 60 % 60, 2) or put_byte(b, c":")
            or put_digits(b, rest % 60, 2) or put_byte(b, c"Z")):
        return NO_MEMORY
    return put_byte(b, c'"') if json else DONE


# ---------------------------------------------------------------------- values of field tables


cdef int put_json_array(Bytes *b, const uint8_t *p, const uint8_t *end, int depth) noexcept nogil:
    cdef int failed = put_byte(b, c"[")
    cdef bint first = True
    if depth > TABLE_DEPTH_MAX:
        return MALFORMED
    while p < end and not failed:
        if not first and put_byte(b, c","):
            return NO_MEMORY
        failed = put_value(b, &p, end, True, depth)
        first = False
    return failed or put_byte(b, c"]")


cdef int put_json_table(Bytes *b, const uint8_t *p, const uint8_t *end, int depth) noexcept nogil:
    cdef int failed = put_byte(b, c"{")
    cdef bint first = True
    if depth > TABLE_DEPTH_MAX:
        return MALFORMED
    while p < end and not failed:
        if end - p - 1 < p[0]:
            return MALFORMED
        if (not first and put_byte(b, c",")) or put_json_text(b, p + 1, p[0]) or put_byte(b, c":"):
            return NO_MEMORY
        p += 1 + p[0]
        failed = put_value(b, &p, end, True, depth)
        first = False
    return failed or put_byte(b, c"}")


cdef int put_scalar(Bytes *b, uint8_t type, const uint8_t *content, bint json) noexcept nogil:
    cdef Value value = read_value(type, content)
    if value.kind == FIELD_VOID:
        return put(b, b"null", 4)
    if value.kind == FIELD_BOOLEAN:
        return put(b, b"true", 4) if value.integer else put(b, b"false", 5)
    if value.kind == FIELD_TIME:
        return put_time(b, value.seconds, json)
    if value.kind == FIELD_DECIMAL:
        return put_decimal(b, value.scale, value.integer)
    if value.kind == FIELD_FLOAT:
        return put_real(b, value.real, True)
    if value.kind == FIELD_DOUBLE:
        return put_real(b, value.real, False)
    return put_integer(b, value.integer)


cdef int put_value(Bytes *b, const uint8_t **at, const uint8_t *end, bint json,
                   int depth) noexcept nogil:
    """Append the value at `at` and step over it: as JSON, or as text, with tables and arrays in
    JSON. A void is "null"."""
    cdef const uint8_t *p
    cdef uint32_t size
    cdef uint8_t type
    if next_value(at, end, &type, &p, &size):
        return MALFORMED
    if type == c"S" or type == c"x":
        return put_json_text(b, p, size) if json else put_text(b, p, size)
    if type == c"F":
        return put_json_table(b, p, p + size, depth + 1)
    if type == c"A":
        return put_json_array(b, p, p + size, depth + 1)
    return put_scalar(b, type, p, json)


def text_of(bytes value not None, bint json=False):
    """The encoded value of a field, its type first, as text or JSON; ValueError if it is none."""
    cdef Bytes made = [NULL, 0, 0]
    cdef const uint8_t *p = <const uint8_t *> PyBytes_AS_STRING(value)
    cdef const uint8_t *end = p + PyBytes_GET_SIZE(value)
    cdef int failed
    try:
        failed = put_value(&made, &p, end, json, 0)
        if failed == NO_MEMORY:
            raise MemoryError("no memory for a value as text")
        if failed or p != end:
            raise ValueError(f"malformed field value {value[:40]!r}")
        return PyBytes_FromStringAndSize(<const char *> made.data, made.used).decode("utf-8")
    finally:
        free(made.data)
