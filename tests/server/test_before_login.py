"""Peers that have not logged in, before a real broker: what they can make it do, and what not."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.server.client import Client

from leporid.amqp.frames import method_frame
from leporid.amqp.methods import ConnectionClose, ConnectionStartOk, ConnectionTune
from leporid.amqp.tables import Value
from leporid.broker.access.passwords import hash_password
from leporid.testing import BrokerProcess

pytestmark = pytest.mark.slow

# A source address of its own, which is of this machine like all that begin with 127.
ELSEWHERE = "127.0.0.2"
TELL_ME: dict[str, Value] = {"capabilities": {"authentication_failure_close": True}}

USERS = f"""
[users.ann]
password_hash = "{hash_password("right", b"s" * 16).text}"
[users.ann.permissions."/"]
configure = ".*"
write = ".*"
read = ".*"
"""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker with one user, whose password is hashed."""
    file = tmp_path / "leporid.toml"
    file.write_text(USERS)
    with BrokerProcess(tmp_path / "data", options=["--config", str(file)]) as broker:
        yield broker
        assert broker.stop() == 0, broker.log_tail()


async def claiming(broker: BrokerProcess, password: str, source: str = "") -> Client:
    """A peer that has claimed to be ann and waits for the answer."""
    client = await Client.connect(broker.amqp_port, source=source)
    await client.greet()
    response = b"\0ann\0" + password.encode()
    await client.say(ConnectionStartOk(client_properties=TELL_ME, response=response), channel=0)
    return client


async def test_600_wrong_logins_lock_nobody_out(broker: BrokerProcess):
    wrong = [await claiming(broker, f"wrong{at}", ELSEWHERE) for at in range(600)]
    answers = [asyncio.create_task(each.hear(ConnectionClose)) for each in wrong]
    right = await claiming(broker, "right")
    await right.hear(ConnectionTune)
    waiting = [each for each in answers if not each.done()]
    assert waiting
    for each in waiting:
        each.cancel()
    for client in [right, *wrong]:
        client.close()
    refused = [each.result() for each in answers if each.done() and not each.cancelled()]
    assert {each.reply_code for each in refused} <= {403}
    assert "logins are turned away" in broker.log_path.read_text()


async def test_a_hashing_process_that_is_killed_costs_nobody_a_login(broker: BrokerProcess):
    wrong = await claiming(broker, "wrong")
    assert (await wrong.hear(ConnectionClose)).reply_code == 403
    threads = Path(f"/proc/{broker.pid}/task").glob("*/children")
    (process,) = [int(pid) for thread in threads for pid in thread.read_text().split()]
    os.kill(process, signal.SIGKILL)
    right = await claiming(broker, "right")
    await right.hear(ConnectionTune)
    for client in (right, wrong):
        client.close()


async def test_peers_with_7900_properties_are_dropped_unread(broker: BrokerProcess):
    flood = [await Client.connect(broker.amqp_port, source=ELSEWHERE) for _ in range(200)]
    for client in flood:
        await client.greet()
    right = await claiming(broker, "right")
    properties: dict[str, Value] = {"list": [None] * 7900}
    start_ok = method_frame(0, ConnectionStartOk(properties, response=b"\0ann\0x"))
    for client in flood:
        await client.write(start_ok)
    await right.hear(ConnectionTune)
    for client in flood:
        await client.ends()
    for client in [right, *flood]:
        client.close()
    assert "more values than the limit of 128" in broker.log_tail()
