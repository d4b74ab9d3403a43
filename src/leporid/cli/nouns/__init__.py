"""The nouns of the command line: what objects there are, and what can be done with each."""
