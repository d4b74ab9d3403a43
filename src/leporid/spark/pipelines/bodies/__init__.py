"""Bodies of messages as columns: JSON, JSON Schema, Avro, Protobuf, CSV and text.

Knows nothing of Spark, of stores and of brokers: Arrow arrays and schemas go in, Arrow arrays come
out. `decoder` is what the rest of the package uses.
"""
