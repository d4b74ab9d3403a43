"""Writes `broker-v3-stopped.tar.xz` and `broker-v3-killed.tar.xz`: data directories of a broker.

    LEPORID_TEST_COMMAND=".venv/bin/leporid serve" python tests/golden/write_broker_v3.py

The command is that of the version whose directories are to be kept. It was run once, with the last
version that knew no more than schema 3 of the definitions (292cff7). With each directory is kept
what clients of that version saw (`broker_v3.py`) when it opened a copy of it.
"""

import io
import json
import shutil
import sys
import tarfile
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))

from tests.golden.broker_v3 import CONFIGURATION, LIVES, Client, rows, seen  # noqa: E402

from leporid.testing import BrokerProcess  # noqa: E402


def keep(directory: Path, name: str, options: list[str], target: Path) -> None:
    """Pack a directory that no broker uses, and what a broker on a copy of it shows."""
    copy = Path(shutil.copytree(directory, directory.with_name(name)))
    found = {"definitions": rows(copy / "definitions.db")}
    with BrokerProcess(copy, options=options) as broker:
        found |= seen(broker.amqp_port, broker.http_port)
        assert broker.stop() == 0, broker.log_tail()
    with tarfile.open(target / f"{name}.tar.xz", "w:xz") as archive:
        for path in sorted(directory.rglob("*")):
            if path.is_file() and path.name != "lock":
                archive.add(path, Path("data", path.relative_to(directory)))
        text = json.dumps(found, ensure_ascii=False, sort_keys=True).encode()
        member = tarfile.TarInfo("seen.json")
        member.size = len(text)
        archive.addfile(member, io.BytesIO(text))


def main() -> None:
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch) / "data"
        configuration = Path(scratch) / "leporid.toml"
        configuration.write_text(CONFIGURATION)
        options = ["--config", str(configuration)]
        for number, life in enumerate(LIVES, 1):
            with BrokerProcess(directory, options=options) as broker:
                client = Client(broker.amqp_port, broker.http_port)
                life(client)
                if number == len(LIVES):
                    broker.kill()
                    keep(directory, "broker-v3-killed", options, target)
                    break
                client.close()
                assert broker.stop() == 0, broker.log_tail()
            if number == len(LIVES) - 1:
                keep(directory, "broker-v3-stopped", options, target)


if __name__ == "__main__":
    main()
