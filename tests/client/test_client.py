"""The names that the client offers."""

import subprocess
import sys

import pytest

from leporid import client


def test_every_name_is_there_and_what_its_module_has():
    for name in client.__all__:
        assert getattr(client, name) is not None
        assert name in dir(client)
    assert client.__all__ == sorted(client.__all__)


def test_a_name_that_there_is_not():
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        _ = client.Nothing


def test_tools_do_not_load_the_client_of_amqp():
    script = (
        "import sys, leporid.client.management; "
        "sys.exit(any(name in sys.modules for name in ('asyncio', 'leporid.client.codec')))"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
