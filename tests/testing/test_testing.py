"""The names of leporid.testing; those of the broker in memory are loaded when asked for."""

import subprocess
import sys

import pytest

from leporid import testing


def test_every_name_is_there():
    assert all(getattr(testing, name) is not None for name in testing.__all__)


def test_other_names_are_not():
    with pytest.raises(AttributeError, match="no attribute 'rabbit'"):
        testing.rabbit  # noqa: B018


def test_a_broker_process_loads_nothing_of_the_broker():
    """It may drive another build than this one."""
    program = (
        "import sys; from leporid.testing import BrokerProcess; "
        "print([name for name in sys.modules if name.startswith('leporid.') "
        "and not name.startswith('leporid.testing')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
