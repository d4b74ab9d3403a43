import os
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


def rows(count):
    """Give some, and fail."""
    yield from range(count)
    raise errors.CutError("cut off")


@errors.sentences_alone("read")
class Hooks:
    def read(self):
        """Give rows."""
        return rows(2)


def test_rows_that_end_in_an_error_are_given_before_it():
    given = Hooks().read()
    assert [next(given), next(given)] == [0, 1]
    with pytest.raises(errors.CutError) as caught:
        next(given)
    assert "in rows" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("runtime", ["PYTHON_WORKER", None])
def test_a_worker_of_spark_s_that_fails_is_told_to_hide_tracebacks(monkeypatch, runtime):
    """And no other process, nor a worker in which a user's function fails."""
    monkeypatch.delenv(errors.HIDE, raising=False)
    monkeypatch.delenv(errors.RUNTIME, raising=False)
    if runtime is not None:
        monkeypatch.setenv(errors.RUNTIME, runtime)
    with pytest.raises(ZeroDivisionError):
        errors.sentence_alone(lambda: 1 / 0)()
    assert errors.HIDE not in os.environ
    with pytest.raises(errors.CutError):
        list(errors.sentence_alone(rows)(1))
    assert (errors.HIDE in os.environ) is (runtime is not None)
