"""Counts of refusals."""

from leporid.limits.refusals import Refusals


def test_counts_by_kind():
    refusals = Refusals()
    refusals.count("http_uploads")
    refusals.count("http_uploads")
    refusals.count("http_leases")
    assert refusals.by_kind == {"http_uploads": 2, "http_leases": 1}


def test_an_expected_kind_is_there_before_the_first_refusal_and_keeps_its_count():
    refusals = Refusals()
    refusals.expect("http_uploads")
    assert refusals.by_kind == {"http_uploads": 0}
    refusals.count("http_uploads")
    refusals.expect("http_uploads")
    assert refusals.by_kind == {"http_uploads": 1}
