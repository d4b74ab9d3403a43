"""Picture each page of the web UI, wide and narrow, light and dark.

    .venv/bin/python tools/screenshots.py http://127.0.0.1:15672 FOLDER [--only users,queues]

Needs Playwright and Chromium, as the tests do; the broker should have something to show (`make
ui`). It only looks: nothing is changed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

SIZES = {"wide": (1440, 900), "narrow": (390, 844)}
THEMES = ("light", "dark")
HEIGHT_MAX = 4000

# The address of each page. What is in braces is of the object of a list that is first by ORDER.
PAGES = {
    "overview": "",
    "connections": "connections",
    "connection": "connections/{connections:name}",
    "channels": "channels",
    "channel": "channels/{channels:name}",
    "exchanges": "exchanges",
    "exchange": "exchanges/{exchanges:vhost}/{exchanges:name}",
    "queues": "queues",
    "queue": "queues/{queues:vhost}/{queues:name}",
    "streams": "streams",
    "stream": "streams/{streams:vhost}/{streams:name}",
    "exchange-bindings": "exchanges/{exchanges:vhost}/{exchanges:name}?tab=bindings",
    "queue-browse": "queues/{queues:vhost}/{queues:name}?tab=look",
    "queue-consumers": "queues/{queues:vhost}/{queues:name}?tab=consumers",
    "queue-bindings": "queues/{queues:vhost}/{queues:name}?tab=bindings",
    "queue-settings": "queues/{queues:vhost}/{queues:name}?tab=settings",
    "queue-publish": "queues/{queues:vhost}/{queues:name}?tab=publish",
    "queue-get": "queues/{queues:vhost}/{queues:name}?tab=get",
    "queue-move": "queues/{queues:vhost}/{queues:name}?tab=move",
    "stream-readers": "streams/{streams:vhost}/{streams:name}?show=readers",
    "stream-rates": "streams/{streams:vhost}/{streams:name}?show=rates",
    "stream-copy": "streams/{streams:vhost}/{streams:name}?show=copy",
    "topology": "topology",
    "filters": "filters",
    "delays": "delays",
    "dead-letters": "dead-letters",
    "pipelines": "pipelines",
    "users": "users",
    "user": "users/{users:name}",
    "permissions": "permissions",
    "vhosts": "vhosts",
    "vhost": "vhosts/{vhosts:name}",
    "policies": "policies",
    "policy": "policies/{policies:vhost}/{policies:name}",
    "policy-new": "policies/new",
    "limits": "limits",
    "definitions": "definitions",
    "filter-classes": "filter-classes",
    "filter-class": "filter-classes/{filter-classes:name}",
    "parameters": "parameters",
    "audit": "audit",
    "pipeline-runs": "pipelines?tab=runs",
    "backups": "backups",
    "features": "feature-flags",
}
ORDER = {
    "connections": "channels",
    "exchanges": "message_stats.publish_in",
    "queues": "messages",
    "streams": "messages",
    "vhosts": "messages",
}
"""The largest comes first; lists that are not named have an order of their own."""
WHERE = {"queues": "type!=stream"}
"""Streams have a page of their own."""
IDLE = """() => !document.querySelector('[aria-busy=true]')
  && document.querySelector('main').innerText.length > 80
  && !/Loading|Looking…|on their way/.test(document.body.textContent)"""
"""What was asked for is there, and the charts have samples."""


def address(request: Any, pattern: str) -> str | None:
    """Return a page's address with names of objects that are there; None: there is none."""
    path, begun = "", pattern
    while "{" in begun:
        before, _, rest = begun.partition("{")
        wanted, _, begun = rest.partition("}")
        noun, _, member = wanted.partition(":")
        query = {"sort": ORDER[noun], "sort_reverse": "true"} if noun in ORDER else {}
        query |= {"where": WHERE[noun]} if noun in WHERE else {}
        found = request.get(f"/api/{noun}", params=query).json()
        if not isinstance(found, list) or not found:
            return None
        path += before + quote(str(found[0][member]), safe="")
    return path + begun


def picture(browser: Any, url: str, folder: Path, names: list[str], login: dict[str, str]) -> int:
    """Write the pictures; returns how many pages could not be looked at."""
    failed = 0
    for theme in THEMES:
        for size, (width, height) in SIZES.items():
            context = browser.new_context(
                base_url=url,
                color_scheme=theme,
                viewport={"width": width, "height": height},
                reduced_motion="reduce",
            )
            headers = {"X-Leporid-Page": "1"}
            answer = context.request.post("/api/session", headers=headers, data=login)
            if not answer.ok:
                sys.exit(f"cannot log in: {answer.text()}")
            page = context.new_page()
            for name in names:
                path = address(context.request, PAGES[name])
                if path is None:
                    print(f"{name}: there is no such object", file=sys.stderr)
                    continue
                file = folder / f"{name}-{size}-{theme}.png"
                page.goto(f"/#/{path}")
                try:
                    page.locator("h1").wait_for(timeout=10_000)
                    page.wait_for_function(IDLE, timeout=10_000)
                except Exception as error:  # noqa: BLE001 - the picture shows it
                    print(f"{file.name}: {str(error).splitlines()[0]}", file=sys.stderr)
                    failed += 1
                tall = page.evaluate("document.documentElement.scrollHeight")
                page.set_viewport_size({"width": width, "height": min(tall, HEIGHT_MAX)})
                page.screenshot(path=str(file))
                page.set_viewport_size({"width": width, "height": height})
            context.close()
    return failed


def main() -> None:
    """Run as a command."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("url")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default=",".join(PAGES), metavar="A,B")
    parser.add_argument("--user", default="guest")
    parser.add_argument("--password", default=os.environ.get("LEPORID_PASSWORD", "guest"))
    options = parser.parse_args()
    names = options.only.split(",")
    if unknown := set(names) - set(PAGES):
        parser.error(f"no page {', '.join(sorted(unknown))}; there are {', '.join(PAGES)}")
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError:
        sys.exit("Playwright is not installed: pip install playwright")
    command = shutil.which("chromium") or shutil.which("chromium-browser")
    options.folder.mkdir(parents=True, exist_ok=True)
    login = {"username": options.user, "password": options.password}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=command, args=["--no-sandbox"])
        failed = picture(browser, options.url, options.folder, names, login)
        browser.close()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
