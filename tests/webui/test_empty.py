"""A broker that has nothing in it: each page works, and says what to do next."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from tests.webui.browsing import Tab, Watch
from tests.webui.example import STREAM, Api
from tests.webui.pages import PAGES, Place, titled
from tests.webui.test_accessible import STANDARD, axe, violations

sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
expect = sync_api.expect
pytestmark = pytest.mark.slow

Query = dict[str, str]

EXCHANGE, QUEUE, STREAM_PAGE = (
    ("exchanges", "/", "amq.topic"),
    ("queues", "/", "new"),
    ("streams", "/", "log"),
)
# What every broker has, or what somebody has just made.
OBJECTS: tuple[Place, ...] = (
    EXCHANGE,
    ("exchanges", "/", "amq.default"),
    QUEUE,
    STREAM_PAGE,
    ("users", "guest"),
    ("vhosts", "/"),
)
LISTS: tuple[Place, ...] = tuple(
    place for place in PAGES if len(place) < 2 or place == ("policies", "new")
)
TABS: tuple[tuple[Place, Query], ...] = (
    *((EXCHANGE, {"tab": tab}) for tab in ("bindings", "publish", "settings", "topology")),
    *(
        (QUEUE, {"tab": tab})
        for tab in ("look", "consumers", "bindings", "settings", "publish", "get", "move")
    ),
    *(
        (STREAM_PAGE, {"show": show})
        for show in ("readers", "rates", "copy", "consumers", "bindings", "settings", "publish")
    ),
    (STREAM_PAGE, {"show": "topology"}),
    (("streams",), {"show": "readers"}),
    (("streams",), {"show": "groups"}),
    *((("pipelines",), {"tab": tab}) for tab in ("runs", "groups", "run")),
    (("users",), {"kind": "without"}),
    (("parameters",), {"kind": "components"}),
    (("filters",), {"queue": "new"}),
    (("filters",), {"queue": "new", "filter": "n > 1"}),
    (("filters",), {"stream": "log", "filter": "n > 1"}),
    (("dead-letters",), {"queue": "new"}),
)

# A link, a button or a command; or a sentence that begins with what to do.
STEP = "a, button, code"
ORDER = re.compile(r"(^|[.:;] )(Ask|Bind|Choose|Make|Publish|Set|They appear) ")
ROWLESS = """() => [...document.querySelectorAll("main table.list")]
  .filter((table) => !table.querySelector("tbody tr")).map((table) => table.innerText)"""


@pytest.fixture(scope="module")
def fresh(
    browser: Any, broker: Any, logged_in: dict[str, Any], empty_api: Api
) -> Iterator[tuple[Tab, list[str]]]:
    """A tab of guest's, and what went wrong in it: nothing may, not even a refusal."""
    context = browser.new_context(
        base_url=f"http://127.0.0.1:{broker.http_port}",
        storage_state=logged_in,
        viewport={"width": 1440, "height": 900},
        reduced_motion="reduce",
    )
    tab, wrong = Tab(context.new_page()), list[str]()

    def console(message: Any) -> None:
        if message.type in ("error", "warning"):
            wrong.append(message.text)

    def answered(answer: Any) -> None:
        if answer.status >= 400:
            wrong.append(f"{answer.status} {answer.url}")

    with Watch(tab.page):
        tab.page.on("console", console)
        tab.page.on("response", answered)
        tab.open("feature-flags")
        tab.page.evaluate(axe.Axe().axe_script)
        yield tab, wrong
    context.close()


def check(fresh: tuple[Tab, list[str]], place: Place, query: Query) -> None:
    tab, wrong = fresh
    tab.go(*place, **query)
    # Also of parts that come when the page has its first answer.
    expect(tab.page.locator("main td.none")).to_have_count(0)
    tab.settled()
    for each in tab.page.locator("main .empty").all():
        text = each.locator(".empty-text")
        said = text.inner_text() if text.count() else ""
        assert text.locator(STEP).count() or ORDER.search(said), each.inner_text()
    # A table without rows says so by such a box, and not by its heads alone.
    assert tab.page.evaluate(ROWLESS) == []
    assert tab.page.locator("main .notice.bad, main .notice.warn").all_inner_texts() == []
    assert violations(tab, STANDARD) == []
    found, wrong[:] = list(wrong), []
    assert found == []


@pytest.mark.parametrize("place", LISTS, ids=titled)
def test_a_list_with_nothing_in_it_says_what_to_do_next(fresh: tuple[Tab, list[str]], place: Place):
    check(fresh, place, {})


@pytest.fixture(scope="module")
def made(fresh: tuple[Tab, list[str]], empty_api: Api) -> tuple[Tab, list[str]]:
    """The same, after a queue and a stream were made."""
    empty_api.put("queues", "/", "new", body={"durable": True})
    empty_api.put("queues", "/", "log", body={"durable": True, "arguments": STREAM})
    return fresh


@pytest.mark.parametrize(
    ("place", "query"),
    [*((place, {}) for place in OBJECTS), *TABS],
    ids=lambda value: (
        titled(value) if isinstance(value, tuple) else "-".join(map(str, value.values()))
    ),
)
def test_an_object_with_nothing_in_it_says_what_to_do_next(
    made: tuple[Tab, list[str]], place: Place, query: Query
):
    check(made, place, query)
