"""`leporid delays`: what it says and its exit codes; what it declares is tested with the ladder."""

from __future__ import annotations

import json
import sys

import pytest
from tests.client.topology import Topology

from leporid.cli import delays, main
from leporid.testing import reserve_port


def run(*arguments: str) -> int:
    return main.main(["delays", *arguments])


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Topology:
    """What is declared on the channel that the command is given; connects to nothing."""
    topology = Topology()
    monkeypatch.setattr(delays, "on_broker", lambda url, work: work(topology))
    return topology


def test_ladder_declares_and_says_how_to_use_it(
    broker: Topology, capsys: pytest.CaptureFixture[str]
):
    broker.exchanges["shop"] = "topic"
    assert run("ladder", "--levels", "4", "--exchange", "shop", "--destination", "paid") == 0
    assert broker.follow("delay-3", "1.0.1.0.paid", "shop") == 10_000
    said = capsys.readouterr()
    assert said.err == ""
    assert "0 to 15 seconds" in said.out
    assert "delay-3" in said.out
    assert "1.0.1.0.paid" in said.out


def test_without_a_destination_it_is_the_exchanges_name(broker: Topology):
    broker.exchanges["shop"] = "topic"
    assert run("ladder", "--levels", "2", "--exchange", "shop") == 0
    assert broker.follow("delay-1", "1.1.shop", "shop") == 3_000


def test_without_an_exchange_it_is_the_ladder_alone(broker: Topology):
    assert run("ladder", "--levels", "2", "--prefix", "p.", "--queue-type", "classic") == 0
    assert sorted(broker.exchanges) == ["p.0", "p.1", "p.delivery"]
    assert broker.queues["p.1"]["x-queue-type"] == "classic"


def test_an_exchange_that_is_there_stays_and_one_that_is_not_is_made(broker: Topology):
    broker.exchanges["old"] = "fanout"
    for exchange in ("old", "new"):
        assert run("ladder", "--levels", "1", "--exchange", exchange) == 0
    assert (broker.exchanges["old"], broker.exchanges["new"]) == ("fanout", "topic")


@pytest.mark.parametrize(("there", "says"), [("6", "of more than 4"), ("3", "of fewer than 4")])
def test_a_ladder_of_other_levels_is_not_broken(
    broker: Topology, capsys: pytest.CaptureFixture[str], there: str, says: str
):
    assert run("ladder", "--levels", there) == 0
    before = list(broker.bindings)
    assert run("ladder", "--levels", "4") == 1
    said = capsys.readouterr().err
    assert f"there is a ladder 'delay-' {says} levels" in said
    assert "another prefix" in said
    assert broker.bindings == before
    assert run("ladder", "--levels", "4", "--prefix", "short-") == 0


def test_a_ladder_that_is_there_or_half_there_is_completed(broker: Topology):
    assert run("ladder", "--levels", "4") == 0
    assert run("ladder", "--levels", "4") == 0
    for level in (0, 1):
        del broker.exchanges[f"delay-{level}"]
    assert run("ladder", "--levels", "4") == 0
    assert "delay-0" in broker.exchanges


def test_several_destinations(broker: Topology):
    broker.exchanges["shop"] = "topic"
    options = ["--destination", "a", "--destination", "b"]
    assert run("ladder", "--levels", "1", "--exchange", "shop", *options) == 0
    assert broker.routes("delay-delivery", "1.a") == ["shop"]
    assert broker.routes("delay-delivery", "1.b") == ["shop"]
    assert broker.routes("delay-delivery", "1.shop") == []


def test_key(capsys: pytest.CaptureFixture[str]):
    assert run("key", "--levels", "4", "10", "destination") == 0
    assert capsys.readouterr().out == "1.0.1.0.destination\n"
    assert run("key", "1", "d") == 0
    assert capsys.readouterr().out == "0." * 27 + "1.d\n"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["key", "--levels", "4", "16", "d"], "0 to 15 seconds with 4 levels"),
        (["key", "--levels", "4", "--", "-1", "d"], "0 to 15 seconds with 4 levels"),
        (["key", "--levels", "29", "1", "d"], "from 1 to 28"),
        (["key", "1", ""], "the destination is empty"),
        (["ladder", "--levels", "0", "--exchange", "shop"], "from 1 to 28"),
        (["ladder", "--exchange", "shop", "--destination", "x" * 255], "255 bytes"),
        (["ladder", "--destination", "d"], "--exchange"),
    ],
)
def test_what_is_asked_for_wrongly_exits_2_before_anything_is_declared(
    broker: Topology, capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
):
    assert run(*arguments) == 2
    said = capsys.readouterr()
    assert says in said.err
    assert said.err.startswith("leporid: ")
    assert said.out == ""
    assert broker.calls == 0


def test_a_delay_that_is_no_number_exits_2(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as ended:
        run("key", "1.5", "d")
    assert ended.value.code == 2
    assert "invalid int value: '1.5'" in capsys.readouterr().err


def test_a_broker_that_is_not_there_exits_1(capsys: pytest.CaptureFixture[str]):
    port = reserve_port()
    url = f"amqp://guest:secret@127.0.0.1:{port}/%2F"
    assert run("ladder", "--exchange", "shop", "--url", url) == 1
    said = capsys.readouterr().err
    assert f"no broker at 127.0.0.1:{port} lets us in: " in said
    assert "refused" in said
    assert "secret" not in said


@pytest.mark.parametrize("url", ["http://host", "amqp://host:port", "host"])
def test_an_address_that_is_none_exits_2(url: str, capsys: pytest.CaptureFixture[str]):
    assert run("ladder", "--exchange", "shop", "--url", url) == 2
    assert "amqp://USER:PASSWORD@HOST:PORT/VHOST" in capsys.readouterr().err


def test_without_pika_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setitem(sys.modules, "pika", None)
    assert run("ladder", "--exchange", "shop") == 1
    assert "pip install 'leporid[delays]'" in capsys.readouterr().err
    assert run("key", "1", "d") == 0


def test_the_address_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch):
    parser = main.parser()
    monkeypatch.setenv("LEPORID_AMQP_URL", "amqp://elsewhere")
    given = parser.parse_args(["delays", "ladder"])
    assert delays.url_of(given) == "amqp://elsewhere"
    given = parser.parse_args(["delays", "ladder", "--url", "amqp://here"])
    assert delays.url_of(given) == "amqp://here"


def test_json_and_keys_alone(broker: Topology, capsys: pytest.CaptureFixture[str]):
    assert run("key", "--levels", "4", "10", "d", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"key": "1.0.1.0.d"}
    assert run("key", "--levels", "4", "10", "d", "--quiet") == 0
    assert capsys.readouterr().out == "1.0.1.0.d\n"
    assert run("ladder", "--levels", "4", "--exchange", "shop", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {
        "levels": 4,
        "delay_seconds_max": 15,
        "entry": "delay-3",
        "examples": [{"destination": "shop", "seconds": 10, "key": "1.0.1.0.shop"}],
    }
    assert run("ladder", "--levels", "4", "--exchange", "shop", "--quiet") == 0
    assert capsys.readouterr().out == ""
