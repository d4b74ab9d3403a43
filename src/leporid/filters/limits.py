"""How large an expression may be. Each is checked before the work that it bounds."""

from typing import Final

CHARACTERS_MAX: Final = 4096
"""As in RabbitMQ. An expression is kept, compiled, and copied into definitions."""

TOKENS_MAX: Final = 200
"""As in RabbitMQ. What a message costs is proportional to it."""

NESTING_MAX: Final = 50
"""Parentheses and prefix operators within each other; the engine's stack follows from it."""

PATTERN_BYTES_MAX: Final = 255
"""Of what LIKE or CONTAINS looks for, as in a short string: a byte of text then costs at most four
machine words."""

TAGS_MAX: Final = 200
"""In one list of tags."""

PROGRAMS_MAX: Final = 1024
"""Compiled programs that are kept. One takes a few hundred bytes, at most some 10,000."""
