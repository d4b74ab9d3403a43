import pytest

pytest.importorskip("pyspark")

from leporid.spark.errors import OptionError
from leporid.spark.pipelines.archive import archive
from leporid.spark.views import view

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


def test_an_archive_has_a_schema_of_its_own(tmp_path):
    with pytest.raises(OptionError, match="give schema or archive"):
        view(None, "v", "orders", schema="id int", archive=tmp_path)
