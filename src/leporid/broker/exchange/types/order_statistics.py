"""Values in order, where the n-th is found without counting.

A treap: a binary tree ordered by key, and heap-ordered by a priority that is independent of the
key; each node knows how many there are below it. So to add, to remove and to find the n-th takes
O(log n) steps on average, in whatever order keys come and go. Must not know what the values are.

Invariant: whoever chooses the keys cannot choose the priorities, else the tree may become a list.
"""

from __future__ import annotations

from typing import Generic, Protocol, Self, TypeVar

V = TypeVar("V")


class Key(Protocol):
    """What values are ordered by."""

    def __lt__(self, other: Self, /) -> bool: ...


K = TypeVar("K", bound=Key)


class _Node(Generic[K, V]):
    __slots__ = ("key", "left", "priority", "right", "size", "value")

    def __init__(self, key: K, value: V, priority: int) -> None:
        self.key = key
        self.value = value
        self.priority = priority
        self.size = 1
        self.left: _Node[K, V] | None = None
        self.right: _Node[K, V] | None = None

    def count(self) -> None:
        left, right = self.left, self.right
        self.size = 1 + (left.size if left else 0) + (right.size if right else 0)


class OrderStatisticTree(Generic[K, V]):
    """Values by keys, of which no two are equal."""

    def __init__(self) -> None:
        self._root: _Node[K, V] | None = None

    def __len__(self) -> int:
        return self._root.size if self._root else 0

    def add(self, key: K, value: V, priority: int) -> None:
        """Adds a value under a key that is not there yet."""
        before, after = _split(self._root, key)
        self._root = _joined(_joined(before, _Node(key, value, priority)), after)

    def remove(self, key: K) -> None:
        """Removes the value of a key that is there."""
        before, rest = _split(self._root, key)
        self._root = _joined(before, _without_first(rest))

    def __getitem__(self, at: int) -> V:
        """Returns the value that so many others come before."""
        node = self._root
        while node is not None:
            before = node.left.size if node.left else 0
            if at == before:
                return node.value
            if at < before:
                node = node.left
            else:
                at -= before + 1
                node = node.right
        raise IndexError(at)


def _split(node: _Node[K, V] | None, key: K) -> tuple[_Node[K, V] | None, _Node[K, V] | None]:
    """Returns the tree of what comes before a key, and that of the rest."""
    if node is None:
        return None, None
    if node.key < key:
        node.right, rest = _split(node.right, key)
        node.count()
        return node, rest
    before, node.left = _split(node.left, key)
    node.count()
    return before, node


def _joined(before: _Node[K, V] | None, after: _Node[K, V] | None) -> _Node[K, V] | None:
    """Returns one tree of two, of which one comes before the other."""
    if before is None or after is None:
        return before or after
    if before.priority >= after.priority:
        before.right = _joined(before.right, after)
        before.count()
        return before
    after.left = _joined(before, after.left)
    after.count()
    return after


def _without_first(node: _Node[K, V] | None) -> _Node[K, V] | None:
    assert node is not None
    if node.left is None:
        return node.right
    node.left = _without_first(node.left)
    node.count()
    return node
