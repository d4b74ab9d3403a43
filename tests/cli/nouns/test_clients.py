"""`leporid connections`, `channels` and `consumers` against a broker."""

import pika
import pytest


def test_what_a_client_has_is_listed_and_shown(leporid, name, channel):
    queue = name()
    channel.queue_declare(queue, durable=True)
    channel.basic_qos(prefetch_count=7)
    channel.basic_consume(queue, lambda *_: None, consumer_tag=f"tag-{queue}")
    consumer = next(row for row in leporid.rows("consumers", "list") if row["queue.name"] == queue)
    assert consumer["consumer_tag"] == f"tag-{queue}"
    one = next(
        row
        for row in leporid.rows("channels", "list", "-p", "/")
        if row["name"] == consumer["channel_details.name"]
    )
    assert one["consumer_count"] == "1"
    connection = leporid.json("channels", "show", one["name"])["connection_details"]["name"]
    assert leporid.json("connections", "show", connection)["user"] == "guest"
    listed = leporid("connections", "list", "-q", "-p", "/").splitlines()
    assert connection in listed


def test_closing(leporid, channel, shared_broker):
    (name,) = [
        row["name"]
        for row in leporid.rows("connections", "list", "--columns", "name,client_properties")
    ][-1:]
    leporid("connections", "close", name, code=2)
    leporid("connections", "close", code=2)
    assert "say which" in leporid.error
    leporid("connections", "close", name, "--reason", "maintenance", "--yes")
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="maintenance"):
        channel.connection.process_data_events(20)
    leporid("connections", "close", name, "--yes", code=3)
    leporid("connections", "close", "--of", "nobody", "--yes", code=3)
