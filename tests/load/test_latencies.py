from hypothesis import given
from hypothesis import strategies as st

from leporid.load.latencies import BUCKETS, bound_of, bucket_of, note, percentile_us


@given(st.integers(0, 2**39))
def test_a_bucket_is_at_most_a_sixteenth_wide(microseconds):
    bound = bound_of(bucket_of(microseconds))
    assert microseconds <= bound <= microseconds * 17 / 16


def test_buckets_are_in_order_and_all_are_used():
    assert [bucket_of(bound_of(each)) for each in range(BUCKETS - 80)] == list(range(BUCKETS - 80))
    assert bucket_of(-5) == 0
    assert bucket_of(2**60) == BUCKETS - 1


@given(st.lists(st.integers(0, 10**9), min_size=1), st.floats(0.01, 1))
def test_percentiles_are_those_of_the_sorted_list(nanoseconds, share):
    counts = [0] * BUCKETS
    for each in nanoseconds:
        note(counts, each)
    wanted = sorted(nanoseconds)[max(0, -int(-share * len(nanoseconds) // 1) - 1)] // 1000
    assert wanted <= percentile_us(counts, share) <= wanted * 17 / 16 + 1


def test_of_none_it_is_nothing():
    assert percentile_us([0] * BUCKETS, 0.5) == 0
