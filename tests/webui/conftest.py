"""A broker with example data, and a browser, for each module of tests of the web UI.

Playwright drives the Chromium that the system has. Without either, these tests are skipped and say
what is missing. Module scope, because Playwright's loop must not run while tests of other modules
have loops of their own.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.webui.browsing import HANDS, Hands, Tab, Watch
from tests.webui.example import CONFIG, Api, fill

from leporid.testing.process import BrokerProcess

if TYPE_CHECKING:
    from playwright.sync_api import Browser

COMMANDS = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = "LEPORID_TEST_CHROMIUM"
"""Names another one."""
PATIENCE_MS = 20_000


def _chromium() -> str:
    found = os.environ.get(CHROMIUM) or next(filter(None, map(shutil.which, COMMANDS)), None)
    if found is None:
        pytest.skip(f"no Chromium: none of {', '.join(COMMANDS)}, nor is {CHROMIUM} set")
    return found


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    command = _chromium()
    api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    # Other tests keep the machine busy meanwhile.
    api.expect.set_options(timeout=PATIENCE_MS)
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=command,
            args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
        )
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    _chromium()  # no broker without a browser
    pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    folder: Path = tmp_path_factory.mktemp("webui")
    with BrokerProcess(folder / "data", config=CONFIG) as process:
        yield process


@pytest.fixture(scope="module")
def empty_api(broker: BrokerProcess) -> Iterator[Api]:
    """As guest, before anything is there."""
    api = Api(broker.http_port)
    yield api
    api.close()


@pytest.fixture(scope="module")
def api(empty_api: Api) -> Api:
    """As guest; there is something of everything."""
    fill(empty_api)
    return empty_api


@pytest.fixture(scope="module")
def logged_in(browser: Browser, broker: BrokerProcess) -> dict[str, Any]:
    """The cookie of guest, so that not every test types a password."""
    context = browser.new_context(base_url=f"http://127.0.0.1:{broker.http_port}")
    answer = context.request.post(
        "/api/session",
        headers={"X-Leporid-Page": "1"},
        data={"username": "guest", "password": "guest"},
    )
    assert answer.ok, answer.text()
    state: Any = context.storage_state()
    context.close()
    return dict(state)


@pytest.fixture(scope="module")
def watched(
    browser: Browser, broker: BrokerProcess, logged_in: dict[str, Any], api: Api
) -> Iterator[tuple[Tab, Watch]]:
    context = browser.new_context(
        base_url=f"http://127.0.0.1:{broker.http_port}",
        storage_state=logged_in,  # type: ignore[arg-type]
        viewport={"width": 1440, "height": 900},
        reduced_motion="reduce",
    )
    context.set_default_timeout(PATIENCE_MS)
    tab = Tab(context.new_page())
    with Watch(tab.page) as watch:
        yield tab, watch
    context.close()


@pytest.fixture
def tab(watched: tuple[Tab, Watch]) -> Iterator[Tab]:
    """A tab of guest's, with example data; whatever a page must not do fails the test.

    The tests of a module share its document, as somebody does who works with it for long.
    """
    tab, watch = watched
    tab.leave()
    yield tab
    watch.check()


@pytest.fixture(params=HANDS, ids=["mouse", "keyboard"])
def hands(request: pytest.FixtureRequest, tab: Tab) -> Hands:
    """Whoever acts in the tab; each test with it runs by mouse, and by keyboard alone."""
    made: Hands = request.param(tab)
    return made
