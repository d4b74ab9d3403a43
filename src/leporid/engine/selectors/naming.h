/* Numbers for names of headers that several programs use, each as long as somebody does.
 *
 * Invariant: a name in use has one number; a number that nobody uses is given again.
 */
#ifndef LEPORID_NAMING_H
#define LEPORID_NAMING_H

#include "hashing.h"
#include "text.h"

/* Numbers have 16 bits, and where a header's value stands is a number that is a little higher. */
enum { NAMES_MAX = 65000, NO_NAME = 0xffff };

typedef struct {
    uint8_t *text;           /* NULL: the number is free */
    uint64_t hash;
    uint32_t users;
    uint16_t next;           /* in the same bucket, or the next free number; NO_NAME ends it */
    uint8_t length;
} Name;

typedef struct {
    Name *names;
    uint16_t *buckets;
    uint32_t size, count;    /* a power of two, of both arrays; names in use */
    uint32_t upto;           /* numbers that were ever given */
    uint16_t vacant;
    uint32_t with_length[64];
    uint64_t lengths;        /* of names in use, modulo 64 */
} Naming;

static inline uint32_t find_name(const Naming *n, const uint8_t *text, uint8_t length,
                                 uint64_t hash) {
    if (!n->size) return NO_NAME;
    uint32_t at = n->buckets[hash & (n->size - 1)];
    while (at != NO_NAME) {
        const Name *name = &n->names[at];
        if (name->hash == hash && name->length == length && !memcmp(name->text, text, length))
            break;
        at = name->next;
    }
    return at;
}

/* The number of a header in a message; NO_NAME when nobody asks for it. */
static inline uint32_t number_of_name(const Naming *n, const uint8_t *text, uint8_t length) {
    if (!(n->lengths >> (length & 63) & 1)) return NO_NAME;
    return find_name(n, text, length, hash_hidden(text, length));
}

static int more_names(Naming *n) {
    uint32_t size = n->size ? n->size * 2 : 16;
    Name *names = realloc(n->names, size * sizeof *names);
    if (!names) return NO_MEMORY;
    n->names = names;
    uint16_t *buckets = realloc(n->buckets, size * sizeof *buckets);
    if (!buckets) return NO_MEMORY;
    n->buckets = buckets;
    n->size = size;
    for (uint32_t i = 0; i < size; i++) buckets[i] = NO_NAME;
    for (uint32_t i = 0; i < n->upto; i++) {
        if (!names[i].text) continue;
        uint16_t *bucket = &buckets[names[i].hash & (size - 1)];
        names[i].next = *bucket;
        *bucket = (uint16_t) i;
    }
    return DONE;
}

/* The number of a name that has one user more; NO_NAME: no memory, or too many names. */
static uint32_t use_name(Naming *n, const uint8_t *text, uint8_t length) {
    uint64_t hash = hash_hidden(text, length);
    uint32_t at = find_name(n, text, length, hash);
    if (at != NO_NAME) {
        n->names[at].users++;
        return at;
    }
    if (n->count >= NAMES_MAX || (n->count == n->size && more_names(n))) return NO_NAME;
    uint8_t *copy = malloc(length + 1u);
    if (!copy) return NO_NAME;
    memcpy(copy, text, length);
    if (n->count < n->upto) {
        at = n->vacant;
        n->vacant = n->names[at].next;
    } else {
        at = n->upto++;
    }
    uint16_t *bucket = &n->buckets[hash & (n->size - 1)];
    n->names[at] = (Name) {copy, hash, 1, *bucket, length};
    *bucket = (uint16_t) at;
    n->count++;
    n->with_length[length & 63]++;
    n->lengths |= 1ull << (length & 63);
    return at;
}

static void leave_name(Naming *n, uint32_t at) {
    Name *name = &n->names[at];
    if (--name->users) return;
    uint16_t *link = &n->buckets[name->hash & (n->size - 1)];
    while (*link != at) link = &n->names[*link].next;
    *link = name->next;
    if (!--n->with_length[name->length & 63]) n->lengths &= ~(1ull << (name->length & 63));
    free(name->text);
    name->text = NULL;
    name->next = n->vacant;
    n->vacant = (uint16_t) at;
    n->count--;
}

static void naming_close(Naming *n) {
    for (uint32_t i = 0; i < n->upto; i++) free(n->names[i].text);
    free(n->names);
    free(n->buckets);
}

#endif
