"""The files of the management page: who gets them, and when a browser asks for them."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from tests.conformance.pages import Pages, show

# Of one build: nothing of the page is compiled.
pytestmark = [pytest.mark.timeout(240), pytest.mark.source]

PAGE = Path(__file__).parents[2] / "node" / "management" / "page"


@pytest.fixture
def page(pages: Pages, base: str) -> Iterator[Any]:
    """A tab in which guest is logged in."""
    with pages.tab(base) as tab:
        yield tab


def test_the_files_need_no_login_and_allow_no_script_of_others(base: str) -> None:
    with urlopen(base, timeout=20) as answer:
        assert answer.status == 200
        policy = answer.headers["Content-Security-Policy"]
        assert "script-src 'self'" in policy
        etag = answer.headers["ETag"]
    asked = Request(base, headers={"If-None-Match": etag})
    with pytest.raises(Exception, match="304"):
        urlopen(asked, timeout=20)


@pytest.mark.parametrize("path", ["secret.txt", "../server.py", "%2e%2e/server.py", "api.js/x"])
def test_nothing_but_the_page_is_to_be_had(base: str, path: str) -> None:
    with pytest.raises(Exception, match=r"40[14]"):
        urlopen(base + path, timeout=20)


def test_the_first_files_are_asked_for_at_once() -> None:
    """What the frame of the page imports is named in its HTML: no file waits for another."""
    imports = re.compile(r'^import .* from "\./(\w+\.js)";$', re.MULTILINE)
    found, looked_at = {"main.js"}, set[str]()
    while found - looked_at:
        name = (found - looked_at).pop()
        looked_at.add(name)
        found.update(imports.findall((PAGE / name).read_text("utf-8")))
    index = (PAGE / "index.html").read_text("utf-8")
    ahead = re.findall(r'rel="modulepreload" href="([^"]+)"', index)
    assert sorted([*ahead, "main.js"]) == sorted(found)


def test_a_view_whose_file_cannot_be_loaded_is_told(page: Any, base: str) -> None:
    page.route("**/queues.js", lambda route: route.abort())
    show(page, base, "#/queues", "The page is not complete: reload it")
    page.unroute("**/queues.js")
    page.reload()
    page.get_by_role("heading", name="Queues").wait_for()


def test_views_need_no_files_any_more_once_the_page_is_complete(page: Any, base: str) -> None:
    rest = {f"{base}{each.name}" for each in PAGE.glob("*.js")}
    page.on("requestfinished", lambda each: rest.discard(each.url))
    show(page, base, "#/", "conformance")
    for _ in range(100):
        if not rest:
            break
        page.wait_for_event("requestfinished")
    page.route("**/*.js", lambda route: route.abort())
    for view, title in (("#/queues", "Queues"), ("#/events", "Events"), ("#/admin", "Admin")):
        show(page, base, view, title)
