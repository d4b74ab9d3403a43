"""`leporid backup`, `restore` and `check`, with brokers."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from leporid.testing import BrokerProcess


def test_what_is_backed_up_is_restored(leporid, name, channel, shared_broker, tmp_path: Path):
    queue, backup = name(), name("b")
    channel.queue_declare(queue, durable=True)
    leporid("publish", "", queue, stdin=b"one\ntwo\n")
    assert "would back up" in leporid("backup", backup, "--dry-run")
    said = leporid("backup", backup)
    place = shared_broker.data_dir / "backups" / backup
    held = r"\d+ segments? with [\d.]+ [KM]?B(, \d+ of them hard links)?"
    assert re.fullmatch(rf"{place}: {held}\n", said)
    assert backup in [row["name"] for row in leporid.rows("backup", "--list")]
    leporid("backup", backup, code=1)
    assert f"there is a backup '{backup}' already" in leporid.error
    target = tmp_path / "restored"
    said = leporid("restore", str(place), str(target))
    assert "whole\n" in said
    assert f"{target}: restored from {place}" in said
    with BrokerProcess(target) as broker:
        url = f"http://127.0.0.1:{broker.http_port}"
        assert leporid("cat", f"queue://{queue}", "--url", url) == "one\ntwo\n"
        assert broker.stop() == 0
    leporid("queues", "delete", queue, "--yes")


def test_a_backup_without_a_name_has_the_time(leporid):
    made = leporid.json("backup")
    assert re.fullmatch(r"\d{8}T\d{6}Z", made["name"])


@pytest.mark.parametrize("given", [("../x",), ("x", "--list")])
def test_asked_for_wrongly(leporid, given):
    leporid("backup", *given, code=1 if given == ("../x",) else 2)
    assert "no name" in leporid.error


def test_a_damaged_backup_is_not_restored(leporid, name, channel, shared_broker, tmp_path: Path):
    queue, backup = name(), name("b")
    channel.queue_declare(queue, durable=True)
    leporid("publish", "", queue, stdin=b"one\ntwo\n")
    leporid("backup", backup, "-q")
    place = shared_broker.data_dir / "backups" / backup
    newest = max((place / "log").iterdir())
    data = bytearray(newest.read_bytes())
    data[data.index(b"one")] ^= 1
    newest.write_bytes(data)
    said = leporid("restore", str(place), str(tmp_path / "restored"), code=1)
    assert "fail their checksum" in said
    assert "is not whole; nothing was restored" in leporid.error
    assert not (tmp_path / "restored").exists()
    leporid("queues", "delete", queue, "--yes")


def test_what_is_no_backup(cli, tmp_path: Path):
    cli("restore", str(tmp_path), str(tmp_path / "restored"), code=1)
    assert "is no whole backup" in cli.error


def test_there_is_no_directory_to_check(cli, tmp_path: Path):
    cli("check", str(tmp_path / "none"), code=2)


def test_a_data_directory_in_order_is_checked(cli, tmp_path: Path):
    with BrokerProcess(tmp_path / "data") as broker:
        assert broker.stop() == 0
    assert cli("check", str(tmp_path / "data"))


def test_json_and_nothing(cli, tmp_path: Path):
    data, damaged = tmp_path / "data", tmp_path / "damaged"
    with BrokerProcess(data) as broker:
        assert broker.stop() == 0
    found = cli.json("check", str(data))
    assert (found["directory"], found["problems"], found["notes"]) == (str(data), [], [])
    assert found["records"] >= 0
    assert cli("check", str(data), "--quiet") == ""
    shutil.copytree(data, damaged)
    (damaged / "log" / "strange").write_bytes(b"")
    found = cli.json("check", str(damaged), code=1)
    assert found["problems"] == [f"{damaged / 'log' / 'strange'} is no segment of the log"]
    assert cli("check", str(damaged), "--quiet", code=1) == ""
    assert cli("check", str(tmp_path / "none"), "--json", code=2) == ""
    assert "is not a data directory" in cli.error
