"""Who asks."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
from collections.abc import Callable

import httpx
import pytest
from tests.management.conftest import World
from tests.server.client import PATIENCE_S

from leporid.broker.access.access import Credentials, User
from leporid.broker.access.backends import Answer, Leave, LoginRequest
from leporid.broker.access.logins import WAITING_MAX, Logins, TooManyLogins
from leporid.broker.access.passwords import Argon2Hash, hash_password
from leporid.broker.access.permissions import EVERYTHING
from leporid.limits.shares import address_key

API = "/api/streams/%2F"
NOBODY = httpx.Auth()
SLOW = hash_password("sü:ß", b"x" * 16)


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Basic",
        "Basic !!!",
        "Basic " + base64.b64encode(b"guest").decode(),
        "Basic " + base64.b64encode(b"guest:wrong").decode(),
        "Basic " + base64.b64encode(b"guest:").decode(),
        "Basic " + base64.b64encode(b"nobody:guest").decode(),
        "Basic " + base64.b64encode(b"\xff\xfe:guest").decode(),
    ],
)
async def test_strangers_are_asked_to_log_in(client: httpx.AsyncClient, header: str | None):
    headers = {} if header is None else {"authorization": header}
    answer = await client.get(API, headers=headers, auth=NOBODY)
    assert (answer.status_code, answer.json()["error"]) == (401, "not_authorized")
    assert answer.headers["www-authenticate"].startswith('Basic realm="RabbitMQ Management"')


async def test_a_token_that_is_refused_is_told_so(client: httpx.AsyncClient):
    answer = await client.get(API, headers={"authorization": "Bearer abc"}, auth=NOBODY)
    assert answer.status_code == 401
    assert answer.json()["reason"] == "The token was refused; the log of the broker says why"
    challenge = answer.headers["www-authenticate"]
    assert challenge.startswith('Bearer realm="Leporid", error="invalid_token"')
    assert "abc" not in answer.text


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The passwords that argon2 was asked about."""
    asked: list[bytes] = []
    matches = Argon2Hash.matches

    def counting(self: Argon2Hash, password: bytes) -> bool:
        asked.append(password)
        return matches(self, password)

    monkeypatch.setattr(Argon2Hash, "matches", counting)
    return asked


async def test_a_password_is_hashed_once(
    world: World, client: httpx.AsyncClient, hashed: list[bytes]
):
    world.broker.access.put_user(User("slow", SLOW, permissions={"/": EVERYTHING}))
    for _ in range(3):
        assert (await client.get(API, auth=("slow", "sü:ß"))).status_code == 200
    assert hashed == ["sü:ß".encode()]
    assert (await client.get(API, auth=("slow", "wrong"))).status_code == 401


@pytest.mark.parametrize("name", ["guest", "slow", "nobody"])
@pytest.mark.parametrize("password", ["", "wrong"])
async def test_whoever_is_refused_has_cost_one_hash(
    world: World, client: httpx.AsyncClient, hashed: list[bytes], name: str, password: str
):
    world.broker.access.put_user(User("slow", SLOW, permissions={"/": EVERYTHING}))
    assert (await client.get(API, auth=(name, password))).status_code == 401
    assert hashed == [password.encode()]


async def test_users_of_this_machine_only(world: World, client: httpx.AsyncClient):
    object.__setattr__(world.around, "is_loopback", lambda host: False)
    assert (await client.get(API)).status_code == 401


# ------------------------------------------------------------- whose turn it is


class Hashes:
    """Hashes that are made when the test says so."""

    def __init__(self, world: World) -> None:
        self.waiting: list[tuple[Callable[[], None], Callable[[], None]]] = []
        self.logins = Logins(
            world.broker.access,
            lambda work, done: self.waiting.append((work, done)),
            world.broker.refusals,
            world.engine.jobs,
        )
        world.broker.logins = self.logins

    def claim(self, password: str, address: str) -> None:
        self.logins.begin(
            Credentials("PLAIN", f"user of {password}", password.encode()),
            address_key(address),
            loopback=False,
            answered=lambda _: None,
        )

    def fill(self, address: str) -> None:
        """Have as many logins wait as an address may have."""
        with contextlib.suppress(TooManyLogins):
            for at in itertools.count():
                self.claim(f"{at}", address)

    async def until(self, waiting: int) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while self.logins.waiting != waiting:
                await asyncio.sleep(0)

    def make_one(self) -> None:
        work, done = self.waiting.pop(0)
        work()
        done()


@pytest.fixture
def hashes(world: World) -> Hashes:
    world.broker.access.put_user(User("slow", SLOW, permissions={"/": EVERYTHING}))
    return Hashes(world)


async def test_who_has_too_many_waiting_is_told_to_come_back(
    client: httpx.AsyncClient, hashes: Hashes
):
    hashes.fill("127.0.0.1")
    answer = await client.get(API, auth=("slow", "sü:ß"))
    assert (answer.status_code, answer.json()["error"]) == (429, "too-many-logins")
    assert f"password_hashes: at most {WAITING_MAX} may wait" in answer.json()["reason"]
    assert int(answer.headers["retry-after"]) >= 1
    # Who needs no hash does not wait for one.
    assert (await client.get(API)).status_code == 200


async def test_when_all_places_are_taken_that_is_said(client: httpx.AsyncClient, hashes: Hashes):
    for at in range(WAITING_MAX):
        hashes.fill(f"192.0.2.{at}")
    answer = await client.get(API, auth=("slow", "sü:ß"))
    assert (answer.status_code, answer.json()["error"]) == (503, "busy")
    assert int(answer.headers["retry-after"]) >= 1


async def test_a_right_password_gets_in_before_wrong_ones_of_another_address(
    client: httpx.AsyncClient, hashes: Hashes
):
    hashes.fill("192.0.2.1")
    waiting = hashes.logins.waiting
    asking = asyncio.create_task(client.get(API, auth=("slow", "sü:ß")))
    async with asyncio.timeout(PATIENCE_S):
        while len(hashes.waiting) < 2:
            await asyncio.sleep(0)
    hashes.make_one()
    hashes.make_one()
    assert (await asking).status_code == 200
    assert hashes.logins.waiting == waiting - 1


async def test_a_client_that_is_gone_gives_its_place_up(client: httpx.AsyncClient, hashes: Hashes):
    hashes.claim("first", "127.0.0.1")  # which is being hashed
    _, writer = await asyncio.open_connection(client.base_url.host, client.base_url.port)
    credentials = base64.b64encode(b"slow:wrong").decode()
    writer.write(
        f"GET {API} HTTP/1.1\r\nhost: localhost\r\n"
        f"authorization: Basic {credentials}\r\n\r\n".encode()
    )
    await hashes.until(waiting=1)
    writer.close()
    await hashes.until(waiting=0)
    await writer.wait_closed()
    hashes.make_one()
    assert hashes.waiting == []


async def test_who_is_wrong_is_told_as_by_rabbitmq(client: httpx.AsyncClient):
    answer = await client.get(API, auth=("guest", "wrong"))
    assert answer.json() == {"error": "not_authorized", "reason": "Login failed"}


async def test_only_who_knows_the_password_is_told_that_it_counts_here_only(
    client: httpx.AsyncClient,
):
    through_a_proxy = {"x-forwarded-for": "10.0.0.1"}
    for password, reason in (
        ("guest", "User can only log in via localhost"),
        ("wrong", "Login failed"),
    ):
        answer = await client.get(API, auth=("guest", password), headers=through_a_proxy)
        assert (answer.status_code, answer.json()["reason"]) == (401, reason)


class Refusing:
    """A back end that lets nobody in, asked instead of the broker's own users."""

    name = "refusing"

    def log_in(self, login: LoginRequest, answer: Answer) -> Leave:
        answer("nobody")
        return lambda: None

    def renew(self, user: User, secret: bytes, answer: Answer) -> Leave:
        answer("nobody")
        return lambda: None


async def test_users_who_are_not_asked_about_are_not_told_of(
    world: World, client: httpx.AsyncClient
):
    world.broker.backends.use([Refusing()])
    through_a_proxy = {"x-forwarded-for": "10.0.0.1"}
    answer = await client.get(API, auth=("guest", "guest"), headers=through_a_proxy)
    assert (answer.status_code, answer.json()["reason"]) == (401, "Login failed")
