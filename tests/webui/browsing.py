"""A tab of a browser: going to pages, pressing keys, and watching for what must not happen.

Must not know what single pages show. Invariant: waits are for what the page shows, never for time.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Self
from urllib.parse import quote, urlsplit

if TYPE_CHECKING:
    from playwright.sync_api import ConsoleMessage, Dialog, Locator, Page, Request

TABS_MAX = 400
"""Presses of Tab until something must have the focus."""

# Chromium's words for an answer that is no success: what tests provoke.
REFUSED = "Failed to load resource: the server responded with a status of"

# The page that was shown goes before the next one is loaded.
GO = """async address => {
  location.hash = address;
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
}"""

FITTING_MS = 20_000
OVERFLOWING = """() => document.documentElement.scrollWidth > document.documentElement.clientWidth
  ? [...document.querySelectorAll("main *, header *")]
      .filter((each) => each.getBoundingClientRect().right > innerWidth + 1
        && !each.closest(".scroll"))
      .map((each) => `${each.tagName}.${each.className}`).slice(0, 5)
      .concat([String(document.documentElement.scrollWidth)])
  : []"""

VIOLATIONS = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) => {
  window.violations.push(`${event.violatedDirective} ${event.blockedURI}`);
});
"""


class Watch:
    """Notes what no page may do: dialogs, errors, requests elsewhere, violations of the policy.

    Used in a `with`, whose end fails if there was any.
    """

    def __init__(self, page: Page) -> None:
        self.page = page
        self.wrong: list[str] = []

    def __enter__(self) -> Self:
        page = self.page
        page.add_init_script(VIOLATIONS)
        page.on("dialog", self._dialog)
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.wrong.append(f"error: {error}"))
        page.on("request", self._request)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.check()

    def check(self) -> None:
        """Fail if there was anything since the last look."""
        wrong, self.wrong = self.wrong, []
        violations = self.page.evaluate("(window.violations ?? []).splice(0)")
        assert wrong == []
        assert violations == []

    def _dialog(self, dialog: Dialog) -> None:
        self.wrong.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not message.text.startswith(REFUSED):
            self.wrong.append(f"console: {message.text}")

    def _request(self, request: Request) -> None:
        here, there = urlsplit(self.page.url), urlsplit(request.url)
        if there.scheme in ("data", "blob"):
            return
        if here.netloc and (there.scheme, there.netloc) != (here.scheme, here.netloc):
            self.wrong.append(f"request: {request.url}")


def fragment(*parts: str, **query: str) -> str:
    """Return the part of a page's address behind the `#`."""
    text = "&".join(f"{name}={quote(value, safe='')}" for name, value in query.items())
    path = "/".join(quote(part, safe="") for part in parts)
    return f"#/{path}{'?' + text if text else ''}"


class Tab:
    """One tab.

    Attributes:
        page: Playwright's.
    """

    def __init__(self, page: Page) -> None:
        self.page = page
        self._fresh = False

    def leave(self) -> None:
        """Leave what was shown, with what the tab remembers of it; the document stays."""
        if self.page.url == "about:blank":
            return
        if self.dialog.count():
            self.page.reload()  # a test has failed in it
        self.page.evaluate("() => { sessionStorage.clear(); location.hash = '#/nowhere'; }")
        self.page.get_by_role("heading", name="No such page").wait_for()

    def open(self, /, *parts: str, **query: str) -> Self:
        """Go to a page of the web UI and wait until it has its title."""
        self._fresh = self.page.url == "about:blank"
        self.page.goto("/" + fragment(*parts, **query))
        self.page.locator("main h1").wait_for()
        return self

    def go(self, /, *parts: str, **query: str) -> Self:
        """Go to a page within the document, and wait for what it shows."""
        self.page.evaluate(GO, fragment(*parts, **query))
        self._fresh = False
        return self.settled()

    def settled(self) -> Self:
        """Wait until what the page has asked for is there."""
        self.page.wait_for_function(
            "() => document.querySelector('main h1')"
            " && !document.querySelector('[aria-busy=true]')"
            " && !document.body.textContent.includes('Loading…')"
        )
        return self

    def check_fits(self) -> None:
        """Fail if the page is wider than the screen."""
        from playwright.sync_api import TimeoutError as NeverError

        try:
            # Charts are drawn anew a moment after their place has changed.
            self.page.wait_for_function(f"() => ({OVERFLOWING})().length === 0", timeout=FITTING_MS)
        except NeverError:
            wide = self.page.evaluate(OVERFLOWING)
            raise AssertionError(f"wider than the screen: {wide}") from None

    # ------------------------------------------------------------------ finding

    def button(self, name: str, *, within: Locator | None = None) -> Locator:
        """Return the button of that name."""
        return (within or self.page.locator("body")).get_by_role("button", name=name, exact=True)

    def field(self, label: str, *, within: Locator | None = None) -> Locator:
        """Return the field with that label; of a dialog, if one is open."""
        box = within or (self.dialog if self.dialog.count() else self.page.locator("main"))
        return box.get_by_label(re.compile(rf"^{re.escape(label)}( \*)?\s*$"))

    @property
    def dialog(self) -> Locator:
        """The dialog that is open."""
        return self.page.locator("dialog[open]")

    def row(self, text: str) -> Locator:
        """Return the rows of tables with a text."""
        return self.page.locator("main tbody tr").filter(has_text=text)

    def notice(self, text: str | re.Pattern[str]) -> Locator:
        """Return the notice with a text."""
        return self.page.locator(".notice").filter(has_text=text)

    # ------------------------------------------------------------------ by keyboard alone

    def focus(self, wanted: Locator) -> Self:
        """Press Tab until something has the focus; fails if it never does."""
        wanted.wait_for()
        if self._fresh and wanted.evaluate("wanted => main.contains(wanted)"):
            # As who uses a keyboard does: past the navigation by the first link of the page.
            self.page.keyboard.press("Tab")
            self.page.keyboard.press("Enter")
        self._fresh = False
        for _ in range(TABS_MAX):
            if wanted.evaluate("wanted => wanted === document.activeElement"):
                return self
            self.page.keyboard.press("Tab")
        raise AssertionError(f"{wanted} cannot be reached by keyboard")


class ByMouse:
    """How a test acts: with the mouse, and a keyboard for text alone."""

    def __init__(self, tab: Tab) -> None:
        self.tab = tab

    def press(self, wanted: Locator) -> None:
        """Press a button or follow a link."""
        wanted.click()

    def type(self, wanted: Locator, text: str) -> None:
        """Fill a field."""
        wanted.fill(text)

    def check(self, wanted: Locator) -> None:
        """Tick a box."""
        wanted.check()

    def choose(self, wanted: Locator, label: str) -> None:
        """Choose an option of a select."""
        wanted.select_option(label=label)


class ByKeyboard:
    """How a test acts: without a mouse."""

    def __init__(self, tab: Tab) -> None:
        self.tab = tab

    def press(self, wanted: Locator) -> None:
        """Press a button or follow a link."""
        self.tab.focus(wanted)
        self.tab.page.keyboard.press("Enter")

    def type(self, wanted: Locator, text: str) -> None:
        """Fill a field: type over what stands there."""
        self.tab.focus(wanted)
        self.tab.page.keyboard.press("ControlOrMeta+A")
        self.tab.page.keyboard.press("Delete")
        self.tab.page.keyboard.type(text)

    def check(self, wanted: Locator) -> None:
        """Tick a box."""
        self.tab.focus(wanted)
        self.tab.page.keyboard.press("Space")

    def choose(self, wanted: Locator, label: str) -> None:
        """Choose an option of a select: its first letters are typed."""
        self.tab.focus(wanted)
        self.tab.page.keyboard.type(label)


Hands = ByMouse | ByKeyboard
HANDS: tuple[Callable[[Tab], Hands], ...] = (ByMouse, ByKeyboard)
