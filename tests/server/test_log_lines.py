"""What a peer can make a real broker write to its log, and what it says of the rest."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.server.client import Client

from leporid.amqp.methods import (
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
    QueueDeclare,
)
from leporid.testing import BrokerProcess

pytestmark = pytest.mark.slow

FAULTS = 100


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "data") as broker:
        yield broker


async def test_fault_after_fault_does_not_fill_the_log(broker: BrokerProcess):
    asking = QueueDeclare(queue="x" * 200, passive=True)
    for _ in range(3):
        client = await Client.connect(broker.amqp_port)
        await client.log_in()
        await client.say(asking)
        for _ in range(FAULTS):
            await client.hear(ChannelClose)
            await client.say(ChannelCloseOk(), ChannelOpen(), asking)
            await client.hear(ChannelOpenOk)
        client.close()
    assert broker.stop() == 0
    lines = broker.log_path.read_text().splitlines()
    told = [line for line in lines if "lines were left out of the log" in line]
    faults = [line for line in lines if "NOT_FOUND" in line and line not in told]
    assert 10 < len(faults) < 150
    assert all("x" * 200 in line for line in faults)
    assert any("guest" in line for line in told)
    assert any("leporid.broker.connection.session, line " in line for line in told)
