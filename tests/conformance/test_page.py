"""The management page in a real browser: Debian's Chromium, driven by playwright.

WARREN_SCREENSHOTS=docs/page makes the pictures of the documentation anew.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from tests.conformance.broker import Broker
from tests.conformance.programs import missing, program

PICTURES = os.environ.get("WARREN_SCREENSHOTS", "")
# Of one build: nothing of the page is compiled.
pytestmark = [pytest.mark.timeout(60), pytest.mark.source]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing("playwright is not installed (pip install playwright; its browsers are not needed)")
    chromium = program("chromium", "chromium")
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-gpu"]
        )
        yield launched
        launched.close()


@pytest.fixture
def base(own_broker: Broker) -> str:
    assert own_broker.node is not None
    return f"http://{own_broker.node.host}:{own_broker.node.management_port}/"


@pytest.fixture
def page(browser: Any, base: str) -> Iterator[Any]:
    """A tab of its own. Whatever a test does, no request leaves the node and nothing goes wrong."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    tab = context.new_page()
    tab.set_default_timeout(10_000)
    asked: list[str] = []
    faults: list[str] = []
    tab.on("request", lambda request: asked.append(request.url))
    tab.on("pageerror", lambda error: faults.append(str(error)))
    yield tab
    context.close()
    assert all(url.startswith((base, "blob:" + base)) for url in asked), asked
    assert not faults, faults


def log_in(page: Any, base: str, where: str = "#/") -> None:
    page.goto(base + where)
    page.get_by_label("User").fill("guest")
    page.get_by_label("Password").fill("guest")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Log out").wait_for()


def picture(page: Any, name: str) -> None:
    if PICTURES:
        Path(PICTURES).mkdir(parents=True, exist_ok=True)
        page.screenshot(path=str(Path(PICTURES) / f"{name}.png"))


def test_the_files_need_no_login_and_allow_no_script_of_others(base: str) -> None:
    with urlopen(base, timeout=5) as answer:
        assert answer.status == 200
        policy = answer.headers["Content-Security-Policy"]
        assert "script-src 'self'" in policy
        etag = answer.headers["ETag"]
    asked = Request(base, headers={"If-None-Match": etag})
    with pytest.raises(Exception, match="304"):
        urlopen(asked, timeout=5)


@pytest.mark.parametrize("path", ["secret.txt", "../server.py", "%2e%2e/server.py", "api.js/x"])
def test_nothing_but_the_page_is_to_be_had(base: str, path: str) -> None:
    with pytest.raises(Exception, match=r"40[14]"):
        urlopen(base + path, timeout=5)


def test_a_wrong_password_is_told_and_lets_nobody_in(page: Any, base: str) -> None:
    page.goto(base)
    page.get_by_label("User").fill("guest")
    page.get_by_label("Password").fill("wrong")
    page.keyboard.press("Enter")
    page.get_by_role("alert").get_by_text("", exact=False).first.wait_for()
    page.locator(".note.bad").wait_for()
    assert page.get_by_role("button", name="Log out").count() == 0


def test_the_overview_shows_what_flows(page: Any, base: str, channel: Any, name: str) -> None:
    channel.queue_declare(name)
    channel.confirm_delivery()
    log_in(page, base)
    page.get_by_role("heading", name="Messages per second").wait_for()
    for _ in range(50):
        channel.basic_publish("", name, b"hello")
    page.wait_for_function(
        "() => [...document.querySelectorAll('.legend b')].some(b => parseFloat(b.textContent) > 0)"
    )
    assert page.locator("svg.chart").first.get_attribute("aria-label")
    picture(page, "overview")


def test_a_session_is_kept_over_a_reload_and_ends_with_log_out(page: Any, base: str) -> None:
    log_in(page, base)
    page.reload()
    page.get_by_role("button", name="Log out").click()
    page.get_by_role("heading", name="Log in").wait_for()
    page.reload()
    page.get_by_role("heading", name="Log in").wait_for()


def test_the_keyboard_alone_is_enough(page: Any, base: str) -> None:
    log_in(page, base)
    queues = page.get_by_role("link", name="Queues", exact=True)
    queues.focus()
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Queues", exact=True).wait_for()
    assert (
        page.get_by_role("link", name="Queues", exact=True).get_attribute("aria-current") == "page"
    )
    page.get_by_role("button", name="Name").focus()
    page.keyboard.press("Enter")
    page.locator("th[aria-sort=ascending]").wait_for()


def test_a_queue_is_made_looked_into_and_deleted(
    page: Any, base: str, channel: Any, name: str
) -> None:
    log_in(page, base, "#/queues")
    page.get_by_text("Add a queue").click()
    adding = page.locator("details", has_text="Add a queue")
    adding.get_by_label("Name").fill(name)
    adding.get_by_role("button", name="Add").click()
    page.get_by_placeholder("part of the name").fill(name)
    page.keyboard.press("Enter")
    page.get_by_role("link", name=name).click()
    page.get_by_role("heading", name=f"Queue {name}").wait_for()
    channel.basic_publish("", name, b"what is in it")
    page.get_by_text("Get messages").click()
    page.locator("details", has_text="Get messages").get_by_role("button", name="Get").click()
    page.get_by_text("what is in it", exact=True).wait_for()
    picture(page, "queue")
    page.on("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Purge").click()
    page.wait_for_function(
        "() => [...document.querySelectorAll('.figures div')]"
        ".some(each => each.textContent === 'Ready0')"
    )
    page.get_by_role("button", name="Delete this queue").click()
    page.get_by_role("heading", name="Queues", exact=True).wait_for()


def test_a_message_is_published_from_the_page(
    page: Any, base: str, channel: Any, name: str
) -> None:
    channel.queue_declare(name)
    log_in(page, base, f"#/queues/%2F/{name}")
    page.get_by_text("Publish a message").click()
    publishing = page.locator("details", has_text="Publish a message")
    publishing.get_by_label("Payload").fill("from the page")
    publishing.get_by_role("button", name="Publish").click()
    publishing.get_by_text("published", exact=True).wait_for()
    method, _, body = channel.basic_get(name, auto_ack=True)
    assert method is not None
    assert body == b"from the page"


def test_wrong_json_is_told_where_it_was_typed(page: Any, base: str, name: str) -> None:
    log_in(page, base, "#/queues")
    page.get_by_text("Add a queue").click()
    adding = page.locator("details", has_text="Add a queue")
    adding.get_by_label("Name").fill(name)
    adding.get_by_label("Arguments (JSON)").fill("{x")
    adding.get_by_role("button", name="Add").click()
    adding.get_by_text("not JSON").wait_for()


def test_a_filter_that_is_no_expression_is_told_and_one_that_is_ends_that(
    page: Any, base: str, channel: Any, name: str
) -> None:
    channel.queue_declare(name)
    log_in(page, base, "#/queues")
    page.get_by_role("link", name=name).wait_for()
    page.get_by_label("regular expression").check()
    page.get_by_placeholder("part of the name").fill("[")
    page.keyboard.press("Enter")
    page.locator("section [role=alert]").get_by_text("not a regular expression").wait_for()
    page.get_by_placeholder("part of the name").fill(name)
    page.keyboard.press("Enter")
    page.locator("section [role=alert] .note").wait_for(state="detached")
    page.get_by_role("link", name=name).wait_for()


def test_names_of_clients_are_text_and_nothing_else(page: Any, base: str, channel: Any) -> None:
    hostile = "<img src=x onerror=document.title='taken'>"
    channel.queue_declare(hostile, auto_delete=True, exclusive=True)
    log_in(page, base, "#/queues")
    page.get_by_role("link", name=hostile).click()
    page.get_by_role("heading", name=f"Queue {hostile}").wait_for()
    assert page.title() != "taken"


def test_a_connection_is_listed_and_closed(page: Any, base: str, connect: Any) -> None:
    connection = connect()
    port = connection._impl._transport._sock.getsockname()[1]  # what the broker names it by
    log_in(page, base, "#/connections")
    page.get_by_role("link", name=f":{port} ->").click()
    page.on("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Close this connection").click()
    page.get_by_role("heading", name="Connections", exact=True).wait_for()
    with pytest.raises(Exception, match=r"CONNECTION_FORCED|closed"):
        connection.process_data_events(time_limit=10)


def test_users_and_policies_are_made_on_the_admin_page(page: Any, base: str, name: str) -> None:
    log_in(page, base, "#/admin")
    page.get_by_role("heading", name="Users").wait_for()
    users = page.locator("details", has_text="Add or change: Users")
    users.locator("summary").click()
    users.get_by_label("Name").fill(name)
    users.get_by_label("Password").fill("a long password")
    users.get_by_role("button", name="Save").click()
    row = page.get_by_role("row", name=name)
    row.wait_for()
    picture(page, "admin")
    page.on("dialog", lambda dialog: dialog.accept())
    row.get_by_role("button", name="Delete").click()
    row.wait_for(state="detached")


@pytest.mark.parametrize("where", ["#/", "#/queues", "#/connections", "#/exchanges", "#/admin"])
def test_a_narrow_screen_is_enough(page: Any, base: str, where: str) -> None:
    page.set_viewport_size({"width": 360, "height": 640})
    log_in(page, base, where)
    page.locator("main h1").wait_for()
    page.wait_for_load_state("networkidle")
    wide = page.evaluate("document.scrollingElement.scrollWidth - innerWidth")
    assert wide <= 0


def test_a_node_that_is_gone_is_told(page: Any, base: str) -> None:
    log_in(page, base)
    page.route("**/api/**", lambda route: route.abort())
    page.get_by_text("the node cannot be reached").wait_for()
    page.unroute("**/api/**")
    page.locator("#banner .note").wait_for(state="detached")
