"""How much memory the engine holds: it allocates by malloc, which Python does not trace."""

import ctypes


class Mallinfo2(ctypes.Structure):
    """What malloc says of itself (mallinfo(3))."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    )


def allocated_bytes() -> int:
    mallinfo2 = ctypes.CDLL(None).mallinfo2
    mallinfo2.restype = Mallinfo2
    info = mallinfo2()
    return int(info.uordblks) + int(info.hblkhd)
