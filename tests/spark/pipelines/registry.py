"""A registry of schemas, with the routes that Confluent's has."""

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit


class RegistryServer:
    """Schemas by number and by subject.

    Attributes:
        url: where it listens.
        asked: the paths of all requests.
        login: what the Authorization header has to be; None takes anybody.
        headers: that all answers have besides.
        broken: answers that are given instead, by path: status and body.
    """

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.login: str | None = None
        self.broken: dict[str, tuple[int, bytes]] = {}
        self.headers: dict[str, str] = {}
        self.schemas: dict[int, dict[str, Any]] = {}
        self.subjects: dict[str, list[int]] = {}
        self.url = ""

    def register(self, subject: str, schema: Any, kind: str = "AVRO", **more: Any) -> int:
        """Add a schema; return its number."""
        text = schema if isinstance(schema, (str, bytes)) else json.dumps(schema)
        number = len(self.schemas) + 1
        self.schemas[number] = {"schema": text, "schemaType": kind, **more}
        self.subjects.setdefault(subject, []).append(number)
        return number

    def answer(self, target: str) -> tuple[int, Any]:
        path, query = urlsplit(target).path, urlsplit(target).query
        match [unquote(part) for part in path.strip("/").split("/")]:
            case ["schemas", "ids", number]:
                if int(number) not in self.schemas:
                    return 404, {"error_code": 40403, "message": "Schema not found"}
                return 200, self._of(int(number), query)
            case ["subjects", subject, "versions", version]:
                numbers = self.subjects.get(subject)
                if numbers is None:
                    return 404, {"error_code": 40401, "message": "Subject not found"}
                at = len(numbers) if version == "latest" else int(version)
                found = numbers[at - 1]
                return 200, {
                    "subject": subject, "version": at, "id": found, **self._of(found, query),
                }  # fmt: skip
        return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}

    def _of(self, number: int, query: str) -> dict[str, Any]:
        found = dict(self.schemas[number])
        # Confluent's leaves out what was the only kind once.
        if found["schemaType"] == "AVRO":
            del found["schemaType"]
        if isinstance(found["schema"], bytes):
            found["schema"] = (
                base64.b64encode(found["schema"]).decode()
                if "format=serialized" in query
                else 'syntax = "proto3";'
            )
        return found


@contextmanager
def serving() -> Iterator[RegistryServer]:
    registry = RegistryServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Heads and bodies in one packet: a second one waits for the acknowledgement of the first.
        wbufsize = -1

        def do_GET(self) -> None:
            registry.asked.append(self.path)
            if registry.login is not None and self.headers["Authorization"] != registry.login:
                status, body = 401, b'{"error_code": 401, "message": "Unauthorized"}'
            elif self.path in registry.broken:
                status, body = registry.broken[self.path]
            else:
                status, answer = registry.answer(self.path)
                body = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(body)))
            for name, value in registry.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    registry.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield registry
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
