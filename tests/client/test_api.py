"""The HTTP API, as the client asks it."""

import asyncio

import pytest

from leporid.client import ApiError, RemoteProtocolError, Settings, Timeout
from leporid.client.api import Api
from leporid.testing import reserve_port

pytestmark = pytest.mark.slow


@pytest.fixture
def api(broker):
    return Api(Settings(api=f"http://127.0.0.1:{broker.http_port}/api/"), "elsewhere")


async def test_asking(api, broker):
    assert (await api.get("whoami"))["name"] == "guest"
    assert await api.get("queues", "/", "a/b", "browse") is None
    assert str(broker.http_port) in repr(api)


async def test_what_the_broker_refuses_is_told(api):
    with pytest.raises(ApiError, match=r"400 ") as caught:
        await api.get("queues", page="many")
    assert caught.value.status == 400


async def test_a_wrong_password(broker):
    wrong = Settings(api=f"http://127.0.0.1:{broker.http_port}", password="wrong")
    with pytest.raises(ApiError) as caught:
        await Api(wrong, "").get("whoami")
    assert caught.value.status == 401


async def test_nobody_answers():
    with pytest.raises(ApiError, match=r"Settings\.api"):
        await Api(Settings(api=f"http://127.0.0.1:{reserve_port()}"), "").get("whoami")


@pytest.mark.parametrize(
    ("answer", "error"), [(b"SSH-2.0-x\r\n", RemoteProtocolError), (b"", RemoteProtocolError)]
)
async def test_somebody_else_answers(answer, error):
    async def serve(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(error):
            await Api(Settings(api=f"http://127.0.0.1:{port}"), "").get("whoami")


async def test_an_answer_that_does_not_come():
    ended = asyncio.Event()

    async def serve(reader, writer):
        # The request, and the end when the client hangs up.
        try:
            while await reader.read(1000):
                pass
        except ConnectionError:
            pass
        writer.close()
        ended.set()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        settings = Settings(api=f"http://127.0.0.1:{port}", answer_timeout_s=0.1)
        with pytest.raises(Timeout, match="GET /api/whoami"):
            await Api(settings, "").get("whoami")
        await asyncio.wait_for(ended.wait(), 10)


def test_the_port_of_the_same_host_unless_told():
    assert repr(Api(Settings(), "::1")) == "<Api at ::1:15672>"
    assert repr(Api(Settings(api="https://mq"), "")) == "<Api at mq:443>"
