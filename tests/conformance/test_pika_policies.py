"""Policies, set over HTTP and seen through pika; RabbitMQ 3.10 with its management passes too.

RabbitMQ tells a queue of its policy a moment after it has answered, so what a policy does is waited
for.
"""

import html
import json
import re
import time
from pathlib import Path

import httpx
import pika
import pytest
from pika import BasicProperties
from pika.adapters.blocking_connection import BlockingConnection
from pika.exceptions import NackError, UnroutableError
from tests.conformance.marks import differs
from tests.conformance.pika_steps import (
    SECONDS,
    Inbox,
    channel_closed,
    depth,
    drain,
    publish_all,
    pump,
)

from leporid.broker.policy.definitions import PolicyError, check_definition
from leporid.broker.settings.table import KEYS
from leporid.server.config import load
from leporid.testing import BrokerProcess, reserve_port

PAGE = Path(__file__).parents[2] / "docs" / "policies.md"
DURABLE = "received 'false' but current is 'true'; that cannot change in place"
PERSISTENT = BasicProperties(delivery_mode=2)


class Api:
    """The management of a broker, for one virtual host."""

    def __init__(self, url):
        self.client = httpx.Client(base_url=url, auth=("guest", "guest"), trust_env=False)
        self.made = []

    def put(self, name, pattern, definition, *, operator=False, **given):
        path = f"/{'operator-policies' if operator else 'policies'}/%2F/{name}"
        body = {"pattern": pattern, "definition": definition, **given}
        answer = self.client.put(path, json=body)
        if answer.is_success:
            self.made.append(path)
        return answer

    def set(self, *args, **given):
        assert self.put(*args, **given).is_success

    def drop(self, name, *, operator=False):
        path = f"/{'operator-policies' if operator else 'policies'}/%2F/{name}"
        assert self.client.delete(path).status_code == 204

    def close(self):
        for path in self.made:
            self.client.delete(path)
        self.client.close()


@pytest.fixture
def api(api_url):
    api = Api(api_url)
    yield api
    api.close()


def eventually(condition):
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, "what the test waits for did not happen"


def holds_at_most(channel, queue, count):
    """Whether of more messages so many stay; leaves the queue empty."""
    publish_all(channel, queue, [b"%d" % number for number in range(count + 3)])
    return len(drain(channel, queue)) == count


def arrives(channel, queue, elsewhere):
    """Whether a message that dies in one queue comes to another."""
    publish_all(channel, queue, [b"dead"])
    return depth(channel, elsewhere) > 0


# ---------------------------------------------------------------------- queues


def test_a_queue_that_is_there_follows_at_once(channel, name, api):
    queue = name()
    channel.queue_declare(queue)
    publish_all(channel, queue, [b"1", b"2", b"3"])
    api.set(queue, f"^{queue}$", {"max-length": 2})
    eventually(lambda: depth(channel, queue) == 2)
    assert drain(channel, queue) == [b"2", b"3"]
    api.set(queue, f"^{queue}$", {"max-length": 1})
    eventually(lambda: holds_at_most(channel, queue, 1))
    api.drop(queue)
    eventually(lambda: not holds_at_most(channel, queue, 1))


def test_a_queue_that_comes_later_has_it(channel, name, api):
    queue = name()
    api.set(queue, f"^{queue}$", {"max-length": 1})
    channel.queue_declare(queue)
    assert holds_at_most(channel, queue, 1)


def test_the_smallest_of_argument_policy_and_operator_policy(channel, name, api):
    queue = name()
    channel.queue_declare(queue, arguments={"x-max-length": 3})
    pattern = f"^{queue}$"
    api.set(queue, pattern, {"max-length": 2})
    eventually(lambda: holds_at_most(channel, queue, 2))
    api.set(queue, pattern, {"max-length": 1}, operator=True)
    eventually(lambda: holds_at_most(channel, queue, 1))
    api.set(queue, pattern, {"max-length": 9}, operator=True)
    eventually(lambda: holds_at_most(channel, queue, 2))
    api.set(queue, pattern, {"max-length": 9})
    eventually(lambda: holds_at_most(channel, queue, 3))


def test_the_highest_priority_governs_alone(channel, name, api):
    queue = name()
    channel.queue_declare(queue)
    api.set(queue + "-low", f"^{queue}$", {"max-length": 1}, priority=1)
    eventually(lambda: holds_at_most(channel, queue, 1))
    api.set(queue + "-high", queue[5:], {"max-length-bytes": 3}, priority=2)
    eventually(lambda: holds_at_most(channel, queue, 3))
    api.drop(queue + "-high")
    eventually(lambda: holds_at_most(channel, queue, 1))


def test_time_to_live_is_for_messages_that_come_from_then_on(channel, name, api):
    queue, morgue = name(), name("morgue")
    channel.queue_declare(morgue)
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": morgue}
    channel.queue_declare(queue, arguments=arguments)
    dead = Inbox(channel, morgue, auto_ack=True)
    probe = name("probe")
    channel.queue_declare(probe, arguments=arguments)
    publish_all(channel, queue, [b"before"])
    api.set(queue, f"^{probe}|{queue}$", {"message-ttl": 10})

    def probed():
        publish_all(channel, probe, [b"probe"])
        channel.connection.process_data_events(time_limit=0.05)
        return b"probe" in dead.bodies

    eventually(probed)
    assert b"before" not in dead.bodies
    channel.queue_purge(queue)
    publish_all(channel, queue, [b"after"])
    pump(channel.connection, lambda: b"after" in dead.bodies)


def test_of_dead_letter_exchanges_the_argument_counts(channel, name, api):
    """The two settings are looked up one by one, so each may come from elsewhere."""
    one, two, queue = name("one"), name("two"), name()
    for morgue in (one, two):
        channel.queue_declare(morgue)
    channel.queue_declare(queue, arguments={"x-dead-letter-exchange": "", "x-max-length": 0})
    definition = {"dead-letter-exchange": "amq.fanout", "dead-letter-routing-key": one}
    api.set(queue, f"^{queue}$", definition)
    eventually(lambda: arrives(channel, queue, one))
    both = name("both")
    api.set(queue, f"^{both}$", definition)
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": two}
    channel.queue_declare(both, arguments=arguments | {"x-max-length": 0})
    eventually(lambda: arrives(channel, both, two))


def test_overflow(channel, name, api):
    queue = name()
    channel.queue_declare(queue)
    publish_all(channel, queue, [b"1"])
    api.set(queue, f"^{queue}$", {"max-length": 1, "overflow": "reject-publish"})

    def refuses():
        try:
            publish_all(channel, queue, [b"2"])
        except NackError:
            return True
        return False

    eventually(refuses)
    api.drop(queue)
    eventually(lambda: not refuses())


def test_overflow_of_a_quorum_queue_is_the_policys(channel, name, api):
    queue = name()
    api.set(queue, f"^{queue}$", {"max-length": 1, "overflow": "reject-publish"})
    arguments = {"x-queue-type": "quorum", "x-overflow": "drop-head"}
    channel.queue_declare(queue, durable=True, arguments=arguments)

    def refuses():
        try:
            publish_all(channel, queue, [b"2"])
        except NackError:
            return True
        return False

    eventually(refuses)


def test_unused_queues_go_by_policy(channel, name, api):
    queue = name()
    channel.queue_declare(queue)
    api.set(queue, f"^{queue}$", {"expires": 100})

    def gone():
        try:
            channel.basic_publish("", queue, b"anybody?", mandatory=True)
        except UnroutableError:
            return True
        channel.connection.process_data_events(time_limit=0.02)
        return False

    eventually(gone)


def test_a_policy_with_a_setting_for_streams_is_not_for_other_queues(channel, name, api):
    queue = name()
    api.set(queue + "-1", f"^{queue}", {"max-length": 1, "max-age": "1D"}, priority=9)
    api.set(queue + "-2", f"^{queue}", {"max-length": 2})
    channel.queue_declare(queue)
    eventually(lambda: holds_at_most(channel, queue, 2))


@pytest.mark.parametrize(("apply_to", "count"), [("queues", 1), ("all", 1), ("exchanges", 4)])
def test_what_it_is_for(channel, name, api, apply_to, count):
    queue = name()
    api.set(queue, f"^{queue}$", {"max-length": 1}, **{"apply-to": apply_to})
    channel.queue_declare(queue)
    publish_all(channel, queue, [b"m"] * 4)
    assert depth(channel, queue) == count


# ---------------------------------------------------------------------- exchanges


def test_alternate_exchange(channel, name, api):
    exchange, own, other, queue = name("e"), name("own"), name("other"), name()
    channel.queue_declare(queue)
    for each in (other, own + "-alternate"):
        channel.exchange_declare(each, "fanout", auto_delete=True)
    channel.queue_bind(queue, other)
    channel.exchange_declare(exchange, "direct")
    arguments = {"alternate-exchange": own + "-alternate"}
    channel.exchange_declare(own, "direct", arguments=arguments)
    with pytest.raises(UnroutableError):
        channel.basic_publish(exchange, "k", b"lost", mandatory=True)
    api.set(exchange, f"^({exchange}|{own})$", {"alternate-exchange": other})

    def routed():
        channel.basic_publish(exchange, "k", b"found")
        return depth(channel, queue)

    eventually(routed)
    with pytest.raises(UnroutableError):
        channel.basic_publish(own, "k", b"the argument counts", mandatory=True)
    api.drop(exchange)

    def lost():
        try:
            channel.basic_publish(exchange, "k", b"lost", mandatory=True)
        except UnroutableError:
            return True
        return False

    eventually(lost)


# ---------------------------------------------------------------------- over HTTP


def test_answers(api, name):
    policy = name()
    path = f"/policies/%2F/{policy}"
    assert api.put(policy, "^never$", {"message-ttl": 5}).status_code == 201
    assert api.put(policy, "^never$", {"message-ttl": 5}, priority=2).status_code == 204
    found = api.client.get(path)
    assert (found.status_code, found.json()) == (
        200,
        {
            "vhost": "/",
            "name": policy,
            "pattern": "^never$",
            "apply-to": "all",
            "definition": {"message-ttl": 5},
            "priority": 2,
        },
    )
    assert list(found.json()) == ["vhost", "name", "pattern", "apply-to", "definition", "priority"]
    assert found.json() in api.client.get("/policies").json()
    assert found.json() in api.client.get("/policies/%2F").json()
    assert found.json() not in api.client.get("/operator-policies").json()
    api.drop(policy)
    for method, missing in (
        ("GET", path),
        ("DELETE", path),
        ("GET", "/policies/nope"),
        ("GET", "/operator-policies/nope/nope"),
    ):
        answer = api.client.request(method, missing)
        assert (answer.status_code, answer.json()) == (
            404,
            {"error": "Object Not Found", "reason": "Not Found"},
        )
    answer = api.client.put("/policies/nope/p", json={"pattern": "", "definition": {"expires": 1}})
    refusal = {"error": "not_found", "reason": "vhost_not_found"}
    assert (answer.status_code, answer.json()) == (404, refusal)
    assert api.client.get("/policies", auth=("guest", "wrong")).status_code == 401


@pytest.mark.parametrize("operator", [False, True])
@pytest.mark.parametrize(
    "definition",
    [
        {"message-ttl": -1},
        {"message-ttl": "1"},
        {"message-ttl": None},
        {"foo": "1", "message-ttl": -1},
        {"foo": "1", "bar": 2},
        {"max-length-bytes": 1.5},
        {"expires": 0},
        {"delivery-limit": -1},
        {"max-in-memory-bytes": -1},
        {"dead-letter-exchange": 5},
        {"dead-letter-routing-key": 5},
        {"dead-letter-strategy": "x"},
        {"alternate-exchange": ["a"]},
        {"max-age": "1x"},
        {"queue-mode": "x"},
        {"queue-version": 3},
        {"queue-leader-locator": "x"},
        {"queue-master-locator": "x"},
        {"initial-cluster-size": -1},
        {"stream-max-segment-size-bytes": -1},
        {"ha-mode": "x"},
        {"ha-mode": "exactly"},
        {"ha-params": 5},
        {"ha-mode": "all", "ha-sync-mode": "x"},
        {"max-segment-size": 5},
        {},
    ],
    ids=str,
)
def test_what_is_no_definition(api, name, definition, operator):
    """RabbitMQ's own sentences: what it says is what stands here."""
    answer = api.put(name(), "", definition, operator=operator)
    assert answer.status_code == 400
    assert answer.json()["error"] == "bad_request"
    first, blank, said, end = html.unescape(answer.json()["reason"]).split("\n")
    assert (first, blank, end) == ("Validation failed", "", "")
    assert said == expected(definition, operator)


def expected(definition, operator):
    with pytest.raises(PolicyError) as caught:
        check_definition(definition, operator=operator)
    return str(caught.value)


# ---------------------------------------------------------------------- ours only


def at(broker):
    return Api(f"http://127.0.0.1:{broker.http_port}/api")


@differs
def test_policies_survive_a_kill(own_broker):
    with BlockingConnection(pika.URLParameters(own_broker.url)) as connection:
        channel = connection.channel()
        channel.queue_declare("q", durable=True)
        channel.confirm_delivery()
        api = at(own_broker)
        api.set("p", "^q$", {"max-length": 3})
        api.set("o", "^q$", {"max-length": 2}, operator=True)
        api.set("gone", "", {"max-length": 1}, priority=9)
        api.drop("gone")
        for number in range(4):
            channel.basic_publish("", "q", b"%d" % number, PERSISTENT)
    api.client.close()
    own_broker.kill()
    own_broker.start()
    api = at(own_broker)
    assert [each["name"] for each in api.client.get("/policies").json()] == ["p"]
    with BlockingConnection(pika.URLParameters(own_broker.url)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        assert depth(channel, "q") == 2
        assert holds_at_most(channel, "q", 2)
        api.drop("o", operator=True)
        assert holds_at_most(channel, "q", 3)
    api.client.close()
    assert own_broker.stop() == 0
    assert own_broker.check()[0] == 0


@differs
def test_the_examples_of_the_page_are_right(tmp_path):
    text = PAGE.read_text(encoding="utf-8")
    policies, redeclare = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    config = tmp_path / "leporid.toml"
    config.write_text(f'vhosts = ["shop"]\n{redeclare}{policies}')
    loaded = load(config)
    assert (loaded.redeclare_in("/"), loaded.redeclare_in("shop")) == ("warn", "adopt")
    with BrokerProcess(tmp_path / "data", options=["--config", str(config)]) as broker:
        api = at(broker)
        found = api.client.get("/policies").json() + api.client.get("/operator-policies").json()
        assert [each["name"] for each in found] == ["orders", "nothing-for-ever"]
        assert api.put("orders", "", {"max-length": 1}).status_code == 400
        # What the file says by TOML is what the page sends by HTTP.
        sent, previewed = re.findall(r"-X PUT \S+ -d '(.*?)'\n", text, re.DOTALL)
        body = json.loads(sent)
        assert body.items() <= found[0].items()
        answer = api.client.put("/policies/%2F/by-http", json=body)
        assert answer.status_code == 201
        preview = api.client.put("/policies/%2F/seen?dry_run=true", json=json.loads(previewed))
        assert preview.status_code == 200
        api.client.close()


@differs
def test_a_redeclaration_is_adopted_and_lasts(tmp_path):
    config = tmp_path / "leporid.toml"
    config.write_text('redeclare = "adopt"\n')
    options = ["--config", str(config)]
    with BrokerProcess(tmp_path / "data", amqp_port=reserve_port(), options=options) as broker:
        with BlockingConnection(pika.URLParameters(broker.url)) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            channel.queue_declare("q", durable=True, arguments={"x-max-length": 5})
            for number in range(5):
                channel.basic_publish("", "q", b"%d" % number, PERSISTENT)
            channel.queue_declare("q", durable=True, arguments={"x-max-length": 2})
            assert depth(channel, "q") == 2
            refused = (
                "PRECONDITION_FAILED - inequivalent arg 'durable' for queue 'q' in vhost '/': "
            )
            with channel_closed(406, refused + DURABLE):
                channel.queue_declare("q")
        with BlockingConnection(pika.URLParameters(broker.url)) as connection:
            channel = connection.channel()
            limits = {"x-max-length": 5, "x-message-ttl": 9, "x-dead-letter-exchange": "amq.fanout"}
            channel.queue_declare("bare", durable=True, arguments=limits)
            channel.queue_declare("bare", durable=True)
        log = broker.log_path.read_text("utf-8")
        [line] = [line for line in log.splitlines() if "queue 'bare' in vhost '/' other" in line]
        assert all(f"{name}: received none but" in line for name in limits), line
        broker.kill()
        broker.start()
        with BlockingConnection(pika.URLParameters(broker.url)) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            channel.queue_declare("q", durable=True, arguments={"x-max-length": 2})
            assert holds_at_most(channel, "q", 2)


@differs
def test_every_setting_stands_on_the_page():
    text = PAGE.read_text(encoding="utf-8")
    rows = text.partition("## Settings")[2].partition("\n##")[0].replace("`-m", "`delayed-retry-m")
    named = set(re.findall(r"`([a-z-]+)`", rows)) - {"x-"}
    assert named == set(KEYS)
    for row in rows.splitlines():
        if row.startswith("| `"):
            settings, operator, _ = row.strip("|").split("|")
            for key in re.findall(r"`([a-z-]+)`", settings):
                assert (operator.strip() == "O") == (KEYS[key].merge is not None), key
