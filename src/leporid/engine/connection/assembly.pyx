"""Assembling a message whose frames did not arrive together (AMQP 0-9-1 4.2.6).

Responsible for the order of its frames, and for the bytes kept until it is complete. It must not
know connections, nor what becomes of the message. Invariant: no memory is reserved for a length
that exceeds the limit, nor for content that will be refused.
"""

from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from cpython.bytearray cimport PyByteArray_AS_STRING

from leporid.engine.log.log cimport record_memory
from leporid.engine.wire.codec cimport load16, load64

from leporid.amqp.errors import FrameError, PreconditionFailed, SyntaxFault, UnexpectedFrame


SNIPPET_BYTES = 16

cdef enum:
    # A body gets memory of its own when so much has come and so much is left, so that nobody is
    # given more for little. A log copies what is small.
    LARGE_RECEIVED_BYTES = 1024 * 1024
    LARGE_LEFT_BYTES = 3 * 1024 * 1024
    BITS_BYTES = 1                  # of basic.publish, after the names


cdef class Assembly:
    """The frames received of one message, or of another method with content."""

    def __init__(self, uint16_t method_id, bytes method not None):
        self.method_id = method_id
        self.method = method
        self.body = bytearray()

    cdef bint take(self, uint8_t kind, const uint8_t *payload, uint32_t size,
                   uint64_t message_bytes_max) except -1:
        """Take the next frame of its channel; returns whether the message is complete.

        A fault ends the assembly.
        """
        if self.properties is None:
            self.take_header(kind, payload, size, message_bytes_max)
        else:
            if kind != FRAME_BODY or size > self.left:
                raise self.fault(UnexpectedFrame(
                    "expected content body, got non content body frame instead"))
            if self.method_id == BASIC_PUBLISH_METHOD:
                self.append(payload, size)
            self.left -= size
        return self.left == 0

    cdef int take_header(self, uint8_t kind, const uint8_t *payload, uint32_t size,
                         uint64_t message_bytes_max) except -1:
        cdef uint64_t length
        if kind != FRAME_HEADER:
            raise self.fault(UnexpectedFrame(
                "expected content header for class 60, got non content header frame instead"))
        if size < 14:
            raise self.fault(SyntaxFault("content header frame is too short"))
        if load16(payload) != 60:
            raise self.fault(UnexpectedFrame(
                f"expected content header for class 60, got one for class {load16(payload)} "
                "instead"))
        if load16(payload + 2):  # the weight must be zero (AMQP 0-9-1 4.2.6.1)
            raise self.fault(UnexpectedFrame(
                "expected content header for class 60, got non content header frame instead"))
        length = load64(payload + 4)
        if length > message_bytes_max:
            raise self.fault(PreconditionFailed(
                f"message size {length} is larger than configured max size {message_bytes_max}"))
        self.properties = payload[12:size]
        self.left = length
        return 0

    cdef int append(self, const uint8_t *data, uint32_t size) except -1:
        if self.memory is None:
            if len(self.body) < LARGE_RECEIVED_BYTES or self.left < LARGE_LEFT_BYTES:
                self.body += data[:size]
                return 0
            self.memory = record_memory(
                len(self.method) - BITS_BYTES + len(self.properties), len(self.body) + self.left)
            self.memory.append(<const uint8_t *> PyByteArray_AS_STRING(self.body), len(self.body))
            self.body.clear()
        return self.memory.append(data, size)

    cdef size_t received(self) noexcept:
        """Bytes of the body that have come."""
        return self.memory.size if self.memory is not None else len(self.body)

    cdef const uint8_t *data(self) noexcept:
        """Where they are."""
        if self.memory is not None:
            return self.memory.body
        return <const uint8_t *> PyByteArray_AS_STRING(self.body)

    cdef object fault(self, object fault):
        return basic_fault(self.method_id, fault)


def basic_fault(method, fault):
    """The fault, with class basic and that method as its cause."""
    fault.class_id, fault.method_id = 60, method
    return fault


def undecodable(arguments):
    """The fault for arguments that do not parse; its text is RabbitMQ's, with an Erlang binary."""
    if arguments and all(32 <= octet < 127 for octet in arguments):
        shown = f'"{arguments.decode()}"'
    else:
        shown = ",".join(map(str, arguments))
    return FrameError(f"cannot decode <<{shown}>>",
                      logged=f"cannot decode {len(arguments)} octets")


def quoting(fault, kind, payload, wrong, told=None):
    """A fault with the beginning of a frame in its text, and the frame's length in the log."""
    return fault(f"type {kind}, {snippet(payload)}{told or wrong}",
                 logged=f"type {kind}, {len(payload)} octets{wrong}")


def snippet(payload):
    """The first bytes of a frame in the words of RabbitMQ's faults."""
    shown = ",".join(map(str, payload[:SNIPPET_BYTES]))
    return f"{'all' if len(payload) <= SNIPPET_BYTES else 'first 16'} octets = <<{shown}>>"
