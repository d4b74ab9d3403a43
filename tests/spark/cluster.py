"""A Spark cluster of processes on loopback, of whom any may be killed, and drivers on it.

The scripts that start a master and workers come with the package `pyspark`; nothing is downloaded.
What a process logs is read as it comes, so that the moment it is ready is an event and not a guess.
"""

from __future__ import annotations

import json
import os
import queue
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import pyspark

from leporid.spark.session import prepare_environment

SPARK_CLASS = Path(pyspark.__file__).with_name("bin") / "spark-class"
ROOT = Path(__file__).parents[2]
DRIVER = "tests.spark.cluster_driver"

# Ten seconds at most on a quiet machine with two cores.
START_SECONDS = 120.0
WORKERS = 2
LOG_TAIL_LINES = 40


def environment() -> dict[str, str]:
    """What every process of the cluster inherits, the drivers included."""
    environ = dict(os.environ)
    prepare_environment(environ)
    return {
        **environ,
        # Nothing of this listens anywhere else, whatever the machine is called.
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": os.environ["SPARK_SUBMIT_OPTS"],
        "SPARK_NO_DAEMONIZE": "1",
    }


class Spoken:
    """A process that says on one of its outputs how far it is, and can be told what to do.

    Attributes:
        lines: what it said and nobody has waited for yet; None: it will say no more.
    """

    def __init__(
        self, name: str, command: list[str], environ: Mapping[str, str], output: str
    ) -> None:
        self.name = name
        self.lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._said: list[str] = []
        self._process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE if output == "stdout" else subprocess.DEVNULL,
            stderr=subprocess.PIPE if output == "stderr" else None,
            text=True,
            # With what it starts in its turn, so that all of it can be killed at once.
            start_new_session=True,
        )
        said = self._process.stdout or self._process.stderr
        assert said is not None
        self._listener = threading.Thread(target=self._listen, args=(said,), daemon=True)
        self._listener.start()

    def _listen(self, said: Any) -> None:
        with said:
            for line in said:
                self._said.append(line)
                self.lines.put(line)
        self.lines.put(None)

    def tell(self, **plan: Any) -> None:
        """Write a line to its standard input."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(plan) + "\n")
        self._process.stdin.flush()

    def wait_for(self, pattern: str, seconds: float = START_SECONDS) -> re.Match[str]:
        """Return the next line that has the pattern."""
        timer = threading.Timer(seconds, self.lines.put, [None])
        timer.start()
        try:
            while (line := self.lines.get()) is not None:
                if found := re.search(pattern, line):
                    return found
        finally:
            timer.cancel()
        tail = "".join(self._said[-LOG_TAIL_LINES:])
        raise AssertionError(f"{self.name} did not say {pattern!r} in {seconds} s; it said\n{tail}")

    def kill(self) -> None:
        """SIGKILL to it and to what it has started, as when a machine is gone."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._process.wait()
        self._listener.join()
        assert self._process.stdin is not None
        self._process.stdin.close()


class Cluster:
    """A standalone master and two workers of one core each."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._environ = environment()
        self._started: list[Spoken] = []
        self._driver: Spoken | None = None
        self.workers: list[Spoken] = []

    def __enter__(self) -> Self:
        try:
            master = self._start(
                "master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0"
            )
            self.url = master.wait_for(r"(spark://127\.0\.0\.1:\d+)")[1]
            self.complete()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        # A driver first: it would ask for executors in the place of those that are killed.
        for process in reversed(self._started):
            process.kill()

    def complete(self) -> None:
        """Start workers in the place of those that were killed."""
        missing = WORKERS - len(self.workers)
        made = [
            self._start(
                "worker.Worker",
                *("--host", "127.0.0.1", "--webui-port", "0"),
                *("--cores", "1", "--memory", "1g"),
                *("--work-dir", str(self._folder / "work"), self.url),
            )
            for _ in range(missing)
        ]
        for worker in made:
            worker.wait_for("Successfully registered with master")
        self.workers += made

    def kill_worker(self, which: int) -> None:
        """One machine is gone, with its executor."""
        self.workers.pop(which).kill()

    def _start(self, name: str, *options: str) -> Spoken:
        command = [str(SPARK_CLASS), f"org.apache.spark.deploy.{name}", *options]
        process = Spoken(name, command, self._environ, "stderr")
        self._started.append(process)
        return process

    @property
    def driver(self) -> Spoken:
        """A process that runs queries of `cluster_driver`, one after the other."""
        if self._driver is None:
            facts = {"master": self.url, "folder": str(self._folder)}
            command = [sys.executable, "-m", DRIVER, json.dumps(facts)]
            self._driver = Spoken(DRIVER, command, self._environ, "stdout")
            self._started.append(self._driver)
        return self._driver

    def kill_driver(self) -> None:
        """The next query has another one, and executors of its own."""
        self.driver.kill()
        self._driver = None


class Gate:
    """Where tasks wait in their middle, until they are let through; from then on it is open.

    Attributes:
        port: where tasks connect to; they go on when they are given a byte.
    """

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._changed = threading.Condition()
        self._open = False
        self._waiting: list[socket.socket] = []
        self._doorman = threading.Thread(target=self._let_in, daemon=True)
        self._doorman.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.open()
        # Closing a socket does not wake up who waits for connections to it.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._doorman.join()
        self._listener.close()

    def _let_in(self) -> None:
        while True:
            try:
                peer, _ = self._listener.accept()
            except OSError:
                return
            with self._changed:
                self._waiting.append(peer)
                if self._open:
                    self._let_through()
                self._changed.notify()

    def wait_for(self, count: int, seconds: float = START_SECONDS) -> None:
        """Return when so many tasks are waiting."""
        with self._changed:
            came = self._changed.wait_for(lambda: len(self._waiting) >= count, seconds)
            assert came, f"{len(self._waiting)} of {count} tasks came to the gate in {seconds} s"

    def open(self) -> None:
        """Let all through who wait, and who come."""
        with self._changed:
            self._open = True
            self._let_through()

    def _let_through(self) -> None:
        while self._waiting:
            with self._waiting.pop() as peer:
                try:
                    peer.sendall(b"!")
                except OSError:
                    pass  # it was killed
