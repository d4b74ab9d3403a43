"""The `x-strict-keys` rule: which keys an exchange takes that was declared with it.

Must not know exchanges or bindings. Invariant: a pattern that passes has no other spelling that
passes and matches the same keys.
"""

import itertools
import re
from typing import Final

from leporid.amqp.errors import PreconditionFailed

STRICT_KEYS_ARGUMENT: Final = "x-strict-keys"

# Letters are those of ASCII: what other scripts call a letter changes with Unicode's versions.
_PLAIN: Final = re.compile(r"[A-Za-z0-9_.]*")
_WILDCARDS: Final = re.compile(r"[*#]")

# `#.#` is `#`, and `#.*` is `*.#`: such keys are mistakes, or tests of how a broker backtracks.
_AMBIGUOUS: Final = frozenset({("#", "#"), ("#", "*"), ("*", "#")})


def check_plain_key(key: str) -> None:
    """Checks a key that is not a pattern: one that is published, or bound where keys are equal.

    Raises:
        PreconditionFailed: It has other characters than letters, digits, underscores and dots.
    """
    if _PLAIN.fullmatch(key):
        return
    if _PLAIN.fullmatch(_WILDCARDS.sub("", key)):
        raise _refusal("no wildcards in a key that is not a pattern", key)
    raise _refusal("only letters, digits, underscores and dots", key)


def check_pattern(key: str) -> None:
    """Checks the binding key of a topic exchange.

    Raises:
        PreconditionFailed: A word is neither plain nor one wildcard, or wildcards stand side by
            side of which one is `#`.
    """
    words = key.split(".")
    for word in words:
        if word in ("*", "#") or _PLAIN.fullmatch(word):
            continue
        if _PLAIN.fullmatch(_WILDCARDS.sub("", word)):
            raise _refusal("wildcards only as whole words", key)
        raise _refusal("only letters, digits, underscores, dots and wildcards", key)
    for pair in itertools.pairwise(words):
        if pair in _AMBIGUOUS:
            raise _refusal(f"no '{'.'.join(pair)}' side by side", key)


def _refusal(allowed: str, key: str) -> PreconditionFailed:
    # The key comes last because it may be so long that the text is cut.
    return PreconditionFailed(f"x-strict-keys allows {allowed}: '{key}'")
