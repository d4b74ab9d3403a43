"""What systemd is told: sd_notify(3) without a library, one datagram for each state.

Responsible for the protocol of `$NOTIFY_SOCKET`. Must not know what the broker does. Invariant: the
broker never waits for systemd, and goes on if nobody listens.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Mapping
from typing import Final

logger = logging.getLogger(__name__)

MICROSECONDS: Final = 1_000_000
# While the log is replayed: systemd gets word each second, and waits for so long for the next.
EXTEND_EVERY_S: Final = 1.0
EXTEND_S: Final = 60


class ServiceManager:
    """systemd, if it has started this process and wants to know.

    Args:
        environment: the process's.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        address = environment.get("NOTIFY_SOCKET", "")
        # "@" stands for an address without a file.
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self._environment = environment
        self._extended_s = 0.0
        self._failed = False

    def __repr__(self) -> str:
        return f"<ServiceManager {self._address!r}>"

    @property
    def watchdog_seconds(self) -> float | None:
        """How often `alive` is to be said at least; None: nobody waits for it."""
        for_pid = self._environment.get("WATCHDOG_PID", "")
        usec = self._environment.get("WATCHDOG_USEC", "")
        if not usec.isdigit() or for_pid not in ("", str(os.getpid())):
            return None
        return int(usec) / MICROSECONDS

    def ready(self) -> None:
        """Clients may connect; or a reload is over."""
        self._say("READY=1")

    def reloading(self) -> None:
        """The configuration is read again."""
        self._say(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self) -> None:
        """The broker ends, in order."""
        self._say("STOPPING=1")

    def alive(self) -> None:
        """The loop goes round."""
        self._say("WATCHDOG=1")

    def still_starting(self) -> None:
        """The start goes on; may be called as often as anything happens."""
        now_s = time.monotonic()
        if self._address and now_s - self._extended_s >= EXTEND_EVERY_S:
            self._extended_s = now_s
            self._say(f"EXTEND_TIMEOUT_USEC={EXTEND_S * MICROSECONDS}")

    def _say(self, text: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
                sender.setblocking(False)
                sender.sendto(text.encode(), self._address)
        except OSError as error:
            if not self._failed:
                logger.warning(
                    "cannot tell the service manager %s: %s", text.partition("=")[0], error
                )
            self._failed = True
