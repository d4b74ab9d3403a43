"""The command `leporid`."""
