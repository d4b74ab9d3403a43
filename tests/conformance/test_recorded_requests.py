"""What programs that are not run here ask of the management API, and what they read of the answer.

`recorded_requests.json` has for each program its requests in their order: method, path below
/api/, body, status, and the members that the program decodes, each with the type that it must have
("=TEXT": that very text). Whoever decodes into types, as Go does, fails at any other. Names in
braces are filled in; `{properties_key}` is the end of the last answer's Location.

rabbit-hole has each kind of request that its own test suite (Go, version 3 of August 2026) sends,
as recorded between the suite and a broker. Of the suite's 174 tests 158 pass; the others are about
shovels and federation, and one about deprecated features.

Terraform's provider has each kind of request that its acceptance tests (version 1.8.0) send, as
recorded between `terraform` and RabbitMQ 3.10.8, for every resource but federation upstreams and
shovels.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import httpx
import pytest
from tests.conformance.test_management_api import until

REQUESTS: Final = json.loads(
    Path(__file__).with_suffix("").with_name("recorded_requests.json").read_text(encoding="utf-8")
)
JSON: Final = {"content-type": "application/json"}
TYPES: Final = {
    "str": str,
    "int": int,
    "float": int | float,
    "bool": bool,
    "dict": dict,
    "list": list,
    "null": type(None),
}


def member(value: Any, path: str) -> Any:
    """Return what a dotted path leads to."""
    for part in path.split("."):
        if isinstance(value, list):
            assert len(value) > int(part), f"{path}: only {len(value)} elements"
            value = value[int(part)]
        else:
            assert part in value, f"{path}: {part} is missing in {value}"
            value = value[part]
    return value


def check(answer: Any, wanted: dict[str, str]) -> None:
    """Compare an answer with the members that a program decodes."""
    for path, kind in wanted.items():
        found = member(answer, path)
        if kind.startswith("="):
            assert found == kind[1:], path
            continue
        # To Python a bool is an int; to Go it is not.
        assert isinstance(found, TYPES[kind]), f"{path} is {found!r}"
        assert kind == "bool" or not isinstance(found, bool), f"{path} is {found!r}"


@pytest.mark.parametrize("program", REQUESTS)
def test_what_it_asks_for_is_answered_with_what_it_decodes(
    program: str, api_url: str, connect: Callable[..., Any], name: Callable[..., str]
):
    queue = name()
    channel = connect().channel()
    channel.queue_declare(queue, durable=True)
    channel.basic_publish("", queue, b"x")
    channel.basic_consume(queue, lambda *_: None)
    names = {"vhost": f"conf/{queue}", "user": "conf-user", "properties_key": ""}
    with httpx.Client(auth=("guest", "guest"), timeout=30) as client:
        overview = client.get(f"{api_url}/overview").json()
        names |= {"node": overview["node"], "cluster": overview["cluster_name"]}
        (mine,) = until(
            lambda: [
                each["channel_details"]
                for each in client.get(f"{api_url}/consumers").json()
                if each["queue"]["name"] == queue
            ],
            bool,
        )
        names["connection"] = mine["connection_name"]
        names["port"] = mine["connection_name"].rpartition(":")[2]
        try:
            for method, path, body, status, wanted in REQUESTS[program]:
                where = path.format_map({key: quote(text, safe="") for key, text in names.items()})
                sent = None if body is None else json.dumps(body)
                for key in ("user", "vhost", "cluster"):
                    sent = sent and sent.replace(f"{{{key}}}", names[key])
                answer = client.request(method, f"{api_url}/{where}", content=sent, headers=JSON)
                told = f"{method} {where}: {answer.status_code} {answer.text[:500]}"
                assert answer.status_code == status, told
                if wanted is not None:
                    check(answer.json(), wanted)
                if "location" in answer.headers:
                    key = answer.headers["location"].rpartition("/")[2]
                    names["properties_key"] = httpx.URL(f"/{key}").path[1:]
        finally:
            for left in ("vhosts/" + quote(names["vhost"], safe=""), "users/conf-user"):
                client.delete(f"{api_url}/{left}")
