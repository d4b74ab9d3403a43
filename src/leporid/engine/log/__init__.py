"""The log: records appended, what is told of entries, and state rebuilt from them."""
