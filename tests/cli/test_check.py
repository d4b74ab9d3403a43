from pathlib import Path

from leporid.testing import BrokerProcess


def test_a_directory_that_is_none(cli, tmp_path: Path):
    cli("check", str(tmp_path / "none"), code=2)


def test_a_data_directory_in_order(cli, tmp_path: Path):
    with BrokerProcess(tmp_path / "data") as broker:
        assert broker.stop() == 0
    assert cli("check", str(tmp_path / "data"))
