import pickle
import traceback

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


def test_what_spark_calls_raises_the_sentence_without_the_way_to_it():
    def deep():
        raise errors.OptionError("no such option") from KeyError("x")

    @errors.sentence_alone
    def called(name):
        """What it does."""
        return deep() if name else "fine"

    assert called("") == "fine"
    assert called.__doc__ == "What it does."
    with pytest.raises(errors.OptionError) as caught:
        called("a")
    shown = "".join(traceback.format_exception(caught.value))
    assert "deep" not in shown
    assert "KeyError" not in shown
    assert shown.endswith("OptionError: no such option\n")
