"""Servers outside of the broker, that it asks about users: one that decides, one with keys."""

from __future__ import annotations

import contextlib
import http.server
import json
import threading
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from joserfc import jws
from joserfc.jwk import RSAKey

PATIENCE_S = 30
ISSUED = RSAKey.generate_key(2048, {"kid": "first"})
RIGHTS = "mq.configure:*/* mq.write:*/* mq.read:*/* mq.tag:administrator"
Fields = dict[str, str]
Said = tuple[int, bytes]


class Outside:
    """A server over HTTP, on a free port.

    Attributes:
        url: its address, without a path.
    """

    def __init__(self) -> None:
        outside = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.do_POST()

            def do_POST(self) -> None:
                length = int(self.headers.get("content-length", "0"))
                body = self.rfile.read(length).decode()
                status, said = outside.answer(self.command, self.path, body)
                self.send_response(status)
                self.send_header("content-length", str(len(said)))
                # Some tests have the broker ask, and go away.
                with contextlib.suppress(ConnectionError):
                    self.end_headers()
                    self.wfile.write(said)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def answer(self, method: str, path: str, body: str) -> Said:
        """Return status and body of the answer to a request."""
        raise NotImplementedError

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


class Issuer(Outside):
    """Publishes keys, and counts who asks."""

    def __init__(self) -> None:
        self.keys: list[RSAKey] = [ISSUED]
        self.asked = 0
        super().__init__()

    def answer(self, method: str, path: str, body: str) -> Said:
        found: Any
        if path.endswith("openid-configuration"):
            found = {"jwks_uri": self.url + "/keys"}
        else:
            self.asked += 1
            found = {"keys": [key.as_dict(private=False) for key in self.keys]}
        return 200, json.dumps(found).encode()


def token(issuer: Issuer, *, key: RSAKey = ISSUED, seconds: float = 60, **claims: Any) -> str:
    said = {
        "iss": issuer.url,
        "aud": "mq",
        "sub": "jo",
        "scope": RIGHTS,
        "exp": time.time() + seconds,
        **claims,
    }
    return jws.serialize_compact({"alg": "RS256", "kid": key.kid}, json.dumps(said), key)


class Decider(Outside):
    """Lets in whose password is `right +ü`, and grants all rights, unless a test says otherwise.

    Attributes:
        asked: the method, the path and the fields of each request, in order.
        answers: what is said of a user by its name, instead.
        decides: (path, fields) says something else than `allow`; None: it does not.
        hold: while it is not set, no request is answered.
    """

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, Fields]] = []
        self.answers: dict[str, Said] = {}
        self.decides: Callable[[str, Fields], Said | None] = lambda path, fields: None
        self.hold = threading.Event()
        self.hold.set()
        super().__init__()

    def answer(self, method: str, path: str, body: str) -> Said:
        parts = urlsplit(path)
        query = "&".join(each for each in (parts.query, body) if each)
        fields = dict(parse_qsl(query, keep_blank_values=True))
        self.asked.append((method, parts.path, fields))
        self.hold.wait(PATIENCE_S)
        return self.say(parts.path, fields)

    def say(self, path: str, fields: Fields) -> Said:
        """Return status and body of the answer to a request."""
        if "password" not in fields:
            return self.decides(path, fields) or (200, b"allow")
        right = fields["password"] == "right +ü"
        said = (200, b"allow administrator" if right else b"deny")
        return self.answers.get(fields["username"], said)

    def rights_asked(self) -> list[Fields]:
        """Return what was asked about rights."""
        return [fields for _, _, fields in self.asked if "password" not in fields]

    def close(self) -> None:
        self.hold.set()
        super().close()
