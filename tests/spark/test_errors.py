import pickle

import pytest

from leporid.spark import errors


def test_all_have_one_root():
    for name in ("OptionError", "BrokerError", "CutError", "DataLossError", "PublishError"):
        assert issubclass(getattr(errors, name), errors.SparkSourceError)


@pytest.mark.parametrize(
    "error",
    [
        errors.BrokerError("no", 410, "gone", {"first": 5}),
        errors.CutError("cut"),
        errors.DataLossError("lost"),
    ],
)
def test_an_error_comes_back_from_a_worker(error):
    """Spark's workers may pickle what they raise."""
    back = pickle.loads(pickle.dumps(error))
    assert type(back) is type(error)
    assert str(back) == str(error)
    assert back.__dict__ == error.__dict__
