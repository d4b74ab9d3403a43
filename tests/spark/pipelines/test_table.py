"""Archive and live stream as one; how the borders meet is in test_archive."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from tests.spark.fake import EPOCH_MS

from leporid.spark.pipelines.table import moment_us

FIRST_US = EPOCH_MS * 1000


def test_times_are_utc_if_they_do_not_say():
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    assert moment_us(None) is None
    assert moment_us("2026-01-01") == moment_us(begin) == FIRST_US
    assert moment_us(begin.astimezone(timezone(timedelta(hours=9)))) == FIRST_US
    assert moment_us("2026-01-01T00:00:00.250Z") == FIRST_US + 250_000


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(300)
def test_a_time_can_be_cut_out_over_the_border(spark, broker, tmp_path):
    from leporid.spark.pipelines.archive import archive
    from leporid.spark.pipelines.table import table

    broker.make("s")
    broker.append("s", 100)
    archive(spark, "s", tmp_path / "a", options={"url": broker.url})
    broker.append("s", 100)
    moments: dict[str, Any] = {
        "since": "2026-01-01T00:00:00.090Z",
        "until": "2026-01-01T00:00:00.110Z",
    }
    df = table(spark, "s", tmp_path / "a", options={"url": broker.url}, **moments)
    assert sorted(row[0] for row in df.select("offset").collect()) == list(range(90, 110))
    live = table(spark, "s", options={"url": broker.url})
    assert live.count() == 200
