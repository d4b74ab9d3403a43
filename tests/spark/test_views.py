import pytest

pytest.importorskip("pyspark")

from leporid.spark.errors import OptionError
from leporid.spark.pipelines.archive import archive
from leporid.spark.views import table_function, view

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(300)]


def test_sql_sees_a_stream_as_it_is_and_with_its_archive(spark_session, broker, tmp_path):
    broker.make("orders")
    options = {"url": broker.url}
    broker.append("orders", 3, body=[b'{"id": 1}', b"no", b'{"id": 2}'])
    view(spark_session, "live", "orders", schema="id bigint", options=options)
    sums = "select count(*), sum(value.id), count(bad_reason) from {}"
    assert spark_session.sql(sums.format("live")).collect() == [(3, 3, 1)]
    pytest.importorskip("deltalake")
    archive(spark_session, "orders", tmp_path / "a", options=options, schema="id bigint")
    broker.append("orders", 1, body=[b'{"id": 7}'])
    assert spark_session.sql(sums.format("live")).collect() == [(3, 3, 1)]
    view(spark_session, "live", "orders", schema="id bigint", options=options)
    assert spark_session.sql(sums.format("live")).collect() == [(4, 10, 1)]
    view(spark_session, "everything", "orders", archive=tmp_path / "a", options=options)
    found = spark_session.sql("select count(*), sum(value.id) from everything").collect()
    assert found == [(3, 10)]


def test_a_function_reads_a_stream_in_one_statement(spark_session, broker):
    broker.make("orders", partitions=2)
    broker.append("orders", 3, partition=0, headers_json=[f'{{"n": {at}}}' for at in range(3)])
    broker.append("orders", 2, partition=1)
    table_function(spark_session, options={"url": broker.url})
    counted = "select count(*), max(`offset`), min(stream) from leporid_table({})"
    assert spark_session.sql(counted.format("'orders'")).collect() == [(5, 2, "orders")]
    broker.append("orders", 1, partition=1)
    assert spark_session.sql(counted.format("'orders', 'n >= 1'")).collect() == [(2, 2, "orders")]
    with pytest.raises(Exception, match="no stream 'ordres' in vhost") as caught:
        spark_session.sql(counted.format("'ordres'")).collect()
    assert "Traceback" not in str(caught.value)


def test_an_archive_has_a_schema_of_its_own(tmp_path):
    with pytest.raises(OptionError, match="give schema or archive"):
        view(None, "v", "orders", schema="id int", archive=tmp_path)
