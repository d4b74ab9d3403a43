"""A real RabbitMQ of the distribution's package, in processes of its own, for tests."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from leporid.testing import reserve_port

SERVER = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
START_SECONDS = 60.0
END_SECONDS = 10.0


@contextlib.contextmanager
def rabbitmq(directory: Path) -> Iterator[str]:
    """Run one on ports of its own; give its URL."""
    amqp, distribution, mapper = (reserve_port() for _ in range(3))
    (directory / "enabled_plugins").write_text("[].")
    (directory / "rabbitmq.conf").write_text(f"listeners.tcp.1 = 127.0.0.1:{amqp}\n")
    environment = os.environ | {
        "HOME": str(directory),
        "ERL_EPMD_PORT": str(mapper),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODENAME": f"client{os.getpid()}@localhost",
        "RABBITMQ_DIST_PORT": str(distribution),
        "RABBITMQ_CONFIG_FILE": str(directory / "rabbitmq"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(directory / "enabled_plugins"),
        "RABBITMQ_MNESIA_BASE": str(directory / "mnesia"),
        "RABBITMQ_LOG_BASE": str(directory / "log"),
        "RABBITMQ_PID_FILE": str(directory / "pid"),
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
        # Then the script is replaced by the node itself, whose process is the one we started.
        "RUNNING_UNDER_SYSTEMD": "true",
    }
    with contextlib.ExitStack() as ending, (directory / "output").open("wb") as output:
        for command in (["epmd", "-port", str(mapper)], [str(SERVER)]):
            process = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
            ending.callback(process.wait, END_SECONDS)
            ending.callback(process.kill)
        _wait_for(amqp, process, directory / "output")
        yield f"amqp://guest:guest@127.0.0.1:{amqp}/%2F"


def _wait_for(port: int, process: subprocess.Popen[bytes], output: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0):
            return
        time.sleep(0.1)
    raise RuntimeError(f"RabbitMQ did not start: {output.read_text(errors='replace')[-2000:]}")
