"""Assembling a message whose frames did not arrive together (AMQP 0-9-1 4.2.6).

Responsible for the order of its frames, and for the bytes kept until it is complete. It must not
know connections, nor what becomes of the message. Invariant: no memory is reserved for a length
that exceeds the limit, nor for content that will be refused.
"""

from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t

from leporid.engine.wire.codec cimport load16, load64

from leporid.amqp.errors import PreconditionFailed, SyntaxFault, UnexpectedFrame


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
                self.body += payload[:size]
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

    cdef object fault(self, object fault):
        return basic_fault(self.method_id, fault)


def basic_fault(method, fault):
    """The fault, with class basic and that method as its cause."""
    fault.class_id, fault.method_id = 60, method
    return fault
