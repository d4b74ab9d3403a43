"""Users, permissions and limits that change while clients are connected.

The management is RabbitMQ's, so its own `rabbitmqadmin` is one of the clients here, where Debian's
package has put it.
"""

import contextlib
import itertools
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pika
import pytest
from pika import BasicProperties
from pika.adapters.blocking_connection import BlockingChannel, BlockingConnection
from pika.exceptions import (
    ChannelClosedByBroker,
    ConnectionClosedByBroker,
    ProbableAccessDeniedError,
)
from tests.conformance.marks import differs
from tests.conformance.pika_steps import SECONDS, Inbox, pump

from leporid.testing import BrokerProcess

ADMIN = Path("/usr/lib/rabbitmq/lib")
ALL = {"configure": ".*", "write": ".*", "read": ".*"}
RIGHTS = tuple(ALL)
PASSWORD = "secret"

pytestmark = differs


class Api:
    """The management of a broker, as an administrator."""

    def __init__(self, url: str) -> None:
        self.client = httpx.Client(base_url=url, auth=("guest", "guest"), trust_env=False)

    def close(self) -> None:
        self.client.close()

    def put(self, *path: str, **body: Any) -> None:
        answer = self.client.put(self._path(path), json=body)
        assert answer.is_success, answer.text

    def delete(self, *path: str) -> None:
        answer = self.client.delete(self._path(path))
        assert answer.is_success, answer.text

    def get(self, *path: str) -> Any:
        answer = self.client.get(self._path(path))
        assert answer.is_success, answer.text
        return answer.json()

    def has(self, *path: str) -> bool:
        return self.client.get(self._path(path)).status_code == 200

    def _path(self, path: tuple[str, ...]) -> str:
        return "/" + "/".join(quote(each, safe="") for each in path)


@pytest.fixture
def api(api_url: str) -> Iterator[Api]:
    with contextlib.closing(Api(api_url)) as found:
        yield found


def api_of(broker: BrokerProcess) -> contextlib.closing[Api]:
    return contextlib.closing(Api(f"http://127.0.0.1:{broker.http_port}/api"))


_numbers = itertools.count()


class Place:
    """A virtual host of its own, with one user who may do everything there."""

    def __init__(self, api: Api, port: int) -> None:
        number = next(_numbers)
        self.api, self.port = api, port
        self.user, self.vhost = f"user-{number}", f"vhost/{number}"
        self._opened: list[BlockingConnection] = []
        api.put("vhosts", self.vhost)
        api.put("users", self.user, password=PASSWORD, tags="")
        self.permit()

    def permit(self, **rights: str) -> None:
        self.api.put("permissions", self.vhost, self.user, **(ALL | rights))

    def permit_topics(self, exchange: str, write: str, read: str) -> None:
        self.api.put(
            "topic-permissions", self.vhost, self.user, exchange=exchange, write=write, read=read
        )

    def connect(self, user: str = "", password: str = PASSWORD) -> BlockingConnection:
        credentials = pika.PlainCredentials(user or self.user, password)
        self._opened.append(
            BlockingConnection(
                pika.ConnectionParameters(
                    "127.0.0.1", self.port, self.vhost, credentials, socket_timeout=SECONDS
                )
            )
        )
        return self._opened[-1]

    def channel(self) -> BlockingChannel:
        return self.connect().channel()

    def close(self) -> None:
        for each in self._opened:
            with contextlib.suppress(pika.exceptions.AMQPError):
                each.close()
        if self.api.has("users", self.user):
            self.api.delete("users", self.user)
        if self.api.has("vhosts", self.vhost):
            self.api.delete("vhosts", self.vhost)


@pytest.fixture
def place(api: Api, broker_url: str) -> Iterator[Place]:
    port = pika.URLParameters(broker_url).port
    with contextlib.closing(Place(api, port)) as found:
        yield found


def refused(code: int, text: str, call: Callable[[], Any]) -> None:
    """Check that a call closes its channel or connection."""
    with pytest.raises((ChannelClosedByBroker, ConnectionClosedByBroker)) as caught:
        call()
    assert caught.value.reply_code == code, caught.value
    assert re.search(text, caught.value.reply_text), caught.value


def soon_refused(code: int, text: str, call: Callable[[], Any]) -> None:
    """Check that a call is refused within a second after what was changed."""
    deadline = time.monotonic() + SECONDS

    def until_refused() -> None:
        while time.monotonic() < deadline:
            call()

    refused(code, text, until_refused)


def ended(connection: BlockingConnection) -> ConnectionClosedByBroker:
    """Wait until the broker closes a connection; returns why."""
    with pytest.raises(ConnectionClosedByBroker) as caught:
        pump(connection, lambda: False)
    return caught.value


# ------------------------------------------------------------------ taken away while connected


def test_publishing_stops_when_write_is_taken_away(place: Place):
    channel = place.channel()
    channel.queue_declare("q")
    channel.confirm_delivery()
    channel.basic_publish("", "q", b"before")
    place.permit(write="^q$")
    soon_refused(
        403,
        "write access to exchange 'amq.default'",
        lambda: channel.basic_publish("", "q", b"after"),
    )


def test_publishing_in_transactions_stops_too(place: Place):
    channel = place.channel()
    channel.queue_declare("q")
    channel.tx_select()
    channel.basic_publish("", "q", b"before")
    channel.tx_commit()
    place.permit(write="")

    def again() -> None:
        channel.basic_publish("", "q", b"after")
        channel.tx_commit()

    soon_refused(403, "write access to exchange 'amq.default'", again)


def test_a_message_in_several_frames_is_asked_about_when_it_is_whole(place: Place):
    channel = place.channel()
    channel.queue_declare("q")
    channel.confirm_delivery()
    channel.basic_publish("", "q", b"x" * 300_000)
    place.permit(write="")
    body = b"x" * 300_000
    soon_refused(403, "write access", lambda: channel.basic_publish("", "q", body))


def test_consumers_are_cancelled_when_read_is_taken_away(place: Place):
    connection = place.connect()
    channel = connection.channel()
    for queue in ("kept", "lost"):
        channel.queue_declare(queue)
    cancelled: list[str] = []
    channel.add_on_cancel_callback(lambda frame: cancelled.append(frame.method.consumer_tag))
    kept, lost = Inbox(channel, "kept"), Inbox(channel, "lost")
    place.permit(read="^kept$")
    pump(connection, lambda: bool(cancelled))
    assert cancelled == [lost.tag]
    channel.basic_publish("", "lost", b"not for you")
    channel.basic_publish("", "kept", b"for you")
    assert kept.wait_for(1) == [b"for you"]
    assert lost.bodies == []
    assert channel.queue_declare("lost", passive=True).method.message_count == 1
    refused(403, "read access to queue 'lost'", lambda: channel.basic_get("lost"))


def test_what_a_cancelled_consumer_has_it_may_still_settle(place: Place):
    connection = place.connect()
    channel = connection.channel()
    channel.queue_declare("q")
    channel.basic_publish("", "q", b"one")
    inbox = Inbox(channel, "q")
    inbox.wait_for(1)
    cancelled: list[object] = []
    channel.add_on_cancel_callback(cancelled.append)
    place.permit(read="")
    pump(connection, lambda: bool(cancelled))
    channel.basic_ack(inbox.deliveries[0].delivery_tag)
    channel.queue_declare("other")  # a round trip: the channel is still open
    channel.close()
    place.permit()
    checked = place.channel()
    assert checked.basic_get("q") == (None, None, None)


def test_readers_of_a_group_are_cancelled_too(place: Place):
    connection = place.connect()
    channel = connection.channel()
    channel.queue_declare("s", durable=True, arguments={"x-queue-type": "stream"})
    channel.basic_qos(prefetch_count=10)
    cancelled: list[object] = []
    channel.add_on_cancel_callback(cancelled.append)
    Inbox(channel, "s", arguments={"x-group": "g", "x-stream-offset": "first"})
    place.permit(read="")
    pump(connection, lambda: bool(cancelled))


def test_declaring_stops_when_configure_is_taken_away(place: Place):
    channel = place.channel()
    channel.queue_declare("q1")
    place.permit(configure="^q1$")
    channel.queue_declare("q1")
    refused(403, "configure access to queue 'q2'", lambda: channel.queue_declare("q2"))


def test_a_connection_ends_when_its_user_may_not_enter_any_more(place: Place):
    connection = place.connect()
    place.api.delete("permissions", place.vhost, place.user)
    why = ended(connection)
    assert why.reply_code == 320
    assert f"access to vhost '{place.vhost}' was revoked" in why.reply_text
    with pytest.raises(ProbableAccessDeniedError, match=f"access to vhost '{place.vhost}' refused"):
        place.connect()


def test_connections_of_a_deleted_user_end(place: Place):
    first, second = place.connect(), place.connect()
    place.api.delete("users", place.user)
    for connection in (first, second):
        why = ended(connection)
        assert (why.reply_code, why.reply_text) == (
            320,
            f"CONNECTION_FORCED - user '{place.user}' is deleted",
        )
    with pytest.raises(pika.exceptions.ProbableAuthenticationError):
        place.connect()


def test_a_new_password_counts_for_new_connections(place: Place):
    connection = place.connect()
    place.api.put("users", place.user, password="another", tags="")
    with pytest.raises(pika.exceptions.ProbableAuthenticationError):
        place.connect()
    place.connect(password="another").close()
    connection.channel().queue_declare("still-here")


def test_who_is_no_impersonator_any_more_publishes_under_the_own_name(place: Place):
    place.api.put("users", place.user, password=PASSWORD, tags="impersonator")
    channel = place.channel()
    channel.queue_declare("q")
    channel.confirm_delivery()
    other = BasicProperties(user_id="somebody")
    channel.basic_publish("", "q", b"", other)
    place.api.put("users", place.user, password=PASSWORD, tags="")
    soon_refused(406, "user_id property", lambda: channel.basic_publish("", "q", b"", other))


# ------------------------------------------------------------------ topics


def test_topic_permissions_of_a_live_connection(place: Place):
    channel = place.channel()
    channel.exchange_declare("t", "topic")
    channel.confirm_delivery()
    channel.basic_publish("t", "anything", b"")
    place.permit_topics("t", r"^{username}\.", "^public")
    channel.basic_publish("t", f"{place.user}.x", b"")
    soon_refused(
        403,
        rf"write access to topic 'anything' in exchange 't' in vhost '{place.vhost}'",
        lambda: channel.basic_publish("t", "anything", b""),
    )
    place.api.delete("topic-permissions", place.vhost, place.user, "t")
    channel = place.channel()
    channel.confirm_delivery()
    channel.basic_publish("t", "anything", b"")


def test_copies_are_no_way_around(place: Place):
    channel = place.channel()
    channel.exchange_declare("t", "topic")
    place.permit_topics("t", "^mine", "")
    for header in ("CC", "BCC"):
        channel = place.channel()
        channel.confirm_delivery()
        properties = BasicProperties(headers={header: ["mine.1", "yours.1"]})
        publish_copies = partial(channel.basic_publish, "t", "mine.2", b"", properties)
        refused(403, "topic 'yours.1'", publish_copies)


def test_binding_needs_read_on_the_topic(place: Place):
    channel = place.channel()
    channel.exchange_declare("t", "topic")
    channel.exchange_declare("d", "direct")
    channel.queue_declare("q")
    place.permit_topics("t", "", r"^{vhost}/")
    place.permit_topics("d", "", "^never")
    channel.queue_bind("q", "t", f"{place.vhost}/a")
    channel.queue_bind("q", "d", "topic permissions are for topic exchanges only")
    refused(403, "read access to topic 'a'", lambda: channel.queue_bind("q", "t", "a"))
    channel = place.channel()
    refused(403, "read access to topic 'a'", lambda: channel.queue_unbind("q", "t", "a"))
    channel = place.channel()
    channel.exchange_declare("other", "fanout")
    refused(403, "read access to topic 'a'", lambda: channel.exchange_bind("other", "t", "a"))


def test_names_are_no_patterns(place: Place):
    """A user who is called like a pattern is allowed nothing by that."""
    name = ".*"
    place.api.put("users", name, password=PASSWORD, tags="")
    try:
        place.api.put("permissions", place.vhost, name, **ALL)
        place.channel().exchange_declare("t", "topic")
        body = {"exchange": "t", "write": "^{username}$", "read": "^{client_id}"}
        place.api.put("topic-permissions", place.vhost, name, **body)
        channel = place.connect(name).channel()
        channel.confirm_delivery()
        channel.basic_publish("t", ".*", b"")
        refused(403, "topic 'anything'", lambda: channel.basic_publish("t", "anything", b""))
        channel = place.connect(name).channel()
        channel.queue_declare("q")
        refused(403, "topic '{client_id}'", lambda: channel.queue_bind("q", "t", "{client_id}"))
    finally:
        place.api.delete("users", name)


# ------------------------------------------------------------------ limits


def test_the_limit_of_connections_of_a_virtual_host(place: Place):
    connection = place.connect()
    place.api.put("vhost-limits", place.vhost, "max-connections", value=1)
    text = (
        rf"access to vhost '{place.vhost}' refused for user '{place.user}': "
        r"connection limit \(1\) is reached"
    )
    with pytest.raises(ProbableAccessDeniedError, match=text):
        place.connect()
    connection.close()
    place.connect()
    place.api.put("vhost-limits", place.vhost, "max-connections", value=-1)
    place.connect()
    place.api.put("vhost-limits", place.vhost, "max-connections", value=0)
    with pytest.raises(ProbableAccessDeniedError, match=r"connection limit \(0\) is reached"):
        place.connect()


def test_the_limits_of_a_user(place: Place):
    connection = place.connect()
    place.api.put("user-limits", place.user, "max-connections", value=1)
    text = rf"connection refused for user '{place.user}': user connection limit \(1\) is reached"
    with pytest.raises(ProbableAccessDeniedError, match=text):
        place.connect()
    place.api.delete("user-limits", place.user, "max-connections")
    other = place.connect()
    place.api.put("user-limits", place.user, "max-channels", value=2)
    first, _ = connection.channel(), other.channel()
    first.close()
    connection.channel()
    text = (
        rf"number of channels opened for user '{place.user}' has reached the maximum allowed user "
        r"limit of \(2\)"
    )
    refused(530, text, other.channel)


def test_the_limit_of_queues_of_a_virtual_host(place: Place):
    channel = place.channel()
    channel.queue_declare("one")
    place.api.put("vhost-limits", place.vhost, "max-queues", value=1)
    channel.queue_declare("one")
    text = rf"cannot declare queue 'two': queue limit in vhost '{place.vhost}' \(1\) is reached"
    refused(406, text, lambda: channel.queue_declare("two"))
    channel = place.channel()
    channel.queue_delete("one")
    channel.queue_declare("two")


# ------------------------------------------------------------------ virtual hosts


def test_a_virtual_hosts_life(place: Place):
    connection = place.connect()
    channel = connection.channel()
    channel.queue_declare("q", durable=True)
    channel.basic_publish("", "q", b"gone", BasicProperties(delivery_mode=2))
    place.api.delete("vhosts", place.vhost)
    why = ended(connection)
    assert (why.reply_code, why.reply_text) == (
        320,
        f"CONNECTION_FORCED - vhost '{place.vhost}' is deleted",
    )
    with pytest.raises(ProbableAccessDeniedError, match=f"vhost {place.vhost} not found"):
        place.connect()
    place.api.put("vhosts", place.vhost)
    with pytest.raises(ProbableAccessDeniedError, match="access to vhost"):
        place.connect()  # its permissions went, too
    place.permit()
    assert place.channel().queue_declare("q", durable=True).method.message_count == 0


def test_the_default_type_of_queues(place: Place):
    place.channel().queue_declare("before", durable=True)
    place.api.put("vhosts", place.vhost, default_queue_type="quorum")
    channel = place.channel()
    channel.queue_declare("q", durable=True)
    channel.queue_declare("q", durable=True, arguments={"x-queue-type": "quorum"})
    channel.queue_declare("before", durable=True)
    channel.queue_declare("mine", exclusive=True)
    classic = {"x-queue-type": "classic"}
    again = {"durable": True, "arguments": classic}
    refused(406, "x-queue-type", lambda: channel.queue_declare("q", **again))


# ------------------------------------------------------------------ what stays


def test_all_of_it_survives_a_crash(own_broker: BrokerProcess):
    def everything() -> dict[str, Any]:
        nouns = ("users", "permissions", "topic-permissions", "vhost-limits", "user-limits")
        with api_of(own_broker) as api:
            found = {noun: api.get(noun) for noun in nouns}
            found["vhosts"] = [(one["name"], one["metadata"]) for one in api.get("vhosts")]
        return found

    with api_of(own_broker) as api:
        place = Place(api, own_broker.amqp_port)
        place.permit_topics("amq.topic", "^a", "{username}")
        api.put("vhost-limits", place.vhost, "max-queues", value=7)
        api.put("user-limits", place.user, "max-channels", value=8)
        api.put("vhosts", "described", description="it", tags="a,b", default_queue_type="quorum")
        api.put("vhosts", "gone")
        api.put("users", "gone", password_hash="", tags="monitoring")
        api.put("permissions", "/", "gone", **ALL)
        api.delete("users", "gone")
        api.delete("vhosts", "gone")
    before = everything()
    assert "gone" not in str(before)
    own_broker.kill()
    own_broker.start()
    assert everything() == before
    place.connect().close()
    assert own_broker.stop() == 0
    own_broker.start()
    assert everything() == before


def test_deleted_guest_does_not_come_back(own_broker: BrokerProcess):
    with api_of(own_broker) as api:
        api.put("users", "admin", password=PASSWORD, tags="administrator")
        api.delete("users", "guest")
    own_broker.kill()
    own_broker.start()
    url = f"http://127.0.0.1:{own_broker.http_port}/api/whoami"
    assert httpx.get(url, auth=("guest", "guest"), trust_env=False).status_code == 401
    assert httpx.get(url, auth=("admin", PASSWORD), trust_env=False).json()["name"] == "admin"


CONFIGURED = """
vhosts = ["shop"]
[users.guest]
password = "guest"
tags = ["administrator"]
[users.guest.permissions."/"]
configure = ".*"
[users.till]
password = "%s"
[users.till.permissions.shop]
write = "%s"
[users.boss]
password = "boss"
tags = ["administrator"]
enforce = true
"""


def test_the_file_seeds_and_enforces(tmp_path: Path):
    data = tmp_path / "data"

    def broker(password: str, write: str) -> BrokerProcess:
        return BrokerProcess(data, config=CONFIGURED % (password, write))

    with broker("first", "^a$") as one, api_of(one) as api:
        assert [user["name"] for user in api.get("users")] == ["boss", "guest", "till"]
        assert api.get("permissions", "shop", "till")["write"] == "^a$"
        api.put("permissions", "shop", "till", **(ALL | {"write": "^b$"}))
        api.put("users", "boss", password="stolen", tags="")
        assert "ignored" not in one.log_tail()
        assert one.stop() == 0
    with broker("second", "^c$") as one, api_of(one) as api:
        assert api.get("permissions", "shop", "till")["write"] == "^b$"
        whoami = f"http://127.0.0.1:{one.http_port}/api/whoami"
        who = httpx.get(whoami, auth=("boss", "boss"), trust_env=False)
        assert who.json() == {"name": "boss", "tags": ["administrator"]}
        assert "are ignored, as the data directory has its own: 'guest', 'till';" in one.log_tail()
        assert "first" not in one.log_tail()
        assert "second" not in one.log_tail()
        assert one.stop() == 0


# ------------------------------------------------------------------ RabbitMQ's own tool


def rabbitmqadmin() -> Path:
    found = sorted(ADMIN.glob("*/plugins/rabbitmq_management-*/priv/www/cli/rabbitmqadmin"))
    if not found:
        pytest.skip("Debian's rabbitmq-server is not installed")
    return found[-1]


def test_rabbitmqadmin(api: Api, api_url: str):
    port = str(httpx.URL(api_url).port)

    def admin(*words: str, user: str = "guest", password: str = "guest") -> str:
        done = subprocess.run(
            [sys.executable, rabbitmqadmin(), "-P", port, "-u", user, "-p", password, *words],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return done.stdout + done.stderr

    assert admin("declare", "vhost", "name=shop") == "vhost declared\n"
    try:
        made = admin("declare", "user", "name=till", "password=secret", "tags=management")
        assert made == "user declared\n"
        rights = ("configure=^$", "write=^orders$", "read=.*")
        made = admin("declare", "permission", "vhost=shop", "user=till", *rights)
        assert made == "permission declared\n"
        made = admin("declare", "vhost_limit", "vhost=shop", "name=max-queues", "value=3")
        assert made == "vhost_limit declared\n"
        assert "till | management" in re.sub(" +", " ", admin("list", "users", "name", "tags"))
        assert "^orders$" in admin("list", "permissions")
        assert '{"max-queues": 3}' in admin("list", "vhost_limits")
        assert "shop" in admin("list", "vhosts", "name", user="till", password="secret")
        assert "Access refused" in admin("list", "users", user="till", password="secret")
        for noun, *what in (
            ("vhost_limit", "vhost=shop", "name=max-queues"),
            ("permission", "vhost=shop", "user=till"),
            ("user", "name=till"),
        ):
            assert admin("delete", noun, *what) == f"{noun} deleted\n"
        assert "till" not in admin("list", "users")
    finally:
        assert admin("delete", "vhost", "name=shop") == "vhost deleted\n"
