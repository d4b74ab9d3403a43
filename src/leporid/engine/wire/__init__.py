"""The bytes of frames, properties and records, as C reads them."""
