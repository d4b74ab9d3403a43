"""C declarations of `selector.h`: compiled selectors, their values, and their machine."""

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t

cdef extern from "selector.h" nogil:
    enum:
        NOTHING
        BOOLEAN
        INTEGER
        NUMBER
        TEXT_VALUE

    ctypedef struct Operand:
        int64_t integer
        double number
        const uint8_t *text
        uint32_t length
        uint8_t kind

    void set_nothing(Operand *v)
    void set_integer(Operand *v, int64_t integer)
    void set_number(Operand *v, double number)
    void set_text(Operand *v, const uint8_t *text, uint32_t length)
    void set_field(Operand *v, uint8_t type, const uint8_t *content, uint32_t size)
    bint is_numeric(const Operand *v)
    bint same_text(const Operand *v, const uint8_t *text, uint32_t length)
    int order_integers(int64_t a, int64_t b)
    int order_numerics(const Operand *a, const Operand *b)

    enum:
        IS_FALSE
        IS_TRUE
        IS_UNKNOWN
        BAD_TYPE

    enum:
        LESS_OR_EQUAL
        GREATER_OR_EQUAL

    enum:
        BIT_HEADERS
        BITS

    enum:
        AT_ROUTING_KEY
        AT_EXCHANGE
        AT_TAG
        AT_DELIVERY_MODE
        AT_MILLISECONDS
        AT_HEADERS

    enum:
        OP_END
        OP_CONSTANT
        OP_HEADER
        OP_PROPERTY
        OP_ROUTING_KEY
        OP_EXCHANGE
        OP_DELIVERY_MODE
        OP_MILLISECONDS
        OP_TAG
        OP_NOT
        OP_NEGATIVE
        OP_UNLESS_FALSE
        OP_AND
        OP_UNLESS_TRUE
        OP_OR
        OP_EQUAL
        OP_GREATER_OR_EQUAL
        OP_ADD
        OP_REMAINDER
        OP_BETWEEN
        OP_IN
        OP_LIKE
        OP_STARTSWITH

    enum:
        STACK_MAX

    const uint8_t *takes

    ctypedef struct Instruction:
        uint8_t opcode
        uint8_t count
        uint16_t operand

    ctypedef struct Pattern:
        const uint8_t *text
        uint32_t prefix

    ctypedef struct Constant:
        Operand value
        Pattern *pattern

    ctypedef struct Header:
        const uint8_t *name
        uint8_t length

    ctypedef struct Code:
        uint8_t jms
        uint16_t count
        Constant *constants
        Instruction *instructions

    ctypedef struct Program:
        Code code
        uint8_t headers_count
        uint16_t wanted
        Header *headers

    ctypedef struct Seen:
        Operand *values
        uint64_t work

    Program *program_open(const uint8_t *p, size_t n, int *failed)
    void program_close(Program *program)
    int program_matches(const Program *program, const uint8_t *names, size_t names_len,
                        const uint8_t *properties, size_t properties_len, uint64_t *work)

    enum:
        MATCH
        NO_MATCH
        TYPE_ERROR
        UNFINISHED

    int see_names(const uint8_t *names, size_t names_len, Operand *values)
    int see_properties(uint32_t wanted, const uint8_t *p, size_t n, Operand *values,
                       const uint8_t **headers, const uint8_t **headers_end)
    void push(const Code *code, const Instruction *one, const Operand *values, Operand *v)
    int compare(const Code *code, int relation, const Operand *a, const Operand *b)
    int is_in(const Code *code, const Operand *v, const Constant *constants, int count, int *bad)
    int program_run(const Code *code, Seen *seen)
    int program_run_until(const Code *code, Seen *seen, uint64_t stop, uint8_t *known)
