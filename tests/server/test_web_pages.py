"""The web UI's files: what is answered, to whom, and for how long a browser keeps it."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from tests.server.test_http import TOTALS

from leporid.server.addresses import bind
from leporid.server.http import HttpServer, application
from leporid.server.web_pages import IMMUTABLE, SECURITY, WebPages, version_of
from leporid.webui import FOLDER

PAGE = b'<!doctype html><script type="module" src="ui/main.js"></script><p>caf\xc3\xa9'
SCRIPT = b"export const many = 1;\n" * 100


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "webui"
    (place / "core").mkdir(parents=True)
    (place / "index.html").write_bytes(PAGE)
    (place / "main.js").write_bytes(SCRIPT)
    (place / "core" / "tiny.js").write_bytes(b"1")
    (place / "__init__.py").write_text("secret = 1")
    (tmp_path / "outside.js").write_text("secret")
    return place


@pytest.fixture
def pages(folder: Path) -> WebPages:
    made = WebPages(folder)
    made.pack()
    return made


@pytest.fixture
async def client(pages: WebPages) -> AsyncIterator[httpx.AsyncClient]:
    server = HttpServer(application(TOTALS, list, pages.routes()), bind(["127.0.0.1"], 0))
    await server.start()
    host, port = server.address
    async with httpx.AsyncClient(
        base_url=f"http://{host}:{port}", trust_env=False, verify=False
    ) as client:
        yield client
    await server.stop()


async def test_the_page_names_files_by_their_version(client: httpx.AsyncClient, pages: WebPages):
    answer = await client.get("/")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["cache-control"] == "no-cache"
    assert f'src="ui/{pages.version}/main.js"' in answer.text
    assert "café" in answer.text
    script = await client.get(f"/ui/{pages.version}/main.js")
    assert (script.content, script.headers["cache-control"]) == (SCRIPT, IMMUTABLE)
    assert script.headers["content-type"] == "text/javascript; charset=utf-8"


async def test_a_file_by_its_plain_path_is_asked_for_again(client: httpx.AsyncClient):
    answer = await client.get("/ui/core/tiny.js")
    assert (answer.text, answer.headers["cache-control"]) == ("1", "no-cache")


@pytest.mark.parametrize("path", ["/", "/ui/main.js", "/ui/none.js"])
async def test_what_a_browser_lets_the_page_do(client: httpx.AsyncClient, path: str):
    headers = (await client.get(path)).headers
    assert SECURITY.items() <= dict(headers).items()
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy


async def test_compression_by_what_the_client_takes(client: httpx.AsyncClient):
    async with client.stream("GET", "/ui/main.js") as answer:
        packed = b"".join([each async for each in answer.aiter_raw()])
    assert answer.headers["content-encoding"] == "gzip"
    assert answer.headers["vary"] == "accept-encoding"
    assert gzip.decompress(packed) == SCRIPT
    for accepted in ("identity", "gzip;q=0", "gzip; q=0.0", "br"):
        plain = await client.get("/ui/main.js", headers={"accept-encoding": accepted})
        assert "content-encoding" not in plain.headers, accepted
        assert plain.headers["etag"] != answer.headers["etag"]
    half = await client.get("/ui/main.js", headers={"accept-encoding": "br, gzip;q=0.5"})
    assert half.headers["content-encoding"] == "gzip"
    # What would not be smaller stays as it is.
    assert "content-encoding" not in (await client.get("/ui/core/tiny.js")).headers


async def test_what_the_browser_has_is_not_sent_again(client: httpx.AsyncClient):
    tag = (await client.get("/")).headers["etag"]
    for known in (tag, f'"other", {tag}', f"W/{tag}", "*"):
        answer = await client.get("/", headers={"if-none-match": known})
        assert (answer.status_code, answer.content) == (304, b""), known
        assert answer.headers["etag"] == tag
        assert "content-security-policy" in answer.headers
    assert (await client.get("/", headers={"if-none-match": '"x"'})).status_code == 200
    # What is compressed and what is not are two answers.
    packed = (await client.get("/ui/main.js")).headers["etag"]
    plain = {"accept-encoding": "identity", "if-none-match": packed}
    assert (await client.get("/ui/main.js", headers=plain)).status_code == 200


async def test_head(client: httpx.AsyncClient):
    got, head = await client.get("/ui/main.js"), await client.head("/ui/main.js")
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == got.headers["content-length"]
    assert (await client.post("/ui/main.js")).status_code == 405


@pytest.mark.parametrize(
    "path",
    [
        "/ui/",
        "/ui/none.js",
        "/ui/core",
        "/ui/core/",
        "/ui//main.js",
        "/ui/__init__.py",
        "/ui/../outside.js",
        "/ui/%2e%2e/outside.js",
        "/ui/..%2foutside.js",
        "/ui/core/../main.js",
        "/ui//etc/passwd",
        "/ui/main.js%00",
        "/ui/0123456789abcdef/main.js",
    ],
)
async def test_no_other_path_is_answered(client: httpx.AsyncClient, path: str):
    # By hand: the client would leave dots out.
    reader, writer = await asyncio.open_connection(client.base_url.host, client.base_url.port)
    writer.write(f"GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    assert answer.startswith(b"HTTP/1.1 404 ")
    assert b"secret" not in answer


def test_the_version_is_that_of_names_and_contents():
    versions = {
        version_of(files)
        for files in (
            {},
            {"a": b"1"},
            {"a": b"2"},
            {"b": b"1"},
            {"a": b"1", "b": b""},
            {"a1 ": b"", "b": b""},
        )
    }
    assert len(versions) == 6


async def test_before_they_are_compressed_they_are_sent_as_they_are(folder: Path):
    app = application(TOTALS, list, WebPages(folder).routes())
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://x", verify=False) as client:
        answer = await client.get("/ui/main.js")
    assert (answer.content, "content-encoding" in answer.headers) == (SCRIPT, False)


def test_without_a_page_there_are_no_routes(tmp_path: Path):
    assert WebPages(tmp_path).routes() == []


def test_the_package_has_a_page_once_it_is_written():
    pages = WebPages(FOLDER)
    assert bool(pages.routes()) == (FOLDER / "index.html").exists()
    assert repr(pages).startswith(f"<WebPages {pages.version}: ")
