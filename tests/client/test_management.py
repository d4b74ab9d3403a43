"""The client of the management API, against a server that answers as it is told."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from leporid.client import management
from leporid.client.management import Address, Management, ManagementError, path_of
from leporid.testing import reserve_port


class Server:
    """Answers what `answers` has, one after the other; keeps what was asked."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, bytes]] = []
        self.asked: list[tuple[str, str, bytes, dict[str, str]]] = []
        self.close_next = False
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                server.asked.append((self.command, self.path, body, dict(self.headers)))
                # Without a word, as a server does that closes an idle connection. The flag is taken
                # before the answer leaves: then the test may set it for the next one.
                self.close_connection, server.close_next = server.close_next, False
                status, content = server.answers.pop(0)
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_PUT = do_POST = do_DELETE = _answer  # noqa: N815 - http.server's names

            def log_message(self, *_: object) -> None:
                pass

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http.server_port}"


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    thread = threading.Thread(target=made.http.serve_forever)
    thread.start()
    yield made
    made.http.shutdown()
    made.http.server_close()
    thread.join()


@pytest.fixture
def client(server: Server) -> Iterator[Management]:
    with Management(Address(server.url, "ann", "secret")) as made:
        yield made


def reply(value: Any, status: int = 200) -> tuple[int, bytes]:
    return status, json.dumps(value).encode()


def test_names_are_encoded_and_json_goes_both_ways(server, client):
    server.answers = [
        reply({"a": "ü"}),
        (201, b""),
        (204, b""),
        reply({"routed": True}),
        (204, b""),
    ]
    assert client.get(path_of("queues", "/", "a/b ?"), {"x": "1 2", "none": None}) == {"a": "ü"}
    assert client.put("/api/x", {"durable": True}) == 201
    assert client.put("/api/x", b"raw") == 204
    assert client.post("/api/y", {}) == {"routed": True}
    assert client.delete("/api/z", headers={"X-Reason": "r"}) is None
    first, put, raw, _, last = server.asked
    assert first[:2] == ("GET", "/api/queues/%2F/a%2Fb%20%3F?x=1%202")
    assert first[3]["Authorization"] == "Basic YW5uOnNlY3JldA=="
    assert (put[2], put[3]["Content-Type"]) == (b'{"durable": true}', "application/json")
    assert (raw[2], raw[3]["Content-Type"]) == (b"raw", "application/octet-stream")
    assert last[3]["X-Reason"] == "r"


def test_pages(server, client, monkeypatch):
    monkeypatch.setattr(management, "PAGE_SIZE", 2)
    page = {"page_count": 2}
    server.answers = [reply(page | {"items": [{}, {}]}), reply(page | {"items": [{}]})]
    assert [len(each) for each in client.pages("/api/queues", {"sort": "name"})] == [2, 1]
    assert [each[1] for each in server.asked] == [
        "/api/queues?sort=name&page=1&page_size=2",
        "/api/queues?sort=name&page=2&page_size=2",
    ]
    server.answers = [reply([{}, {}, {}]), reply({"error": "x"})]
    assert [len(each) for each in client.pages("/api/users")] == [3]
    with pytest.raises(ManagementError, match="with no list"):
        list(client.pages("/api/users"))


@pytest.mark.parametrize(
    ("status", "content", "says"),
    [
        (404, b"", "has no queues/x"),
        (404, b'{"reason": "gone"}', "has no queues/x: gone"),
        (401, b'{"reason": "Not administrator user"}', "user 'ann' do that: Not administrator"),
        (400, b'{"error": "bad_request", "reason": {"message": "in"}}', r"refused \(400\): in"),
        (503, b"<html>", r"refused \(503\)"),
    ],
)
def test_refusals(server, client, status, content, says):
    server.answers = [(status, content)]
    with pytest.raises(ManagementError, match=says) as caught:
        client.get("/api/queues/x")
    assert caught.value.status == status
    assert "secret" not in str(caught.value)


def test_what_is_no_json(server, client):
    server.answers = [(200, b"<html>")]
    with pytest.raises(ManagementError, match="with no JSON"):
        client.get("/api/overview")


def test_a_connection_that_was_closed_is_made_again_for_what_changes_nothing(server, client):
    server.answers = [reply(1), reply(2), reply(3)]
    server.close_next = True
    assert client.get("/api/a") == 1
    assert client.get("/api/a") == 2
    server.close_next = True
    assert client.get("/api/a") == 3
    with pytest.raises(ManagementError, match="no answer from the broker"):
        client.put("/api/a", {})
    assert [each[0] for each in server.asked] == ["GET"] * 3


def test_a_connection_that_was_idle_is_not_used_again(server, client, monkeypatch):
    monkeypatch.setattr(management, "IDLE_SECONDS", -1.0)
    server.answers = [reply(1), (204, b"")]
    server.close_next = True
    assert client.get("/api/a") == 1
    assert client.put("/api/a", {}) == 204


def test_nobody_answers():
    url = f"http://127.0.0.1:{reserve_port()}"
    with (
        Management(Address(url, "ann", "secret")) as client,
        pytest.raises(ManagementError, match=r"no answer .* refused"),
    ):
        client.get("/api/overview")


@pytest.mark.parametrize("url", ["ftp://x", "http://", "x"])
def test_what_is_no_address(url):
    with pytest.raises(ValueError, match="not of the form"):
        Management(Address(url, "", ""))


def test_an_address_does_not_show_its_password():
    assert "secret" not in repr(Address("http://h", "ann", "secret"))
