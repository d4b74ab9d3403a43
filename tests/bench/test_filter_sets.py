"""Every set of filters is measured, and finds what its members find by themselves."""

from __future__ import annotations

import pytest
from bench.filter_sets import CASES, measure
from bench.filters import Scan


@pytest.fixture(scope="module")
def scan() -> Scan:
    return Scan(2)


@pytest.mark.parametrize("name", CASES)
def test_every_set_finds_what_its_members_find(scan, name):
    assert all(figure > 0 for figure in measure(scan, CASES[name], 30, 1))
