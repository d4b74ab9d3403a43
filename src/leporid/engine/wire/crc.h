/* CRC32C (Castagnoli) by the processor's own instruction; crc.pyx has it by tables. */
#ifndef LEPORID_CRC_H
#define LEPORID_CRC_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)

static inline int has_crc_instruction(void) { return __builtin_cpu_supports("sse4.2") != 0; }

__attribute__((target("sse4.2")))
static uint32_t crc_by_instruction(uint32_t crc, const uint8_t *p, size_t n) {
    uint64_t c = crc;
    for (; n >= 8; n -= 8, p += 8) {
        uint64_t v;
        memcpy(&v, p, 8);
        c = __builtin_ia32_crc32di(c, v);
    }
    for (; n; n--, p++) c = __builtin_ia32_crc32qi((uint32_t) c, *p);
    return (uint32_t) c;
}

#else

static inline int has_crc_instruction(void) { return 0; }

static uint32_t crc_by_instruction(uint32_t crc, const uint8_t *p, size_t n) {
    (void) p, (void) n;
    return crc;
}

#endif
#endif
