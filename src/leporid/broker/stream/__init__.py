"""Streams: where consumers begin, named readers, partitions."""
