"""Loads for any AMQP 0-9-1 broker, and the small client that they and the command line use.

`processes` publishes and receives in processes of its own, at almost no cost; `latencies` counts
how long messages took; `amqp` is a blocking client that shows frames and raw properties.
Standard library only, so that a load can be driven from any machine with Python. Applications use
`leporid.client`.
"""
