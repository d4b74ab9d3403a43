/* Two hashes of short keys: `hash_hidden` for tables in memory, `hash_key` for what lasts.
 *
 * Peers choose the keys of tables: names, values, routing keys. Whoever knows the hash function can
 * choose keys that all fall into one bucket. So `hash_hidden` is keyed by two secrets that differ
 * from process to process; its results must not outlive the process. `hash_key` has no secret and
 * never changes. Before `hide_hashes` is called, `hash_hidden` works, with known secrets.
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

static inline uint64_t hash_key(const uint8_t *p, size_t n) {
    uint64_t h = 0x9e3779b97f4a7c15ull ^ n, v;
    for (; n >= 8; n -= 8, p += 8) {
        memcpy(&v, p, 8);
        h = (h ^ v) * 0xff51afd7ed558ccdull;
        h ^= h >> 32;
    }
    if (n) {
        v = 0;
        memcpy(&v, p, n);
        h = (h ^ v) * 0xff51afd7ed558ccdull;
        h ^= h >> 32;
    }
    h *= 0xc4ceb9fe1a85ec53ull;
    return h ^ (h >> 29);
}

#endif
