/* A hash for tables that peers fill: names, values, routing keys.
 *
 * Who knows a hash can make as many keys as he likes that all meet in one bucket, and then each
 * look-up takes as long as there are such keys. This one depends on two numbers that each process
 * has of its own, so nothing that outlives the process may depend on it; `hash_key` of wire.h is
 * for that. Until it is told the numbers it is as good a hash, but no secret.
 */
#ifndef LEPORID_HASHING_H
#define LEPORID_HASHING_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static uint64_t hash_secrets[2] = {0x9e3779b97f4a7c15ull, 0xc4ceb9fe1a85ec53ull};

static inline void hide_hashes(uint64_t one, uint64_t other) {
    hash_secrets[0] = one;
    hash_secrets[1] = other;
}

static inline uint64_t hash_pair(uint64_t a, uint64_t b) {
    unsigned __int128 product = (unsigned __int128) (a ^ hash_secrets[0]) * (b ^ hash_secrets[1]);
    return (uint64_t) product ^ (uint64_t) (product >> 64);
}

static inline uint64_t hash_hidden(const uint8_t *p, size_t n) {
    uint64_t h = n << 56, a = 0, b = 0;
    for (; n > 16; n -= 16, p += 16) {
        memcpy(&a, p, 8);
        memcpy(&b, p + 8, 8);
        h = hash_pair(a, b ^ h);
    }
    if (n >= 8) {
        memcpy(&a, p, 8);
        memcpy(&b, p + n - 8, 8);
    } else if (n >= 4) {
        uint32_t first, last;
        memcpy(&first, p, 4);
        memcpy(&last, p + n - 4, 4);
        a = first;
        b = last;
    } else if (n) {
        a = p[0];
        b = (uint64_t) p[n / 2] << 8 | p[n - 1];
    }
    return hash_pair(a, b ^ h);
}

#endif
