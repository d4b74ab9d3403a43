"""Where a message goes: routes that are remembered, patterns, and what is not taken twice."""
