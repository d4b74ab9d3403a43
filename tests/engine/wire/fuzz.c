/* Drives the entry points of the C headers with inputs from a file: a kind, a length, the bytes.
 *
 * Each input is copied to memory that ends where it ends, so that the address sanitizer sees every
 * byte read beyond it. test_fuzz.py builds and runs this.
 */
#include <stdio.h>
#include "codec.h"
#include "crc.h"
#include "hashing.h"
#include "selector.h"

enum { PROPERTIES = 0, VALUE = 1, PROGRAM = 2, BYTES = 3, BEYOND = 4 };

static volatile uint64_t seen;

static void walk(const uint8_t *p, size_t n) {
    static const uint8_t *const added[] = {(const uint8_t *) "\x0fx-stream-offsetl",
                                           (const uint8_t *) "\x10x-delivery-countl"};
    Props props, again;
    const uint8_t *content, *end = NULL;
    uint8_t type;
    uint32_t size;
    uint64_t ttl;
    if (headers_in(p, n, &end)) seen += *(end - 1);
    if (walk_properties(p, n, &props)) return;
    seen += (uint64_t) parse_ttl(&props, &ttl);
    seen += (uint64_t) find_header(&props, "x-tag", 5, &type, &content, &size);
    for (int i = 0; i < 2; i++) {
        uint8_t *to = malloc(n + ADDED_BYTES_MAX);
        size_t length = with_field(to, p, n, added[i], 7);
        if (walk_properties(to, length, &again)) abort();
        free(to);
    }
}

static void decode(const uint8_t *p, size_t n) {
    const uint8_t *end = p + n;
    Field field;
    Operand operand;
    while (p < end && !next_field(&p, end, &field)) {
        set_field(&operand, field.type, field.content, field.size);
        seen += read_value(field.type, field.content).kind + operand.kind;
        for (uint32_t i = 0; i < field.size; i++) seen += field.content[i];
    }
}

/* A program, asked about the properties that came before it. */
static void run_all(const uint8_t *p, size_t n, const uint8_t *properties, size_t properties_len) {
    static const uint8_t names[] = "\1e\1k";
    int failed;
    uint64_t work;
    Program *program = program_open(p, n, &failed);
    if (!program) return;
    int outcome = program_matches(program, names, 4, properties, properties_len, &work);
    if (outcome < -1 || outcome > 1) abort();
    program_close(program);
}

int main(void) {
    uint8_t *properties = NULL;
    uint32_t head[2], properties_len = 0;
    while (fread(head, 4, 2, stdin) == 2) {
        uint8_t *input = malloc(head[1]);
        if (fread(input, 1, head[1], stdin) != head[1]) return 2;
        if (head[0] == PROPERTIES) walk(input, head[1]);
        if (head[0] == VALUE) decode(input, head[1]);
        if (head[0] == PROGRAM) run_all(input, head[1], properties, properties_len);
        if (head[0] == BYTES) {
            seen += hash_hidden(input, head[1]) + hash_key(input, head[1]);
            if (has_crc_instruction()) seen += crc_by_instruction(0, input, head[1]);
        }
        if (head[0] == BEYOND) seen += input[head[1]];
        if (head[0] == PROPERTIES) {
            free(properties);
            properties = input;
            properties_len = head[1];
        } else {
            free(input);
        }
    }
    free(properties);
    puts("done");
    return 0;
}
