"""The topic exchange: binding keys are patterns over the words of the routing key.

Words are what stands between dots. The empty key has no word at all; "." has two empty ones,
and empty words count as words. `*` stands for one word, `#` for any number of words, none
included; within a longer word both are ordinary characters. This is RabbitMQ's reading.

The patterns are kept as a trie, one node per word. A key is matched by walking all nodes that
fit the words so far at the same time, the way one runs a non-deterministic automaton: a `#` node
stays where it is while words pass, and no node is walked twice for one word. So the cost is at
most words of the key times nodes of the trie, however many `#` there are (CVE-2026-67419 is what
happens to a matcher that backtracks instead).

Invariant: a node is there only while a binding is at it or below it, so that keys that come and
go leave nothing behind.
"""

from collections.abc import Iterable, Mapping

from leporid.amqp.tables import Value
from leporid.broker.exchanges.base import Binding, Router

ONE_WORD = "*"
ANY_WORDS = "#"


class _Node:
    """A place in the trie: the patterns that begin with the words on the way here.

    Wildcards are children like other words. A published word that looks like a wildcard finds
    the wildcard's node twice, which is harmless: that node fits any word.
    """

    __slots__ = ("bindings", "children", "parent", "word")

    def __init__(self, word: str, parent: "_Node | None") -> None:
        self.word = word
        self.parent = parent
        self.children: dict[str, _Node] = {}
        self.bindings: dict[Binding, None] = {}


class TopicRouter(Router):
    """Bindings in a trie of the words of their keys.

    Attributes:
        node_count: How many nodes the trie has below its root.
    """

    takes_patterns = True

    def __init__(self, *, strict_keys: bool = False) -> None:
        super().__init__(strict_keys=strict_keys)
        self._root = _Node("", None)
        self.node_count = 0

    def add(self, binding: Binding) -> None:
        """Makes the nodes for the words of the binding's key that are not there yet."""
        node = self._root
        for word in _words(binding.key):
            child = node.children.get(word)
            if child is None:
                child = node.children[word] = _Node(word, node)
                self.node_count += 1
            node = child
        node.bindings[binding] = None

    def remove(self, binding: Binding) -> None:
        """Takes it out, and the nodes that nothing needs any more."""
        node = self._root
        for word in _words(binding.key):
            node = node.children[word]
        del node.bindings[binding]
        while node.parent is not None and not node.bindings and not node.children:
            del node.parent.children[node.word]
            self.node_count -= 1
            node = node.parent

    def match(self, key: str, headers: Mapping[str, Value]) -> Iterable[Binding]:
        """Walks the trie word by word; see the head of this module for the cost."""
        live: dict[_Node, None] = {}
        _enter(self._root, live)
        for word in _words(key):
            before, live = live, {}
            for node in before:
                if node.word == ANY_WORDS:
                    _enter(node, live)
                for step in (word, ONE_WORD):
                    child = node.children.get(step)
                    if child is not None:
                        _enter(child, live)
        return [binding for node in live for binding in node.bindings]

    def only_key(self, key: str) -> str | None:
        """Returns the key itself if it has no wildcard."""
        words = _words(key)
        return None if ONE_WORD in words or ANY_WORDS in words else key


def _words(key: str) -> list[str]:
    return key.split(".") if key else []


def _enter(node: _Node | None, live: dict[_Node, None]) -> None:
    """Makes a node live, and each `#` that follows it, because `#` may stand for no word."""
    while node is not None and node not in live:
        live[node] = None
        node = node.children.get(ANY_WORDS)
