"""Leporid's streams in PySpark: the data source `leporid`, and what a session needs.

Spark finds the data source by itself (`pyspark_leporid`). It talks to the broker over HTTP only,
in Arrow, so an executor needs this package, pyspark and pyarrow, and no AMQP client. The checkpoint
is the only truth about a query's position. The broker stores it for those who continue under the
same `readerName`; a query with a checkpoint never reads it back.

    options    what may be said in `.option(…)`; checks: each value
    offsets    the arithmetic of positions, limits and ranges; pure
    http       requests to the broker, on connections that are kept
    records    one range of one partition as Arrow batches, or an error
    filters    Spark's predicates as parameters of a request
    schema     the columns, read and written
    reader     batch reading; stream_reader: streaming
    queue_reader  batches over queues; drain: taking messages out of them
    writer     publishing, from batches and streaming queries
    source     the class that Spark starts from
    features   what the installed PySpark has of the API; legacy: Spark 3.5, which has none
    views      streams as temporary views
    progress   how far streaming queries are, logged and for Prometheus
    session    a Spark session with the settings that all this wants; java: what it runs on
"""
