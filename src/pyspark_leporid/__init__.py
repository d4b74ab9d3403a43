"""Where Spark finds the data source `leporid` by itself, without any registration.

Spark imports every top-level module whose name begins with `pyspark_`, and takes its
`DefaultSource`.
"""

from leporid.spark.source import DefaultSource

__all__ = ["DefaultSource"]
