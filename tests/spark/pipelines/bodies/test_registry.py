import base64
import gzip
import itertools
import socket

import pytest

from leporid.spark.errors import OptionError
from leporid.spark.pipelines.bodies import registry as registry_module
from leporid.spark.pipelines.bodies.registry import Registry, RegistryError, divided
from leporid.spark.pipelines.bodies.schemas import JSON, PROTOBUF, MissingSchemaError

RECORD = {"type": "record", "name": "R", "fields": []}


@pytest.fixture
def opened(registry):
    made = []

    def opened(**more):
        url = more.pop("url", registry.url)
        made.append(Registry(url, more.pop("environ", {}), **more))
        return made[-1]

    yield opened
    for each in made:
        each.close()


def test_schemas_are_found_by_number_and_asked_for_once(registry, opened):
    registry.register("orders-value", RECORD)
    number = registry.register("orders-value", '{"type": "object"}', "JSON")
    found = opened()
    assert found.named("2") == found.latest("orders-value") == found.named(str(number))
    assert (found.named("2").kind, found.named("2").content) == (JSON, b'{"type": "object"}')
    assert registry.asked == ["/schemas/ids/2", "/subjects/orders-value/versions/latest"]


def test_a_subject_may_have_any_name(registry, opened):
    registry.register("a/b c", RECORD)
    assert opened().latest("a/b c").name == "1"
    with pytest.raises(OptionError, match=r"http://.* has no subject 'none'"):
        opened().latest("none")


def test_references_come_with_a_schema(registry, opened):
    registry.register("inner", b"bytes", "PROTOBUF")
    references = [{"name": "inner.proto", "subject": "inner", "version": 1}]
    registry.register("outer", b"more", "PROTOBUF", references=references)
    found = opened().latest("outer")
    assert (found.kind, found.content) == (PROTOBUF, b"more")
    assert [(name, each.content) for name, each in found.references] == [("inner.proto", b"bytes")]


def test_a_registry_that_has_protobuf_as_text_only_is_told(registry, opened):
    """As Apicurio 2.6 does it: the answer is the same with ?format=serialized."""
    registry.register("orders", 'syntax = "proto3"; message Order {}', "PROTOBUF")
    with pytest.raises(RegistryError, match=r"/latest: .* does not know \?format=serialized, by"):
        opened().latest("orders")


def test_references_in_a_circle_end(registry, opened):
    references = [{"name": "r", "subject": "r", "version": 1}]
    registry.register("r", RECORD, references=references)
    with pytest.raises(RegistryError, match="more than 100 others"):
        opened().latest("r")


def test_unknown_numbers_are_asked_for_so_often_in_a_minute(registry, opened, monkeypatch):
    monkeypatch.setattr(registry_module, "MISSES_MAX", 3)
    now = [0.0]
    found = opened(clock=lambda: now[0])
    found._misses = type(found._misses)(maxlen=3)
    for number in (7, 7, 8, 9, 10, 11):
        with pytest.raises(MissingSchemaError, match="has no schema"):
            found.named(str(number))
    assert registry.asked == ["/schemas/ids/7", "/schemas/ids/8", "/schemas/ids/9"]
    now[0] = 61.0
    for _ in range(7):
        registry.register("later", RECORD)
    assert found.named("7").name == "7"


@pytest.mark.parametrize("name", ["-1", "1.5", "x", "²", "12345678901", "2147483648", ""])
def test_what_is_no_number_is_not_asked_for(registry, opened, name):
    with pytest.raises(MissingSchemaError, match="is no id"):
        opened().named(name)
    assert registry.asked == []


def test_user_and_password_come_from_the_url_or_the_environment(registry, opened):
    registry.register("s", RECORD)
    registry.login = "Basic " + base64.b64encode(b"me:p@ss").decode()
    with pytest.raises(RegistryError, match=r"refuses \(401\): give USER:PASSWORD") as refused:
        opened(url=registry.url.replace("//", "//me:wrong@")).latest("s")
    assert "wrong" not in str(refused.value)
    assert opened(url=registry.url.replace("//", "//me:p%40ss@")).latest("s").name == "1"
    environ = {"LEPORID_REGISTRY_USER": "me", "LEPORID_REGISTRY_PASSWORD": "p@ss"}
    assert opened(environ=environ).latest("s").name == "1"


@pytest.mark.parametrize(
    ("status", "body", "told"),
    [
        (500, b"out of order", "the registry says 500: out of order"),
        (200, b"<html>", "the registry says 200: <html>"),
        (200, b"[]", "the registry says 200"),
        (200, b"{}", "is no schema of Avro, JSON or Protobuf"),
        (200, b'{"schema": "{"}', "the schema is broken"),
        (200, b'{"schema": "%s"}' % (b"[" * 100_000), "the schema is broken"),
        (200, b'{"schema": "{}", "references": 7}', "is no schema of Avro, JSON or Protobuf"),
        (200, b'{"schema": "{}", "schemaType": []}', "is no schema of Avro, JSON or Protobuf"),
        (200, b'{"schema": "{}", "references": [{"name": "a"}]}', "has a reference without"),
        (200, b'{"schema": "x", "schemaType": "XSD"}', "is no schema of Avro"),
        (302, b"", "the registry says 302"),
    ],
)
def test_an_answer_that_is_none_is_an_error_with_the_url(registry, opened, status, body, told):
    registry.broken["/schemas/ids/1"] = (status, body)
    with pytest.raises(RegistryError, match=rf"http://127.0.0.1:\d+/schemas/ids/1.*{told}"):
        opened().named("1")


def test_an_answer_without_end_is_not_read(registry, opened, monkeypatch):
    monkeypatch.setattr(registry_module, "ANSWER_BYTES_MAX", 10)
    registry.register("s", RECORD)
    with pytest.raises(RegistryError, match="larger than 10 bytes"):
        opened().latest("s")


def test_an_answer_is_waited_for_so_long_and_unpacked_by_nobody(registry, opened):
    seconds = itertools.count(0.0, 31.0)
    registry.register("s", RECORD)
    with pytest.raises(RegistryError, match="not complete after 30 seconds"):
        opened(clock=lambda: next(seconds)).latest("s")
    registry.headers["Content-Encoding"] = "gzip"
    registry.broken["/schemas/ids/1"] = (200, gzip.compress(b"0" * 1000))
    with pytest.raises(RegistryError, match="the registry says 200"):
        opened().named("1")


def test_a_registry_does_not_say_how_long_to_wait(registry, opened, monkeypatch):
    waited: list[float] = []
    monkeypatch.setattr("time.sleep", waited.append)
    registry.headers["Retry-After"] = "86400"
    registry.broken["/schemas/ids/1"] = (503, b"")
    with pytest.raises(RegistryError, match="cannot be reached"):
        opened().named("1")
    assert len(registry.asked) == 4
    assert sum(waited) < 10


def test_a_registry_that_is_away_is_an_error(opened, monkeypatch):
    monkeypatch.setattr(registry_module, "RETRIES", 0)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(RegistryError, match=rf"http://127.0.0.1:{port}/.*cannot be reached"):
        opened(url=f"http://127.0.0.1:{port}").named("1")


def test_a_url_is_divided():
    assert divided("https://a%3Ab:c@host:8081/base/") == ("https://host:8081/base", ("a:b", "c"))
    assert divided("http://[::1]:80") == ("http://[::1]:80", None)
    for broken in ("http://", "http://host:port", "http://user:se/cret@host", "http://[se"):
        with pytest.raises(OptionError, match="URL") as refused:
            divided(broken)
        assert "se" not in str(refused.value).replace("password", "")
