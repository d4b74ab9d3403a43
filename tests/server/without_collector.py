"""A broker whose garbage collector runs only when it is asked to, over a socket.

    python without_collector.py SOCKET serve …

Whoever connects to the socket is told, as JSON, which types of objects were kept only by each other
since the last one asked, and how many of each; then they are freed.
"""

import gc
import json
import socket
import sys
import threading
from collections import Counter

from leporid.cli.main import main


def answer(listening: socket.socket) -> None:
    """Collect for each who connects."""
    while True:
        peer, _ = listening.accept()
        with peer:
            gc.set_debug(gc.DEBUG_SAVEALL)
            gc.collect()
            kinds = [type(one) for one in gc.garbage]
            found = Counter(f"{kind.__module__}.{kind.__qualname__}" for kind in kinds)
            gc.garbage.clear()
            gc.set_debug(0)
            gc.collect()
            peer.sendall(json.dumps(found).encode())


if __name__ == "__main__":
    gc.disable()
    path, *arguments = sys.argv[1:]
    server = socket.socket(socket.AF_UNIX)
    server.bind(path)
    server.listen()
    threading.Thread(target=answer, args=(server,), daemon=True).start()
    sys.exit(main(arguments))
