"""How fast the web UI is in a browser: the first page, lists of many queues, frames.

    python bench/web_pages.py
    python bench/web_pages.py --queues 10000 --runs 5 --chromium /usr/bin/chromium

Starts a broker of its own with so many queues, and a Chromium without a screen. Printed are the
time to the first paint of the overview with nothing in the browser's cache, what came over the
network for it, the time from a click to the rows of lists, and how long frames took while charts
are drawn, and while a topology of 565 nodes is panned and zoomed. Needs Playwright. Responsible for
these figures. Invariant: each run has a browser's profile of its own.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
from base64 import b64encode
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.brokers import own_broker
from bench.policies import declare
from bench.report import machine

from leporid.load.amqp import Client

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

FRAMES_SECONDS: Final = 10
WIDTH: Final = 1440
HEIGHT: Final = 900
LISTS: Final = {
    "by name": "#/queues",
    "by messages": "#/queues?sort=messages_ready&reverse=1",
    "by rate": "#/queues?sort=message_stats.publish_details.rate&reverse=1",
    "last page": "#/queues?page={pages}",
    "500 rows": "#/queues?size=500",
}

PAINTED: Final = """() => performance.getEntriesByName("first-contentful-paint")[0].startTime"""
ROWS: Final = """(address) => new Promise((done, failed) => {
  const began = performance.now();
  location.hash = address;
  const look = () => {
    const title = document.querySelector("h1")?.innerText ?? "";
    const rows = document.querySelectorAll(".list tbody tr a.name").length;
    if (title.startsWith("Queues") && rows > 20) {
      requestAnimationFrame(() => done(performance.now() - began));
    } else if (performance.now() - began > 20000) {
      failed(new Error(`no rows at ${location.hash}: ${title}, ${rows}`));
    } else {
      setTimeout(look, 2);
    }
  };
  look();
})"""
FRAMES: Final = """(ms) => new Promise((done) => {
  const frames = [];
  const began = performance.now();
  let last = began;
  const frame = (now) => {
    frames.push(now - last);
    last = now;
    if (now - began < ms) {
      requestAnimationFrame(frame);
    } else {
      done(frames.slice(1));
    }
  };
  requestAnimationFrame(frame);
})"""
MOVED: Final = """([act, ms]) => new Promise((done) => {
  const view = document.querySelector(".topology-view");
  const { x, y } = view.getBoundingClientRect();
  const bubbles = true;
  view.setPointerCapture = () => {}; // events of no real pointer cannot be captured
  const point = (type, dx, dy) => view.dispatchEvent(
    new PointerEvent(type, {
      bubbles, pointerId: 1, clientX: x + 700 + dx, clientY: y + 300 + dy }));
  const wheel = (deltaY) => view.dispatchEvent(new WheelEvent("wheel", {
    bubbles, cancelable: true, ctrlKey: true, deltaY, clientX: x + 700, clientY: y + 300 }));
  const frames = [];
  const began = performance.now();
  let last = began;
  if (act === "pan") point("pointerdown", 0, 0);
  const frame = (now) => {
    frames.push(now - last);
    last = now;
    const s = (now - began) / 1000;
    if (act === "pan") point("pointermove", 400 * Math.sin(2 * s), 250 * Math.sin(1.3 * s));
    else wheel(20 * Math.sin(2 * s));
    if (now - began < ms) requestAnimationFrame(frame);
    else {
      point("pointerup", 0, 0);
      done(frames.slice(1));
    }
  };
  requestAnimationFrame(frame);
})"""
EXCHANGES, BOUND = 60, 505


def declare_topology(context: BrowserContext, url: str) -> None:
    """Make a virtual host with exchanges, and queues with two bindings each."""
    headers = {"Authorization": "Basic " + b64encode(b"guest:guest").decode()}
    made = {"vhost": "drawn", "durable": True, "auto_delete": False, "arguments": {}}
    bindings = [
        {
            "vhost": "drawn",
            "source": f"exchange.{(7 * queue + 13 * each) % EXCHANGES}",
            "destination": f"queue.{queue}",
            "destination_type": "queue",
            "routing_key": f"key.{queue}.{each}",
            "arguments": {},
        }
        for queue in range(BOUND)
        for each in range(2)
    ]
    everything = {"configure": ".*", "write": ".*", "read": ".*"}
    body = {
        "vhosts": [{"name": "drawn"}],
        "permissions": [{"user": "guest", "vhost": "drawn", **everything}],
        "exchanges": [
            {**made, "name": f"exchange.{each}", "type": "topic", "internal": False}
            for each in range(EXCHANGES)
        ],
        "queues": [{**made, "name": f"queue.{each}"} for each in range(BOUND)],
        "bindings": bindings,
    }
    answer = context.request.post(f"{url}/api/definitions", data=body, headers=headers)
    if not answer.ok:
        raise SystemExit(f"cannot declare the topology: {answer.status} {answer.text()}")


def topology_frames(page: Page, url: str, act: str) -> list[float]:
    """Return how many milliseconds frames took while the topology is panned or zoomed, sorted."""
    page.goto(f"{url}/#/topology?vhost=drawn")
    page.get_by_label("Fold like names").uncheck()
    page.wait_for_function(f"document.querySelectorAll('.node').length >= {EXCHANGES + BOUND}")
    found: list[float] = page.evaluate(MOVED, [act, FRAMES_SECONDS * 1000])
    return sorted(found)


def shown_frames(name: str, took: list[float]) -> str:
    """Return a line about frames."""
    late = sum(each > 1000 / 30 for each in took)
    return (
        f"{name:12} {statistics.median(took):8.1f} ms, 99 % within "
        f"{took[int(len(took) * 0.99)]:.1f}; {late} of {len(took)} above 33"
    )


def logged_in(browser: Browser, url: str) -> BrowserContext:
    """Return a profile of its own that has logged in; nothing of the page is in its cache."""
    context = browser.new_context(viewport={"width": WIDTH, "height": HEIGHT})
    headers = {"X-Leporid-Page": "1"}
    login = {"username": "guest", "password": "guest"}
    answer = context.request.post(f"{url}/api/session", data=login, headers=headers)
    if not answer.ok:
        raise SystemExit(f"cannot log in: {answer.status}")
    return context


def first_page(context: BrowserContext, url: str) -> tuple[float, int]:
    """Open the overview; returns milliseconds to the first paint, and bytes from the network."""
    page = context.new_page()
    network = context.new_cdp_session(page)
    network.send("Network.enable")
    received = [0]

    def loaded(event: dict[str, Any]) -> None:
        received[0] += int(event["encodedDataLength"])

    network.on("Network.loadingFinished", loaded)
    page.goto(url)
    page.wait_for_selector(".attention, .notice.good")
    painted = float(page.evaluate(PAINTED))
    page.close()
    return painted, received[0]


def lists(page: Page, url: str, pages: int) -> dict[str, float]:
    """Return how many milliseconds each list takes, from the click to its rows."""
    found = {}
    for name, address in LISTS.items():
        page.goto(f"{url}/#/connections")
        page.wait_for_selector("h1:has-text('Connections')")
        page.wait_for_selector(".list-box[aria-busy=false]")
        found[name] = float(page.evaluate(ROWS, address.format(pages=pages)))
    return found


def frames(page: Page, url: str) -> list[float]:
    """Return how many milliseconds each frame took while the overview is shown, sorted."""
    page.goto(f"{url}/#/")
    page.wait_for_selector(".u-over")
    found: list[float] = page.evaluate(FRAMES, FRAMES_SECONDS * 1000)
    return sorted(found)


def run(options: argparse.Namespace) -> None:
    """Measure, and print."""
    from playwright.sync_api import sync_playwright

    with own_broker() as broker, Client(broker.url) as client, sync_playwright() as playwright:
        url = broker.http_url
        declare(client, [f"bench.{number}" for number in range(options.queues)], durable=False)
        browser = playwright.chromium.launch(
            executable_path=options.chromium, args=["--no-sandbox"]
        )
        painted, received = zip(
            *(first_page(logged_in(browser, url), url) for _ in range(options.runs)), strict=True
        )
        print(f"first paint  {statistics.median(painted):8.0f} ms, {max(painted):.0f} at worst")
        print(f"first page   {max(received) / 1000:8.0f} kB, answers of the API included")
        page = logged_in(browser, url).new_page()
        looked = [lists(page, url, options.queues // 100) for _ in range(options.runs)]
        for name in LISTS:
            times = [each[name] for each in looked]
            print(f"{name:12} {statistics.median(times):8.0f} ms, {max(times):.0f} at worst")
        print(shown_frames("frames", frames(page, url)))
        declare_topology(page.context, url)
        for act in ("pan", "zoom"):
            print(shown_frames(f"topology {act}"[:13], topology_frames(page, url, act)))
        browser.close()


def main() -> None:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--queues", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--chromium", default=shutil.which("chromium"))
    options = parser.parse_args()
    print(machine())
    run(options)


if __name__ == "__main__":
    main()
