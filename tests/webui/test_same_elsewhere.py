"""What pages show as the same elsewhere: each command line and each call of HTTP runs as shown."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pika
import pytest
from tests.webui.browsing import Tab
from tests.webui.example import Api
from tests.webui.pages import PAGES, Place, titled

from leporid.cli.main import main, parser

sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
expect = sync_api.expect
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed"),
]

Query = dict[str, str]

QUEUE, STREAM = ("queues", "/", "orders"), ("streams", "/", "flights")
TABS: Sequence[tuple[Place, Query]] = (
    *((QUEUE, {"tab": tab}) for tab in ("look", "consumers", "bindings", "settings", "publish")),
    *((QUEUE, {"tab": tab}) for tab in ("get",)),
    (QUEUE, {"tab": "look", "filter": "number > 3", "key": "EWR.UA", "limit": "10"}),
    *((("exchanges", "/", "departures"), {"tab": tab}) for tab in ("bindings", "settings")),
    *((STREAM, {"show": show}) for show in ("readers", "rates", "consumers", "bindings")),
    *((STREAM, {"show": show}) for show in ("settings", "publish", "topology")),
    (("streams",), {"show": "readers"}),
    (("streams",), {"show": "groups"}),
    (("pipelines",), {"tab": "runs"}),
    (("pipelines",), {"tab": "groups"}),
    (("users",), {"kind": "without"}),
    (("parameters",), {"kind": "components"}),
    (("filters",), {"queue": "orders", "filter": "number > 3", "tags": "late || lost"}),
    (("filters",), {"stream": "flights", "filter": "number > 3", "vhost": "/"}),
    (("dead-letters",), {"queue": "letters", "reason": "rejected"}),
    (("delays",), {"exchange": "reminders"}),
    (("definitions",), {"vhost": "shop"}),
    (("audit",), {"user": "guest", "outcome": "done"}),
)
"""Parts of pages that show other things than the page does at first."""

UNEQUALLED = {"doctor": (0, 1)}
"""Commands whose exit code says what they have found."""


@pytest.fixture(scope="module")
def line_runner() -> Iterator[ThreadPoolExecutor]:
    """A thread without the loop of Playwright, as commands have loops of their own."""
    with ThreadPoolExecutor(1) as executor:
        yield executor


@pytest.fixture(scope="module")
def methods(api: Api) -> dict[str, list[str]]:
    """The methods of each route."""
    paths = api.get("openapi.json")["paths"]
    return {path: [method.upper() for method in found] for path, found in paths.items()}


@pytest.fixture
def run(
    line_runner: ThreadPoolExecutor,
    methods: dict[str, list[str]],
    broker: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Callable[[str], str]:
    """Runs a line of the page as a shell would; what would change something says what only."""
    monkeypatch.setenv("LEPORID_URL", f"http://127.0.0.1:{broker.http_port}")
    monkeypatch.chdir(tmp_path)

    def run_line(line: str) -> str:
        program, *words = shlex.split(line)
        if program == "curl":
            return call(line, methods)
        assert program == "leporid"
        if "--dry-run" not in words and takes(dry := dried(words)):
            words = dry
        if words == ["top"]:
            words += ["--once", "--interval", "0.2"]
        code = line_runner.submit(exit_code, words).result(60)
        out, err = capsys.readouterr()
        assert code in UNEQUALLED.get(words[0], (0,)), f"{line}: {err}"
        return out

    def takes(words: list[str]) -> bool:
        try:
            parser().parse_args(words)
        except SystemExit:
            return False
        finally:
            capsys.readouterr()
        return True

    return run_line


def dried(words: list[str]) -> list[str]:
    """Return the words with `--dry-run`, which behind `--` would be a name."""
    at = words.index("--") if "--" in words else len(words)
    return [*words[:at], "--dry-run", *words[at:]]


def exit_code(words: list[str]) -> int:
    try:
        return main(words)
    except SystemExit as end:
        return int(end.code or 0)


def call(line: str, methods: dict[str, list[str]]) -> str:
    """Run a line of curl; of what would destroy or pause something, look only whether it is there.

    Args:
        line: as it is shown.
        methods: the API's, by the path of each route.
    """
    words = shlex.split(line)
    url = next(urlsplit(word) for word in words if word.startswith("http"))
    method = words[words.index("-X") + 1] if "-X" in words else "GET"
    if method == "DELETE" or url.path.endswith(("/pause", "/resume")):
        segments = url.path.split("/")
        assert any(
            method in there and fits(path.split("/"), segments) for path, there in methods.items()
        ), line
        return ""
    shown = line.replace("-u USER", "-sS --fail-with-body -u guest:guest", 1)
    done = subprocess.run(
        ["sh", "-c", shown], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, f"{line}: {done.stdout}{done.stderr}"
    return done.stdout


def fits(route: Sequence[str], segments: Sequence[str]) -> bool:
    return len(route) == len(segments) and all(
        one.startswith("{") or one == other for one, other in zip(route, segments, strict=True)
    )


@pytest.fixture(autouse=True)
def opened(tab: Tab) -> None:
    """There is a document; tests go to pages within it."""
    if tab.page.url == "about:blank":
        tab.open("feature-flags")


def shown(tab: Tab) -> tuple[list[str], list[str]]:
    """Return the command lines and the calls that the page shows."""
    tab.page.locator("main details.same").first.wait_for()
    tab.page.evaluate("document.querySelectorAll('details.same').forEach((one) => one.open = true)")
    lines = [
        (one.locator(".same-name").inner_text(), one.locator("code").inner_text())
        for one in tab.page.locator("main .same-line").all()
    ]
    commands = [text for name, text in lines if name == "Command line"]
    return commands, [text for name, text in lines if name == "HTTP"]


def check(tab: Tab, run: Callable[[str], str]) -> None:
    commands, calls = shown(tab)
    assert commands
    assert calls
    for line in [*commands, *calls]:
        run(line)


@pytest.mark.parametrize(
    ("place", "query"),
    [*((place, {}) for place in PAGES), *TABS],
    ids=lambda value: (
        titled(value) if isinstance(value, tuple) else "-".join(map(str, value.values()))
    ),
)
def test_what_a_page_shows_runs(
    tab: Tab, run: Callable[[str], str], place: Place, query: Query, broker: Any, tmp_path: Path
):
    (tmp_path / "all.json").write_text('{"queues": []}')
    tab.go(*place, **query)
    check(tab, run)


def test_what_the_pages_of_clients_show_runs(
    tab: Tab, run: Callable[[str], str], broker: Any, api: Api
):
    parameters = pika.ConnectionParameters("127.0.0.1", broker.amqp_port, heartbeat=0)
    with pika.BlockingConnection(parameters) as client:
        client.channel().basic_consume("late", lambda *_: None)
        (channel,) = api.get("channels")
        name = channel["connection_details"]["name"]
        for place in (("connections", name), ("channels", channel["name"])):
            tab.go(*place)
            check(tab, run)


LISTS: Sequence[tuple[str, Query]] = (
    ("queues", {"name": "r", "sort": "messages", "reverse": "1", "type": "classic"}),
    ("queues", {"vhost": "/", "name": "^(orders|late)$", "regex": "1", "sort": "name"}),
    ("exchanges", {"name": "amq", "sort": "type", "durable": "true", "vhost": "shop"}),
    ("users", {"sort": "name", "reverse": "1", "name": "a"}),
    ("vhosts", {"sort": "name", "reverse": "1"}),
    ("policies", {"vhost": "/", "apply-to": "all"}),
    ("filter-classes", {"name": "late"}),
)


@pytest.mark.parametrize(("page", "query"), LISTS, ids=[each[0] for each in LISTS])
def test_a_command_lists_what_the_page_does(
    tab: Tab, run: Callable[[str], str], page: str, query: Query
):
    tab.go(page, **query)
    expect(tab.page.locator("main tbody tr").first).to_be_visible()
    (line,), _ = shown(tab)
    names = run(f"{line} --quiet").split("\n")[:-1]
    rows = tab.page.locator("main tbody tr td:first-child > .name").all_inner_texts()
    assert names
    assert [name or "(default)" for name in names] == rows


def test_what_forms_show_follows_what_is_typed(tab: Tab, run: Callable[[str], str]):
    tab.go("queues", "/", "orders", tab="move")
    tab.field("Queue").fill("late")
    tab.field("At most").fill("1")
    expect(tab.page.locator("main .same")).to_contain_text("--limit 1")
    check(tab, run)
    (line,), _ = shown(tab)
    assert line == "leporid queues move orders late --limit 1 --vhost /"
    tab.field("To").select_option(label="an exchange")
    tab.field("Exchange").fill("departures")
    tab.field("Routing key").fill("a b")
    expect(tab.page.locator("main .same")).to_contain_text("'a b'")
    (line,), _ = shown(tab)
    assert line == (
        "leporid queues move orders --exchange departures --key 'a b' --limit 1 --vhost /"
    )
    run(line)
    tab.go("queues", "/", "orders", tab="get")
    tab.field("and then").select_option(label="remove them from the queue")
    expect(tab.page.locator("main .same")).to_contain_text("--take")
    (line,), _ = shown(tab)
    assert line == "leporid cat queue://%2F/orders --count 1 --take --yes"
    tab.go("policies", "new", vhost="shop")
    tab.field("Name").fill("few")
    tab.field("Pattern").fill("^a")
    tab.field("Value 1").fill("5")
    expect(tab.page.locator("main .same")).to_contain_text('"max-length":5')
    check(tab, run)
    (line,), _ = shown(tab)
    assert line == (
        "leporid policies set few '^a' '{\"max-length\":5}' --priority 0 --apply-to queues"
        " --vhost shop"
    )


def test_what_sends_dead_letters_back_follows_what_is_chosen(tab: Tab, run: Callable[[str], str]):
    tab.go("dead-letters", vhost="/", queue="letters", reason="rejected")
    tab.button("Send these back…").click()
    tab.dialog.locator("details.same summary").click()
    lines = tab.dialog.locator(".same-line code")
    line = lines.filter(has_text="leporid queues")
    expect(line).to_have_text(
        "leporid queues move letters --origin queue"
        " --filter '\"x-last-death-reason\" = '\\''rejected'\\''' --vhost /"
    )
    run(line.inner_text())
    tab.page.keyboard.press("Escape")


@pytest.fixture(scope="module")
def dashed(api: Api) -> None:
    """Objects whose names a command could take for options."""
    stream = {"x-queue-type": "stream"}
    api.put("vhosts", "-v")
    every = {"configure": ".*", "write": ".*", "read": ".*"}
    api.put("users", "-u", body={"password": "secret", "tags": "-t"})
    for user in ("guest", "-u"):
        api.put("permissions", "-v", user, body=every)
    api.put("queues", "-v", "-q", body={"durable": True})
    api.put("queues", "-v", "-s", body={"durable": True, "arguments": stream})
    api.put("exchanges", "-v", "-x", body={"type": "topic", "durable": True})
    api.post("bindings", "-v", "e", "-x", "q", "-q", body={"routing_key": "-k"})
    api.publish("-v", "-x", "-k", "a")
    short = {"pattern": "^-", "definition": {"max-length": 100}, "apply-to": "queues"}
    api.put("policies", "-v", "-p", body=short)


DASHED: Sequence[tuple[Place, Query]] = (
    (("queues", "-v", "-q"), {}),
    *((("queues", "-v", "-q"), {"tab": tab}) for tab in ("consumers", "bindings", "settings")),
    (("queues", "-v", "-q"), {"tab": "look", "tags": "-t", "key": "-k"}),
    (("streams", "-v", "-s"), {"tags": "-t"}),
    *((("streams", "-v", "-s"), {"show": show}) for show in ("readers", "rates", "settings")),
    (("exchanges", "-v", "-x"), {}),
    *((("exchanges", "-v", "-x"), {"tab": tab}) for tab in ("bindings", "settings")),
    (("users", "-u"), {}),
    (("vhosts", "-v"), {}),
    (("policies", "-v", "-p"), {}),
    (("queues",), {"vhost": "-v", "name": "-q"}),
    (("exchanges",), {"vhost": "-v", "name": "-x"}),
    (("dead-letters",), {"vhost": "-v", "queue": "-q"}),
    (("delays",), {"vhost": "-v", "exchange": "-x"}),
    (("definitions",), {"vhost": "-v"}),
    (("audit",), {"vhost": "-v", "user": "-u"}),
    (("filters",), {"vhost": "-v", "queue": "-q", "filter": "-n < 1"}),
)


@pytest.mark.parametrize(
    ("place", "query"),
    DASHED,
    ids=["-".join([*place, *query.values()]).replace(" ", "") for place, query in DASHED],
)
def test_a_name_that_begins_with_a_dash_is_no_option(
    tab: Tab,
    run: Callable[[str], str],
    place: Place,
    query: Query,
    dashed: None,
    broker: Any,
    tmp_path: Path,
):
    (tmp_path / "all.json").write_text('{"queues": []}')
    tab.go(*place, **query)
    check(tab, run)


def test_what_forms_show_has_no_name_for_an_option(
    tab: Tab, run: Callable[[str], str], dashed: None
):
    tab.go("queues", "-v", "-q", tab="move")
    tab.field("Queue").fill("-s")
    expect(tab.page.locator("main .same")).to_contain_text("-- -q -s")
    (line,), _ = shown(tab)
    assert line == "leporid queues move --vhost=-v -- -q -s"
    run(line)
    tab.go("exchanges", "-v", "-x", tab="publish")
    tab.field("Routing key").fill("-k")
    tab.field("Body").fill("--a body")
    lines = tab.page.locator("main .same-line code")
    expect(lines.filter(has_text="leporid publish")).to_contain_text("-- -x -k")
    (line,), _ = shown(tab)
    assert "--message='--a body'" in line
    run(line)
    tab.go("queues", vhost="-v")
    tab.button("Declare a queue").first.click()
    tab.field("Name").fill("-new")
    tab.dialog.locator("details.same summary").click()
    line = tab.dialog.locator(".same-line code").filter(has_text="leporid queues").inner_text()
    assert line == "leporid queues add --vhost=-v -- -new"
    run(line)
    tab.page.keyboard.press("Escape")
