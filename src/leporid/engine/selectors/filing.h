/* What a message must be equal to in one place, and for whom: lists of numbers by place and value.
 *
 * Values are texts, and numbers of any type: 1 and 1.0 are one value. Invariant: a list has nobody
 * twice, and an empty one is gone.
 */
#ifndef LEPORID_FILING_H
#define LEPORID_FILING_H

#include "hashing.h"
#include "matching.h"

enum { NOBODY = UINT32_MAX };

typedef struct Key Key;

struct Key {
    Key *next;               /* in the same bucket */
    Key *before, *after;     /* of the same kind in the same place, for who looks through these */
    uint64_t hash;
    uint32_t place, count, size;
    Operand value;           /* a text lies behind this */
    uint32_t *members;
};

typedef struct {
    Key **buckets;
    size_t size, count;      /* a power of two, and keys */
} Filing;

static inline int is_key(const Operand *v) { return v->kind == TEXT_VALUE || is_numeric(v); }

/* One value has one form: what is whole and has 64 bits is an integer. */
static inline Operand plain_value(const Operand *v) {
    Operand plain = *v;
    if (v->kind == NUMBER && v->number >= -0x1p63 && v->number < 0x1p63
        && v->number == (double) (int64_t) v->number) set_integer(&plain, (int64_t) v->number);
    return plain;
}

static inline uint64_t hash_value(uint32_t place, const Operand *plain) {
    uint64_t value = plain->kind == TEXT_VALUE ? hash_hidden(plain->text, plain->length)
                                               : (uint64_t) plain->integer;
    return hash_pair(value, plain->kind + ((uint64_t) place << 8));
}

static inline int is_same_value(const Operand *a, const Operand *b) {
    if (a->kind != b->kind) return 0;
    return a->kind == TEXT_VALUE ? same_text(a, b->text, b->length) : a->integer == b->integer;
}

/* Whoever wants this value in this place; NULL: nobody. */
static Key *find_key(const Filing *f, uint32_t place, const Operand *value) {
    if (!f->count) return NULL;
    Operand plain = plain_value(value);
    uint64_t hash = hash_value(place, &plain);
    Key *key = f->buckets[hash & (f->size - 1)];
    while (key && !(key->hash == hash && key->place == place && is_same_value(&key->value, &plain)))
        key = key->next;
    return key;
}

static int more_buckets(Filing *f) {
    size_t size = f->size ? f->size * 2 : 16;
    Key **buckets = calloc(size, sizeof *buckets);
    if (!buckets) return NO_MEMORY;
    for (size_t at = 0; at < f->size; at++) {
        for (Key *key = f->buckets[at], *next; key; key = next) {
            next = key->next;
            key->next = buckets[key->hash & (size - 1)];
            buckets[key->hash & (size - 1)] = key;
        }
    }
    free(f->buckets);
    f->buckets = buckets;
    f->size = size;
    return DONE;
}

static Key *make_key(Filing *f, uint32_t place, const Operand *value) {
    Key *key = find_key(f, place, value);
    if (key) return key;
    if (f->count >= f->size && more_buckets(f)) return NULL;
    Operand plain = plain_value(value);
    uint32_t length = plain.kind == TEXT_VALUE ? plain.length : 0;
    key = calloc(1, sizeof *key + length);
    if (!key) return NULL;
    key->hash = hash_value(place, &plain);
    key->place = place;
    if (length) memcpy(key + 1, plain.text, length);
    key->value = plain;
    if (plain.kind == TEXT_VALUE) key->value.text = (const uint8_t *) (key + 1);
    Key **bucket = &f->buckets[key->hash & (f->size - 1)];
    key->next = *bucket;
    *bucket = key;
    f->count++;
    return key;
}

static void drop_key(Filing *f, Key *key) {
    Key **at = &f->buckets[key->hash & (f->size - 1)];
    while (*at != key) at = &(*at)->next;
    *at = key->next;
    f->count--;
    free(key->members);
    free(key);
}

/* 1: it is on the list now; 0: it was already; NO_MEMORY. */
static int file_under(Filing *f, uint32_t place, const Operand *value, uint32_t member,
                      Key **filed) {
    Key *key = *filed = make_key(f, place, value);
    if (!key) return NO_MEMORY;
    /* A member files its keys one after another, so it could only be the last one here. */
    if (key->count && key->members[key->count - 1] == member) return 0;
    if (key->count == key->size) {
        uint32_t size = key->size ? key->size * 2 : 2;
        uint32_t *members = realloc(key->members, size * sizeof *members);
        if (!members) {
            if (!key->count) drop_key(f, key);
            return NO_MEMORY;
        }
        key->members = members;
        key->size = size;
    }
    key->members[key->count++] = member;
    return 1;
}

/* Take one off a list; returns who stands in its place from now on, or NOBODY. */
static uint32_t take_from(Filing *f, Key *key, uint32_t at) {
    uint32_t moved = at == --key->count ? NOBODY : key->members[key->count];
    if (moved != NOBODY) key->members[at] = moved;
    if (!key->count) drop_key(f, key);
    return moved;
}

static void filing_close(Filing *f) {
    for (size_t at = 0; at < f->size; at++)
        while (f->buckets[at]) drop_key(f, f->buckets[at]);
    free(f->buckets);
}

#endif
