"""The management page in a real browser, as its tests use it: Debian's Chromium, by playwright.

A `Pages` is one browser for a whole module. `tab` opens a tab that is logged in; whatever a test
does there, no request may leave the node and nothing may go wrong in the page's own code.
"""

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from tests.conformance.programs import missing, program, tools_folder

CHECKS: Final = (Path(__file__).parent / "page" / "checks.js").read_text("utf-8")
PATIENCE_MS: Final = 60_000
DESKTOP: Final = {"width": 1280, "height": 900}
PHONE: Final = {"width": 320, "height": 640}  # what WCAG 2.1 asks to be enough (1.4.10)
LARGE_PHONE: Final = {"width": 390, "height": 844}
WIDE_SCREEN: Final = {"width": 1440, "height": 900}
AXE: Final = "node_modules/axe-core/axe.min.js"
ASK_AXE: Final = """axe.run(document, {resultTypes: ["violations"]}).then(found =>
  found.violations.map(each => `${each.id}: ${each.nodes[0].html.slice(0, 120)}`))"""
ENTER: Final = """
  if (!sessionStorage.getItem("known")) {
    sessionStorage.setItem("known", "1");
    sessionStorage.setItem("warren.login", "%s");
  }
"""


class Pages:
    """See the module."""

    def __init__(self, browser: Any) -> None:
        self._browser = browser

    @contextmanager
    def tab(
        self,
        base: str,
        user: str | None = "guest",
        size: dict[str, int] | None = None,
        **options: Any,
    ) -> Iterator[Any]:
        """A tab at no page yet; its user has its own name as password, None: no login."""
        context = self._browser.new_context(viewport=size or DESKTOP, **options)
        tab = context.new_page()
        tab.set_default_timeout(PATIENCE_MS)
        asked: list[str] = []
        faults: list[str] = []
        tab.on("request", lambda request: asked.append(request.url))
        tab.on("pageerror", lambda error: faults.append(str(error)))
        tab.on("console", lambda said: faults.append(said.text) if is_policy(said.text) else None)
        if user is not None:
            secret = base64.b64encode(f"{user}:{user}".encode()).decode()
            # Once for the tab: who logs out stays logged out.
            tab.add_init_script(ENTER % secret)
        try:
            yield tab
        finally:
            context.close()
        assert all(url.startswith((base, "blob:" + base)) for url in asked), asked
        assert not faults, faults


def is_policy(text: str) -> bool:
    """Whether the browser says that the page did what its content policy forbids."""
    return "Content Security Policy" in text


@contextmanager
def open_browser() -> Iterator[Pages]:
    """One Chromium; the test is skipped where there is none."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing("playwright is not installed (pip install playwright; its browsers are not needed)")
    chromium = program("chromium", "chromium")
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-gpu"]
        )
        yield Pages(launched)
        launched.close()


def address(*segments: str) -> str:
    """Of a view: `#/queues/%2F/orders`."""
    return "#/" + "/".join(quote(each, safe="") for each in segments)


def show(tab: Any, base: str, where: str, title: str) -> None:
    """Go to a view and wait until it has something to show."""
    tab.goto(base + where)
    tab.get_by_role("heading", name=title, exact=True, level=1).wait_for()
    tab.locator("main:not([aria-busy])").wait_for()


def wrong_with(tab: Any) -> list[str]:
    """What the view on show lacks for those who do not see it, or not well."""
    found: list[str] = tab.evaluate(CHECKS)
    return found


def violations(tab: Any) -> list[str]:
    """What axe-core finds wrong with the view on show, by its rules for WCAG and good practice."""
    path = tools_folder() / AXE
    if not path.is_file():
        missing(f"axe-core is not there: npm install --prefix {tools_folder().name} axe-core")
    tab.evaluate(path.read_text("utf-8"))
    found: list[str] = tab.evaluate(ASK_AXE)
    return found


def too_wide(tab: Any) -> int:
    """By how many pixels one has to scroll sideways, the page or a part of it."""
    wide: int = tab.evaluate(
        "Math.max(document.scrollingElement.scrollWidth - innerWidth,"
        " ...[...document.querySelectorAll('.scroll')].map((e) => e.scrollWidth - e.clientWidth))"
    )
    return wide


def unfold(tab: Any, title: str) -> Any:
    """Open a part that is folded; the part."""
    part = tab.locator("details", has=tab.locator("summary", has_text=title)).first
    part.locator("summary").first.click()
    return part
