"""Bronze, silver, gold: records as they came, orders, what they add up to.

The stream and the broker come from the environment: LEPORID_STREAM (orders), LEPORID_URL.
"""

import os
from typing import Any

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

STREAM = os.environ.get("LEPORID_STREAM", "orders")
ORDER = "id bigint, customer string, amount double"


def session() -> Any:
    """Return the session of the pipeline's run."""
    return SparkSession.active()


@dp.table
def bronze() -> DataFrame:
    """Every record of the stream, as it came."""
    reader = session().readStream.format("leporid").option("stream", STREAM)
    return reader.option("startingOffsets", "earliest").load()


@dp.table
def silver() -> DataFrame:
    """The orders that can be read; a body that is none becomes no row."""
    order = f.from_json(f.col("body").cast("string"), ORDER).alias("order")
    rows = session().readStream.table("bronze").select("offset", "timestamp", "routing_key", order)
    return rows.where("order.id is not null").select(
        "offset", "timestamp", "routing_key", "order.id", "order.customer", "order.amount"
    )


@dp.materialized_view
def gold() -> DataFrame:
    """What each customer ordered."""
    return (
        session()
        .read.table("silver")
        .groupBy("customer")
        .agg(f.count("*").alias("orders"), f.sum("amount").alias("amount"))
    )
