"""Groups of consumers that share the partitions of a stream."""
