"""The broker under attack: where it is, which process it is, and who may log in.

Responsible for starting Leporid or RabbitMQ on loopback with the users and the watermark that the
attacks expect, and for ending what was started. It does not know the attacks. Invariant: every
process, port and directory is this module's own, and is gone when the context ends.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import hashlib
import json
import os
import signal
import socket
import subprocess
import tempfile
import time
import urllib.parse
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from leporid.broker.access.passwords import SALT_BYTES, hash_password
from leporid.testing import BrokerProcess, reserve_port

Address = tuple[str, int]

LOOPBACK = "127.0.0.1"
# All of 127.0.0.0/8 is this machine: attackers have an address of their own, as elsewhere.
ATTACKER_ADDRESS = "127.0.0.2"
LEPORID, RABBITMQ = "leporid", "rabbitmq"
KINDS = (LEPORID, RABBITMQ)

RABBITMQ_SERVER = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
RABBITMQ_PLUGINS = ("rabbitmq_management", "rabbitmq_recent_history_exchange")
RABBITMQ_START_SECONDS = 60.0
# beam.smp ends at once when it is killed; its helpers follow when they see the end of their pipes.
REAP_SECONDS = 10.0
LOOK_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class User:
    """Who logs in; the password is the name.

    Attributes:
        permissions: patterns of configure, write and read.
        hashed: whether the broker knows the password only as its slowest hash.
    """

    name: str
    permissions: tuple[str, str, str] = (".*", ".*", ".*")
    tags: tuple[str, ...] = ()
    hashed: bool = False


USERS = {
    user.name: user
    for user in (
        User("canary", tags=("management",)),
        User("other"),
        User("hostile"),
        User("admin", tags=("administrator",)),
        User("reader", permissions=("", "", ".*")),
        User("nobody", permissions=("", "", "")),
        User("hashed", hashed=True),
    )
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A running broker.

    Attributes:
        kind: "leporid" or "rabbitmq": which attacks and paths apply.
        amqp: where AMQP clients connect.
        http: where `/health`, or RabbitMQ's management, is; None: not known.
        pid: its process; None: not known, so its memory is not measured.
        ours: it was started by us, so it may be ended when it uses too much.
        users: it has our users; otherwise everybody is guest.
        directory: where it keeps what it stores, if that is known.
        log_path: its log, a file or a directory of such, if that is known.
    """

    kind: str
    amqp: Address
    http: Address | None
    pid: int | None
    ours: bool
    users: bool = True
    directory: Path | None = None
    log_path: Path | None = None

    def url(self, user: str) -> str:
        """Where that user connects."""
        name = user if self.users else "guest"
        host, port = self.amqp
        return f"amqp://{name}:{name}@{host}:{port}/%2F"

    def authorization(self, user: str) -> str:
        """The value of HTTP's header of that name."""
        name = user if self.users else "guest"
        return "Basic " + base64.b64encode(f"{name}:{name}".encode()).decode()

    @property
    def health_path(self) -> str:
        """What answers 200 while all is well and no alarm is on."""
        return "/health" if self.kind == LEPORID else "/api/health/checks/local-alarms"

    @property
    def metrics_path(self) -> str:
        """What monitoring asks for every few seconds."""
        return "/metrics" if self.kind == LEPORID else "/api/overview"


@contextlib.contextmanager
def started(kind: str, watermark_bytes: int, *, default_users: bool = False) -> Iterator[Target]:
    """A broker of that kind, freshly started.

    Args:
        kind: one of KINDS.
        watermark_bytes: the memory at which it has its alarm.
        default_users: leave it with its default user, guest.
    """
    make = leporid if kind == LEPORID else rabbitmq
    with (
        tempfile.TemporaryDirectory(prefix="hostile-", ignore_cleanup_errors=True) as directory,
        make(Path(directory), watermark_bytes, default_users=default_users) as target,
    ):
        yield target


# ------------------------------------------------------------------ Leporid


@contextlib.contextmanager
def leporid(directory: Path, watermark_bytes: int, *, default_users: bool) -> Iterator[Target]:
    """This checkout's broker."""
    config = directory / "leporid.toml"
    config.write_text(
        leporid_configuration(watermark_bytes, () if default_users else USERS.values())
    )
    options = ["--config", str(config)]
    # As a package makes it; what the broker makes itself is its own matter.
    (directory / "data").mkdir(mode=0o755)
    with BrokerProcess(directory / "data", options=options) as process:
        yield Target(
            kind=LEPORID,
            amqp=(LOOPBACK, process.amqp_port),
            http=(LOOPBACK, process.http_port),
            pid=process.pid,
            ours=True,
            users=not default_users,
            directory=process.data_dir,
            log_path=process.log_path,
        )


def leporid_configuration(watermark_bytes: int, users: Iterable[User]) -> str:
    """The file for `leporid serve --config`."""
    lines = [f"memory_watermark = {watermark_bytes}"]
    for user in users:
        lines.append(f"[users.{user.name}]")
        lines.append(f'password_hash = "{_leporid_hash(user.name, slowest=user.hashed)}"')
        lines.append(f"tags = {json.dumps(user.tags)}")
        lines.append(f'[users.{user.name}.permissions."/"]')
        names = ("configure", "write", "read")
        lines += [
            f'{name} = "{value}"' for name, value in zip(names, user.permissions, strict=True)
        ]
    return "\n".join(lines) + "\n"


@functools.cache
def _leporid_hash(password: str, *, slowest: bool) -> str:
    """A password's hash, made once for all brokers: each would take a third of a second for it.

    The slowest has argon2-cffi's own cost, the others have the broker's.
    """
    import argon2

    if slowest:
        return argon2.PasswordHasher().hash(password)
    return hash_password(password, os.urandom(SALT_BYTES)).text


# ------------------------------------------------------------------ RabbitMQ


@contextlib.contextmanager
def rabbitmq(directory: Path, watermark_bytes: int, *, default_users: bool) -> Iterator[Target]:
    """Debian's RabbitMQ as a node of its own, with its management, all of it on loopback."""
    amqp, http, distribution, mapper = (reserve_port() for _ in range(4))
    (directory / "definitions.json").write_text(json.dumps(rabbitmq_definitions()))
    (directory / "enabled_plugins").write_text(f"[{','.join(RABBITMQ_PLUGINS)}].")
    (directory / "rabbitmq.conf").write_text(
        f"listeners.tcp.1 = {LOOPBACK}:{amqp}\n"
        f"management.tcp.ip = {LOOPBACK}\n"
        f"management.tcp.port = {http}\n"
        f"vm_memory_high_watermark.absolute = {watermark_bytes}\n"
        + ("" if default_users else f"load_definitions = {directory}/definitions.json\n")
    )
    environment = os.environ | {
        "HOME": str(directory),
        "ERL_EPMD_ADDRESS": LOOPBACK,
        "ERL_EPMD_PORT": str(mapper),
        "RABBITMQ_NODENAME": f"hostile{os.getpid()}@localhost",
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
        for command in (["epmd", "-port", str(mapper)], [str(RABBITMQ_SERVER)]):
            process = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            ending.callback(_end, process)
        # AMQP is listened to last of all, but the plugins may be later than that.
        if not (_answers((LOOPBACK, amqp), process) and _answers((LOOPBACK, http), process)):
            said = (directory / "output").read_text(errors="replace")[-2000:]
            raise RuntimeError(f"RabbitMQ did not start: {said}")
        yield Target(
            kind=RABBITMQ,
            amqp=(LOOPBACK, amqp),
            http=(LOOPBACK, http),
            pid=process.pid,
            ours=True,
            users=not default_users,
            directory=directory / "mnesia",
            log_path=directory / "log",
        )


def rabbitmq_definitions() -> dict[str, object]:
    """Users and permissions, as `load_definitions` reads them."""
    permissions = [
        {"user": user.name, "vhost": "/"}
        | dict(zip(("configure", "write", "read"), user.permissions, strict=True))
        for user in USERS.values()
    ]
    users = [
        {
            "name": user.name,
            "password_hash": _salted(user.name),
            "hashing_algorithm": "rabbit_password_hashing_sha256",
            "tags": ",".join(user.tags),
        }
        for user in USERS.values()
    ]
    return {"vhosts": [{"name": "/"}], "users": users, "permissions": permissions}


def _salted(password: str) -> str:
    salt = os.urandom(4)
    return base64.b64encode(salt + hashlib.sha256(salt + password.encode()).digest()).decode()


def _answers(address: Address, process: subprocess.Popen[bytes]) -> bool:
    """Wait until somebody listens there; False: the process ended, or it took too long."""
    deadline = time.monotonic() + RABBITMQ_START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(address, 1.0):
            return True
        time.sleep(LOOK_SECONDS)
    return False


def _end(process: subprocess.Popen[bytes]) -> None:
    """End what we started, with the helpers in its process group."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(REAP_SECONDS)


# ------------------------------------------------------------------ one that runs already


def running(kind: str, amqp: str, http: str | None, pid: int | None) -> Target:
    """A broker that somebody else started: it is attacked, never ended."""
    return Target(
        kind=kind,
        amqp=address_of(amqp),
        http=address_of(http) if http else None,
        pid=pid,
        ours=False,
        users=False,
    )


def address_of(text: str) -> Address:
    """HOST:PORT, taken apart.

    Raises:
        ValueError: it is something else.
    """
    parts = urllib.parse.urlsplit(f"//{text}")
    if not parts.hostname or not parts.port or parts.path:
        raise ValueError(f"not HOST:PORT: {text!r}")
    return parts.hostname, parts.port
