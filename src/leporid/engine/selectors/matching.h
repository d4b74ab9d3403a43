/* Values of a message as filters see them: from encoded bytes, compared, converted, calculated.
 *
 * Texts stay where they are in the record. Nothing here allocates, and nothing reads past the end
 * it was given. filters/values.py does the same with Python's values.
 */
#ifndef LEPORID_MATCHING_H
#define LEPORID_MATCHING_H

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "codec.h"

/* OTHER is a table or an array. */
enum { NOTHING = 0, BOOLEAN = 1, INTEGER = 2, NUMBER = 3, TEXT_VALUE = 4, OTHER = 5 };

typedef struct {
    union {
        int64_t integer;   /* INTEGER, BOOLEAN */
        double number;
        const uint8_t *text;
    };
    uint32_t length;       /* of the text */
    uint8_t kind;
} Operand;                 /* 16 bytes */

/* What a condition comes to. BAD_TYPE: there is no result for these operands. */
enum { IS_FALSE = 0, IS_TRUE = 1, IS_UNKNOWN = 2, BAD_TYPE = 3 };

/* ------------------------------------------------------------------ making values */

static inline void set_nothing(Operand *v) { v->kind = NOTHING; }

static inline void set_integer(Operand *v, int64_t integer) {
    v->kind = INTEGER;
    v->integer = integer;
}

static inline void set_number(Operand *v, double number) {
    v->kind = NUMBER;
    v->number = number;
}

static inline void set_text(Operand *v, const uint8_t *text, uint32_t length) {
    v->kind = TEXT_VALUE;
    v->text = text;
    v->length = length;
}

static inline void set_unsigned(Operand *v, uint64_t value) {
    if (value <= INT64_MAX) set_integer(v, (int64_t) value);
    else set_number(v, (double) value);
}

/* The nearest double, as Python's `float(Decimal)`. Up to 10 to the 22nd, powers of ten are exact
   as doubles, and so one division rounds once. */
static void set_decimal(Operand *v, uint8_t scale, int32_t unscaled) {
    static const double tens[23] = {
        1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
        1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
    };
    char text[32];
    if (!scale) set_integer(v, unscaled);
    else if (scale <= 22) set_number(v, unscaled / tens[scale]);
    else {
        snprintf(text, sizeof text, "%de-%u", unscaled, scale);
        set_number(v, strtod(text, NULL));
    }
}

/* The value of a header, whose content `next_value` found. */
static void set_field(Operand *v, uint8_t type, const uint8_t *content, uint32_t size) {
    Value value = read_value(type, content);
    switch (value.kind) {
    case FIELD_VOID: set_nothing(v); break;
    case FIELD_BOOLEAN: v->kind = BOOLEAN; v->integer = value.integer; break;
    case FIELD_INTEGER: set_integer(v, value.integer); break;
    case FIELD_TIME: set_unsigned(v, value.seconds); break;
    case FIELD_FLOAT: case FIELD_DOUBLE: set_number(v, value.real); break;
    case FIELD_DECIMAL: set_decimal(v, value.scale, (int32_t) value.integer); break;
    case FIELD_TEXT: set_text(v, content, size); break;
    default: v->kind = OTHER;
    }
    /* Refused when it came; an unordered number would break every comparison. */
    if (v->kind == NUMBER && !isfinite(v->number)) v->kind = OTHER;
}

/* ------------------------------------------------------------------ comparing */

static inline int order_integers(int64_t a, int64_t b) { return (a > b) - (a < b); }
static inline int order_numbers(double a, double b) { return (a > b) - (a < b); }

/* Exact: neither is rounded to the other's type. */
static int order_mixed(int64_t a, double b) {
    if (b >= 0x1p63) return -1;
    if (b < -0x1p63) return 1;
    int64_t whole = (int64_t) b;
    return a != whole ? order_integers(a, whole) : order_numbers(0, b - (double) whole);
}

static inline int is_numeric(const Operand *v) { return v->kind == INTEGER || v->kind == NUMBER; }

static int order_numerics(const Operand *a, const Operand *b) {
    if (a->kind == INTEGER)
        return b->kind == INTEGER ? order_integers(a->integer, b->integer)
                                  : order_mixed(a->integer, b->number);
    return b->kind == NUMBER ? order_numbers(a->number, b->number)
                             : -order_mixed(b->integer, a->number);
}

static int order_texts(const Operand *a, const Operand *b) {
    uint32_t least = a->length < b->length ? a->length : b->length;
    int order = least ? memcmp(a->text, b->text, least) : 0;
    return order ? order : order_integers(a->length, b->length);
}

static inline int same_text(const Operand *a, const uint8_t *text, uint32_t length) {
    return a->length == length && !memcmp(a->text, text, length);
}

enum { EQUAL = 0, LESS = 1, LESS_OR_EQUAL = 2, GREATER = 3, GREATER_OR_EQUAL = 4 };

static inline int holds(int relation, int order) {
    switch (relation) {
    case EQUAL: return order == 0;
    case LESS: return order < 0;
    case LESS_OR_EQUAL: return order <= 0;
    case GREATER: return order > 0;
    default: return order >= 0;
    }
}

static int compare_jms(int relation, const Operand *a, const Operand *b) {
    if (a->kind == NOTHING || b->kind == NOTHING) return IS_UNKNOWN;
    if (is_numeric(a) && is_numeric(b)) return holds(relation, order_numerics(a, b));
    if (a->kind != b->kind) return BAD_TYPE;
    if (a->kind == TEXT_VALUE) {
        if (relation == EQUAL) return same_text(a, b->text, b->length);
        return holds(relation, order_texts(a, b));
    }
    if (a->kind == BOOLEAN && relation == EQUAL) return a->integer == b->integer;
    return BAD_TYPE;
}

/* ------------------------------------------------------------------ texts as numbers (Java) */

enum { NUMBER_BYTES_MAX = 128 };

/* As Long.valueOf; 0, or -1 when it is no integer of 64 bits. */
static int read_integer(const uint8_t *p, uint32_t n, Operand *out) {
    const uint8_t *end = p + n;
    uint64_t value = 0, most = INT64_MAX;
    int negative = 0;
    if (!n || n > NUMBER_BYTES_MAX) return -1;
    if (*p == '+' || *p == '-') {
        negative = *p == '-';
        most += negative;
        if (++p == end) return -1;
    }
    for (; p < end; p++) {
        if (*p < '0' || *p > '9') return -1;
        uint64_t digit = *p - '0';
        if (value > (most - digit) / 10) return -1;
        value = value * 10 + digit;
    }
    set_integer(out, (int64_t) (negative ? 0 - value : value));
    return 0;
}

static const uint8_t *skip_digits(const uint8_t *p, const uint8_t *end) {
    while (p < end && *p >= '0' && *p <= '9') p++;
    return p;
}

/* As Double.valueOf, but for NaN, infinities, suffixes and base 16; 0, or -1. */
static int read_number(const uint8_t *p, uint32_t n, Operand *out) {
    char text[NUMBER_BYTES_MAX + 1];
    const uint8_t *end = p + n, *at, *digits;
    if (n > NUMBER_BYTES_MAX) return -1;
    while (p < end && *p <= ' ') p++;
    while (p < end && end[-1] <= ' ') end--;
    at = p;
    if (at < end && (*at == '+' || *at == '-')) at++;
    digits = at;
    at = skip_digits(at, end);
    size_t count = at - digits;
    if (at < end && *at == '.') {
        digits = ++at;
        at = skip_digits(at, end);
        count += at - digits;
    }
    if (!count) return -1;
    if (at < end && (*at == 'e' || *at == 'E')) {
        at++;
        if (at < end && (*at == '+' || *at == '-')) at++;
        digits = at;
        at = skip_digits(at, end);
        if (at == digits) return -1;
    }
    if (at != end) return -1;
    memcpy(text, p, end - p);
    text[end - p] = 0;
    double value = strtod(text, NULL);
    if (!isfinite(value)) return -1;
    set_number(out, value);
    return 0;
}

static int read_like(const Operand *number, const Operand *text, Operand *out) {
    return number->kind == INTEGER ? read_integer(text->text, text->length, out)
                                   : read_number(text->text, text->length, out);
}

/* A number and a text, or two numbers; a text is read as the other's type. */
static int compare_read(int relation, const Operand *a, const Operand *b) {
    Operand read;
    if (a->kind == TEXT_VALUE) {
        if (read_like(b, a, &read)) return BAD_TYPE;
        a = &read;
    } else if (b->kind == TEXT_VALUE) {
        if (read_like(a, b, &read)) return BAD_TYPE;
        b = &read;
    }
    return holds(relation, order_numerics(a, b));
}

static int is_true_text(const Operand *v) {
    return v->length == 4 && (v->text[0] | 32) == 't' && (v->text[1] | 32) == 'r'
        && (v->text[2] | 32) == 'u' && (v->text[3] | 32) == 'e';
}

static int equal_rocketmq(const Operand *a, const Operand *b) {
    if (a->kind == NOTHING) return b->kind == NOTHING ? IS_TRUE : IS_UNKNOWN;
    if (b->kind == NOTHING || a->kind == OTHER || b->kind == OTHER) return IS_FALSE;
    if (a->kind == TEXT_VALUE && b->kind == TEXT_VALUE) return same_text(a, b->text, b->length);
    if (a->kind == BOOLEAN) {
        if (b->kind == TEXT_VALUE) return BAD_TYPE;
        return b->kind == BOOLEAN && a->integer == b->integer;
    }
    if (b->kind == BOOLEAN) return a->kind == TEXT_VALUE && is_true_text(a) == b->integer;
    return compare_read(EQUAL, a, b);
}

static int compare_rocketmq(int relation, const Operand *a, const Operand *b) {
    Operand left, right;
    if (relation == EQUAL) return equal_rocketmq(a, b);
    if (a->kind == NOTHING || b->kind == NOTHING) return IS_UNKNOWN;
    if (a->kind == BOOLEAN || a->kind == OTHER || b->kind == BOOLEAN || b->kind == OTHER)
        return BAD_TYPE;
    if (a->kind != TEXT_VALUE || b->kind != TEXT_VALUE) return compare_read(relation, a, b);
    if (read_number(a->text, a->length, &left) || read_number(b->text, b->length, &right))
        return BAD_TYPE;
    return holds(relation, order_numbers(left.number, right.number));
}

/* ------------------------------------------------------------------ arithmetic */

enum { ADD = 0, SUBTRACT = 1, MULTIPLY = 2, DIVIDE = 3, REMAINDER = 4 };

static inline double number_of(const Operand *v) {
    return v->kind == INTEGER ? (double) v->integer : v->number;
}

/* 1: done; 0: it takes more than 64 bits; -1: divided by zero. */
static int calculate_integers(int operator, int64_t a, int64_t b, int64_t *out) {
    switch (operator) {
    case ADD: return !__builtin_add_overflow(a, b, out);
    case SUBTRACT: return !__builtin_sub_overflow(a, b, out);
    case MULTIPLY: return !__builtin_mul_overflow(a, b, out);
    }
    if (!b) return -1;
    if (b == -1) {  /* the least integer has no positive counterpart */
        if (operator == DIVIDE) return !__builtin_sub_overflow((int64_t) 0, a, out);
        *out = 0;
        return 1;
    }
    *out = operator == DIVIDE ? a / b : a % b;
    return 1;
}

/* Writes the result over `a`, nothing where there is none. */
static int calculate(int operator, Operand *a, const Operand *b) {
    int64_t whole;
    double left, right, result;
    int known = a->kind != NOTHING && b->kind != NOTHING;
    if (!known || !is_numeric(a) || !is_numeric(b)) {
        set_nothing(a);
        return known ? BAD_TYPE : IS_UNKNOWN;
    }
    left = number_of(a);
    right = number_of(b);
    if (a->kind == INTEGER && b->kind == INTEGER) {
        int done = calculate_integers(operator, a->integer, b->integer, &whole);
        if (done > 0) {
            set_integer(a, whole);
            return IS_TRUE;
        }
        if (done < 0) {
            set_nothing(a);
            return BAD_TYPE;
        }
    }
    switch (operator) {
    case ADD: result = left + right; break;
    case SUBTRACT: result = left - right; break;
    case MULTIPLY: result = left * right; break;
    case DIVIDE: result = left / right; break;
    default: result = fmod(left, right);
    }
    if (!isfinite(result)) {
        set_nothing(a);
        return BAD_TYPE;
    }
    set_number(a, result);
    return IS_TRUE;
}

static void negate(Operand *v) {
    if (v->kind == NUMBER) v->number = -v->number;
    else if (v->integer == INT64_MIN) set_number(v, 0x1p63);
    else v->integer = -v->integer;
}

#endif
