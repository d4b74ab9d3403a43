"""A large body in the output of a connection: its frames are made as the peer takes them.

Responsible for the bytes of these frames, from any of them on, and for keeping the body until the
last is sent. It must not know connections, nor what is sent before and after. Invariant: it keeps
one body and never a copy of it that others could have, so that a body costs its memory once,
however many peers do not read it.

A segment with the body is pinned (`Segment.pinned`). It may leave its log meanwhile, or be read
from its file: only the segment knows where its bytes are.
"""

from libc.stdint cimport uint8_t, uint16_t
from libc.string cimport memcpy
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
cimport cython

from leporid.engine.log.log cimport Segment
from leporid.engine.wire.codec cimport store16, store32

cdef enum:
    FRAME_BODY = 3
    FRAME_END = 0xce
    HEAD_BYTES = 7                  # of a frame, in front of its payload
    AROUND_BYTES = HEAD_BYTES + 1


# It refers to bytes alone, so it is in no cycle; and it needs its segment when it ends.
@cython.no_gc
cdef class LargeBody:
    """A body and how much of its frames was sent; made by `large_body`."""

    def __dealloc__(self):
        if self.segment is not None:
            self.segment.pinned -= 1
        PyBuffer_Release(&self.view)

    def __repr__(self):
        return f"<LargeBody of {self.size} bytes left={self.left}>"

    cdef size_t encode(self, uint8_t *to, size_t room) noexcept:
        """Write the frames that were not sent, as far as there is room; returns how much it is.

        The last frame may be cut off; the next call begins where `left` says.
        """
        cdef const uint8_t *body = <const uint8_t *> self.view.buf
        cdef uint8_t head[7]
        cdef size_t done = 0, sent, number, inside, payload, part
        if self.segment is not None:
            body = self.segment.base + self.at
        room = min(room, self.left)
        while done < room:
            sent = self.total - self.left + done
            number = sent // (self.step + AROUND_BYTES)
            inside = sent - number * (self.step + AROUND_BYTES)
            payload = min(self.step, self.size - number * self.step)
            if inside < HEAD_BYTES:
                head[0] = FRAME_BODY
                store16(head + 1, self.channel)
                store32(head + 3, <unsigned int> payload)
                part = min(HEAD_BYTES - inside, room - done)
                memcpy(to + done, head + inside, part)
            elif inside < HEAD_BYTES + payload:
                part = min(HEAD_BYTES + payload - inside, room - done)
                memcpy(to + done, body + number * self.step + inside - HEAD_BYTES, part)
            else:
                part = 1
                to[done] = FRAME_END
            done += part
        return done


cdef LargeBody large_body(object source, const uint8_t *body, size_t size, uint16_t channel,
                          size_t step):
    """Keep a body until its frames are sent.

    Args:
        source: the segment that has the body, or bytes that begin with it; None: the caller alone
            knows where it is, so that it is copied.
        step: bytes of it in one frame.
    """
    cdef LargeBody large = LargeBody()
    cdef Segment segment
    if isinstance(source, Segment):
        segment = <Segment> source
        assert segment.base <= body and body + size <= segment.base + segment.used
        large.at = body - segment.base
        segment.pinned += 1
        large.segment = segment
    else:
        PyObject_GetBuffer(body[:size] if source is None else source, &large.view, PyBUF_SIMPLE)
        assert <const uint8_t *> large.view.buf == body or source is None
    large.size, large.step, large.channel = size, step, channel
    large.total = large.left = size + (size + step - 1) // step * AROUND_BYTES
    return large
