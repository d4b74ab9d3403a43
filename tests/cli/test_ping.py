"""`leporid ping`, as health checks run it."""

import contextlib
import http.server
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.server.certificates import make_files

from leporid.cli.main import main
from leporid.testing import BrokerProcess
from leporid.testing.process import reserve_port


@pytest.fixture
def other_server() -> Iterator[int]:
    """Something else that answers on a port."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"[]")

        def log_message(self, *_: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def test_nobody_answers(capsys: pytest.CaptureFixture[str]):
    port = reserve_port()
    assert main(["ping", "--http-port", str(port)]) == 1
    assert capsys.readouterr().err.startswith(f"leporid: no answer from 127.0.0.1, port {port}: ")


def test_somebody_else_answers(other_server: int, capsys: pytest.CaptureFixture[str]):
    assert main(["ping", "--http-port", str(other_server)]) == 1
    assert "no answer from" in capsys.readouterr().err


def test_a_configuration_with_a_mistake(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "leporid.toml").write_text("heartbeet = 1")
    assert main(["ping", "--config", str(tmp_path)]) == 2
    assert "heartbeet" in capsys.readouterr().err


@pytest.mark.slow
def test_it_waits_for_a_broker(tmp_path: Path):
    port = reserve_port()
    broker = BrokerProcess(tmp_path / "data", options=["--http-port", str(port)])
    with ThreadPoolExecutor(1) as pool, contextlib.closing(broker):
        waits = pool.submit(main, ["ping", "--http-port", str(port), "--wait", "60", "-q"])
        broker.start()
        assert waits.result() == 0
    assert main(["ping", "--http-port", str(port), "--wait", "0.3", "-q"]) == 1


@pytest.mark.slow
def test_a_broker_answers_alarm_or_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    config = tmp_path / "ping.toml"
    with BrokerProcess(tmp_path / "a") as broker:
        # As in a container: the port is in the file, and it listens on all addresses.
        config.write_text(f'http_port = {broker.http_port}\nbind = "0.0.0.0"\n')
        monkeypatch.setenv("LEPORID_CONFIG", str(config))
        assert main(["ping"]) == 0
        assert capsys.readouterr().out == "ok\n"
        assert main(["ping", "-q", "--healthy", "--wait", "0"]) == 0
        with config.open("a") as out:
            out.write(f"amqp_port = {broker.amqp_port}\nmetrics_port = -1\n")
        ports = ["--port", str(broker.amqp_port), "--port", str(broker.http_port)]
        assert main(["ping", "-q", "--all-ports", *ports]) == 0
        capsys.readouterr()
        assert main(["ping", "-q", "--port", "1"]) == 1
        assert "port 1: it is none of the configuration" in capsys.readouterr().err
        closed = reserve_port()
        config.write_text(f"http_port = {broker.http_port}\namqp_port = {closed}\n")
        assert main(["ping", "-q"]) == 0
        assert main(["ping", "-q", "--all-ports"]) == 1
        assert f"no listener at 127.0.0.1, port {closed}: " in capsys.readouterr().err
        config.write_text(f'http_port = {broker.http_port}\nbind = "0.0.0.0"\n')
    with BrokerProcess(tmp_path / "b", config='memory_watermark = "1 MiB"') as broker:
        assert main(["ping", "--http-port", str(broker.http_port)]) == 0
        assert capsys.readouterr().out == "unavailable, memory alarm\n"
        assert main(["ping", "--http-port", str(broker.http_port), "--json"]) == 0
        assert json.loads(capsys.readouterr().out) == {
            "status": "unavailable",
            "reasons": ["memory alarm"],
        }
        assert main(["ping", "--http-port", str(broker.http_port), "--quiet"]) == 0
        assert main(["ping", "--http-port", str(broker.http_port), "-q", "--healthy"]) == 1
        assert capsys.readouterr().out == ""


def test_without_a_port_for_http_there_is_nobody_to_ask(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "leporid.toml").write_text("http_port = -1")
    assert main(["ping", "--config", str(tmp_path)]) == 2
    assert "no port for HTTP" in capsys.readouterr().err


@pytest.mark.slow
def test_without_a_plain_port_it_asks_over_tls(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    pair = make_files(tmp_path).issue("mq.example.org", "expired", days=-1)
    tls = f'[tls]\ncertificate = "{pair.certificate}"\nkey = "{pair.key}"\n'
    port = reserve_port()
    ports = f"http_port = -1\nhttps_port = {port}\namqps_port = 0\n"
    with BrokerProcess(tmp_path / "data", config=f"https_port = {port}\namqps_port = 0\n{tls}"):
        (tmp_path / "leporid.toml").write_text(ports + tls)
        assert main(["ping", "--config", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "ok\n"
    assert main(["ping", "--config", str(tmp_path), "--seconds", "1"]) == 1
    assert f"port {port}" in capsys.readouterr().err
