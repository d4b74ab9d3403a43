import dataclasses

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.spark.fake import FakeBroker

from leporid.spark.errors import BrokerError, CutError, DataLossError
from leporid.spark.http import Client
from leporid.spark.offsets import Key, Range
from leporid.spark.records import Filter, ReadOptions, batches
from leporid.spark.schema import COLUMNS, READABLE

ROWS = 1000
EVERYTHING = ReadOptions(COLUMNS, batch_rows=100)
ONLY_BODY = ReadOptions(pa.schema([COLUMNS.field("body")]), batch_rows=100)


@pytest.fixture
def orders(broker: FakeBroker) -> Range:
    (part,) = broker.make("orders")
    broker.append("orders", ROWS, routing_key=["a.x", "b.y"] * (ROWS // 2))
    return Range(Key("orders", 0), 0, ROWS, part.incarnation)


def bodies(client: Client, part: Range, options: ReadOptions) -> list[int]:
    return [
        int(body)
        for batch in batches(client, part, options)
        for body in batch.column("body").to_pylist()
    ]


@pytest.mark.parametrize("compression", ["none", "lz4", "zstd"])
def test_a_range_comes_whole_and_in_the_schema_that_spark_expects(client, orders, compression):
    options = dataclasses.replace(EVERYTHING, compression=compression)
    found = list(batches(client, orders, options))
    assert all(batch.schema.equals(COLUMNS) for batch in found)
    assert [batch.num_rows for batch in found] == [100] * 10
    assert pa.Table.from_batches(found).column("offset").to_pylist() == list(range(ROWS))


def test_columns_come_in_the_order_asked_for(client, orders):
    schema = pa.schema([READABLE.field("headers_json"), READABLE.field("offset")])
    (batch,) = batches(client, dataclasses.replace(orders, end=2), ReadOptions(schema))
    assert batch.to_pydict() == {"headers_json": ['{"h":1}'] * 2, "offset": [0, 1]}


def test_an_empty_range_asks_nothing(broker, client, orders):
    assert list(batches(client, dataclasses.replace(orders, end=0), EVERYTHING)) == []
    assert broker.count("records") == 0


@pytest.mark.parametrize("options", [EVERYTHING, ONLY_BODY], ids=["everything", "only_body"])
@pytest.mark.parametrize("cut", [0, 3, 200, 5000, 40_000, -9, -8, -2, -1])
def test_a_cut_answer_is_gone_on_with_where_it_stopped(
    broker, client, orders, options, cut, caplog
):
    """Down to the last byte: at -1 all of Arrow's stream is there, but not the body's end."""
    broker.fail("cut", "records", bytes=cut)
    assert bodies(client, orders, options) == list(range(ROWS))
    assert "the answer was cut off: IncompleteRead" in caplog.text


def test_an_answer_that_ends_well_but_early_is_noticed_by_counting(broker, client, orders):
    broker.fail("end", "records")
    assert bodies(client, orders, ONLY_BODY) == list(range(ROWS))
    assert broker.count("from=500") == 1


@pytest.mark.slow
def test_a_broker_that_stays_away_fails_the_task(broker, client, orders):
    broker.fail("cut", "records", count=10_000, bytes=300)
    with pytest.raises(CutError, match="records of partition 0 of stream 'orders'"):
        bodies(client, orders, ONLY_BODY)


def test_a_filtered_range_goes_on_after_the_last_offset_that_came(broker, client, orders):
    options = dataclasses.replace(ONLY_BODY, filter=Filter({"routing_key_prefix": "b."}))
    broker.fail("cut", "records", bytes=6000)
    assert bodies(client, orders, options) == list(range(1, ROWS, 2))
    assert broker.count("records") == 2


def test_what_the_broker_cannot_filter_is_left_out_here(client, orders):
    expression = pc.field("routing_key") == "b.y"
    options = dataclasses.replace(ONLY_BODY, filter=Filter({}, expression, ("routing_key",)))
    assert bodies(client, orders, options) == list(range(1, ROWS, 2))


def test_records_that_are_gone_fail_the_task_with_the_lost_range(broker, client, orders):
    broker.cut("orders", 300)
    with pytest.raises(DataLossError, match=r"\[0, 300\) of partition 0 .* failOnDataLoss"):
        bodies(client, orders, ONLY_BODY)


def test_records_that_are_gone_are_left_out_if_that_is_wanted(broker, client, orders, caplog):
    broker.cut("orders", 300)
    options = dataclasses.replace(ONLY_BODY, fail_on_loss=False)
    assert bodies(client, orders, options) == list(range(300, ROWS))
    assert "[0, 300) of partition 0 of stream 'orders' are gone" in caplog.text
    broker.cut("orders", ROWS)
    assert bodies(client, orders, options) == []


def test_damaged_records_are_a_loss_or_left_out(broker, client, orders):
    broker.streams["orders"][0].damaged = 500
    with pytest.raises(DataLossError, match=r"are damaged.*offsets 500 to 500.*failOnDataLoss"):
        bodies(client, orders, ONLY_BODY)
    options = dataclasses.replace(ONLY_BODY, fail_on_loss=False)
    assert bodies(client, orders, options) == [*range(500), *range(501, ROWS)]


def test_a_stream_made_again_is_another_one(broker, client, orders):
    broker.make("orders")
    broker.append("orders", 2 * ROWS)
    with pytest.raises(DataLossError, match="deleted or made again"):
        bodies(client, orders, ONLY_BODY)
    assert bodies(client, orders, dataclasses.replace(ONLY_BODY, fail_on_loss=False)) == []


def test_a_stream_that_was_deleted_is_a_loss(broker, client, orders):
    del broker.streams["orders"]
    with pytest.raises(DataLossError, match="deleted or made again"):
        bodies(client, orders, ONLY_BODY)


def test_another_refusal_is_passed_on(broker, client, orders):
    with pytest.raises(BrokerError, match="416 beyond"):
        bodies(client, dataclasses.replace(orders, end=ROWS + 1), ONLY_BODY)


def test_a_broker_that_starts_is_waited_for(broker, client, orders):
    broker.fail("status", "records", count=2)
    assert bodies(client, orders, ONLY_BODY) == list(range(ROWS))


def test_a_reader_that_stops_early_leaves_no_half_read_connection(client, orders):
    found = batches(client, orders, EVERYTHING)
    next(found)
    found.close()  # type: ignore[attr-defined]
    assert bodies(client, orders, ONLY_BODY) == list(range(ROWS))
    assert client._pool.num_connections == 2
