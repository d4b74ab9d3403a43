"""Kinds of durable definitions, and a snapshot of them."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import pytest

from leporid.durable import DefinitionsSnapshot, Drop, Durable, Put, Table, Together, each_of


@dataclass(frozen=True, slots=True)
class Shelf(Durable):
    TABLE = Table("shelves", ("room", "name"))
    room: str
    name: str
    wide: bool


@dataclass(frozen=True, slots=True)
class Book(Durable):
    TABLE = Table("books", ("id",))
    id: int
    cover: bytes


def test_a_class_says_its_columns():
    assert Shelf.types() == {"room": str, "name": str, "wide": bool}
    shelf = Shelf("hall", "s", True)
    assert (shelf.identity, shelf.values()) == (("hall", "s"), ("hall", "s", True))
    assert (Shelf.TABLE.has_id, Book.TABLE.has_id) == (False, True)


def test_changes_are_compared_by_value_and_stay_as_they_are():
    change = Put(Book(1, b""))
    assert len({change, Put(Book(1, b"")), Drop(Book, (1,))}) == 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        change.definition = Book(2, b"")  # type: ignore[misc]


def test_a_snapshot_has_definitions_by_their_kinds():
    books = Book(2, b""), Book(1, b"")
    snapshot = DefinitionsSnapshot((books[0], Shelf("hall", "s", True), books[1]), 7)
    assert snapshot.of(Book) == books
    assert DefinitionsSnapshot((), 1).of(Book) == ()
    assert snapshot.next_queue_id == 7


def test_changes_that_belong_together_are_gone_through_in_order():
    one, two, three = (Put(Book(number, b"")) for number in (1, 2, 3))
    assert list(each_of([one, Together([two, Drop(Book, (2,))]), three])) == [
        one,
        two,
        Drop(Book, (2,)),
        three,
    ]
