"""What a user of the page chooses, and what it shows by itself: ranges, lists, banners."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.conformance.pages import (
    LARGE_PHONE,
    WIDE_SCREEN,
    Pages,
    address,
    show,
    unfold,
)
from tests.waiting import eventually
from warren.testing.http_api import HttpApi

# Of one build: nothing of the page is compiled.
pytestmark = [pytest.mark.timeout(240), pytest.mark.source]

TIME = re.compile(r"\d\d:\d\d:\d\d")
COVERED = """() => [...document.querySelectorAll("main button, header button")].filter(it => {
  it.scrollIntoView({block: "center"});
  const box = it.getBoundingClientRect();
  const top = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2);
  return it.checkVisibility() && !it.contains(top);
}).map(it => it.textContent)"""


@pytest.fixture
def api(base: str) -> HttpApi:
    return HttpApi(base.rstrip("/"))


@pytest.fixture
def page(pages: Pages, base: str) -> Iterator[Any]:
    """A tab in which guest is logged in."""
    with pages.tab(base, size=WIDE_SCREEN) as tab:
        yield tab


def test_a_chart_begins_with_the_samples_of_the_server(
    page: Any, base: str, channel: Any, name: str
) -> None:
    channel.queue_declare(name)
    show(page, base, "#/", "conformance")
    script = """async () => {
        const { Series } = await import(new URL("chart.js", document.baseURI));
        const sampled = (...values) => ({
            samples: values.map((sample, place) => ({ sample, timestamp: 20000 - 5000 * place })),
        });
        const counts = { publish_details: sampled(110, 60, 10), ack_details: { rate: 1 } };
        const flow = new Series();
        flow.begin(counts, ["publish", "ack"], true, 100000);
        const depth = new Series();
        depth.begin({ messages_details: sampled(3, 2) }, ["messages"], false, 100000);
        return [flow.points, depth.points];
    }"""
    flow, depth = page.evaluate(script)
    assert flow == [{"at": 95, "values": {"publish": 10}}, {"at": 100, "values": {"publish": 10}}]
    assert depth == [{"at": 95, "values": {"messages": 2}}, {"at": 100, "values": {"messages": 3}}]
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    show(page, base, address("queues", "/", name), f"Queue {name}")
    assert any("msg_rates_age=600" in each and "lengths_age=600" in each for each in asked)


def test_choices_are_in_the_address_and_outlive_a_reload(
    page: Any, base: str, api: HttpApi, channel: Any, name: str
) -> None:
    for number in range(22):
        channel.queue_declare(f"{name}-{number:02}", exclusive=True)
    api.put(f"/vhosts/{name}", {})
    show(page, base, "#/queues", "Queues")
    page.keyboard.press("/")
    page.keyboard.type(f"{name}-")
    page.get_by_text("22 of").wait_for()
    page.get_by_label("Rows").select_option("20")
    page.get_by_role("button", name="Name", exact=True).dblclick()
    page.locator("th[aria-sort=descending]").wait_for()
    page.locator("summary", has_text="Columns").click()
    page.get_by_role("checkbox", name="Bytes").check()
    page.get_by_role("checkbox", name="Type").uncheck()
    page.get_by_role("button", name="Next").click()
    page.get_by_text("page 2 of 2, 22 of").wait_for()
    page.reload()
    page.get_by_text("page 2 of 2, 22 of").wait_for()
    page.locator("th[aria-sort=descending]", has_text="Name").wait_for()
    titles = page.locator("thead th").all_inner_texts()
    assert "Bytes" in titles and "Type" not in titles
    page.get_by_label("Virtual host").focus()
    page.get_by_label("Virtual host").locator("option", has_text=name).wait_for(state="attached")
    page.get_by_label("Virtual host").select_option(name)
    page.get_by_text("no queues").wait_for()
    page.get_by_role("link", name="Exchanges", exact=True).click()
    page.get_by_text(re.compile(r"([78]) of \1 exchanges")).wait_for()
    assert f"vhost={name}" in page.url
    page.get_by_label("Virtual host").select_option("")
    page.evaluate("localStorage.clear()")
    api.delete(f"/vhosts/{name}")


def test_colours_and_the_refresh_interval_are_chosen(page: Any, base: str) -> None:
    show(page, base, "#/", "conformance")
    colour = "getComputedStyle(document.body.querySelector('.card')).backgroundColor"
    page.get_by_label("Colours").select_option("dark")
    dark = page.evaluate(colour)
    page.get_by_label("Colours").select_option("light")
    assert page.evaluate(colour) != dark
    page.get_by_label("Colours").select_option("dark")
    page.reload()
    page.locator(".card").first.wait_for()
    assert page.evaluate(colour) == dark
    page.get_by_label("Refresh").select_option("off")
    page.locator("main:not([aria-busy])").wait_for()
    page.clock.install()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.clock.run_for(60_000)
    assert [url for url in asked if "/api/overview" in url] == []
    with page.expect_response("**/api/overview*"):
        page.get_by_label("Refresh").select_option("2")


def test_names_of_queues_stay_on_one_line_and_phones_get_pages(
    pages: Pages, page: Any, base: str, channel: Any, name: str
) -> None:
    long = f"{name}-service.orders.incoming.europe-west.retry-after-failure"
    for number in range(25):
        channel.queue_declare(f"{long}-{number:02}", exclusive=True)
    show(page, base, f"#/queues?name={name}", "Queues")
    row = page.get_by_role("link", name=f"{long}-00").bounding_box()
    assert row["height"] < 30
    with pages.tab(base, size=LARGE_PHONE) as phone:
        show(phone, base, f"#/queues?name={name}", "Queues")
        phone.get_by_text("page 1 of 2, 25 of").wait_for()
        assert phone.locator("tbody tr").count() == 20


def test_a_payload_of_json_is_formatted_and_copied_as_it_was(
    pages: Pages, base: str, channel: Any, name: str
) -> None:
    body = '{"order":9007199254740993,"items":[{"sku":"a, b: {c}","n":2.50}],"none":[ ]}'
    channel.queue_declare(name)
    channel.basic_publish("", name, body.encode())
    rights = ["clipboard-read", "clipboard-write"]
    with pages.tab(base, size=WIDE_SCREEN, permissions=rights) as tab:
        show(tab, base, address("queues", "/", name), f"Queue {name}")
        getting = unfold(tab, "Get messages")
        getting.get_by_role("button", name="Get messages").click()
        shown = getting.locator("pre").inner_text()
        assert json.loads(shown) == json.loads(body) and "9007199254740993" in shown
        assert '      "sku": "a, b: {c}",\n      "n": 2.50\n' in shown
        getting.get_by_role("button", name="Copy payload").click()
        getting.get_by_text("copied").wait_for()
        assert tab.evaluate("navigator.clipboard.readText()") == body


@pytest.mark.parametrize("size", [WIDE_SCREEN, LARGE_PHONE], ids=["wide", "phone"])
def test_what_is_wrong_with_nodes_is_above_every_view_and_covers_no_button(
    pages: Pages, base: str, channel: Any, api: HttpApi, name: str, size: dict[str, int]
) -> None:
    """The answer of the node is changed: it neither dies nor is cut off from another one."""
    channel.queue_declare(name)
    [node] = api.get("/nodes")
    alarm = {**node, "mem_alarm": True, "alarm_details": [], "partitions": ["n2"]}
    down = {"name": "n2", "running": False, "partitions": []}
    with pages.tab(base, size=size) as tab:
        told = json.dumps([alarm, down])
        tab.route("**/api/nodes", lambda route: route.fulfill(body=told))
        for where, title in (
            ("#/queues", "Queues"),
            (address("queues", "/", name), f"Queue {name}"),
            ("#/admin/users", "Admin"),
        ):
            show(tab, base, where, title)
            alarms = tab.locator("#alarms")
            alarms.get_by_text("n2: the node is down").wait_for()
            alarms.get_by_text("memory alarm: publishers wait").wait_for()
            alarms.get_by_text("partition: cannot reach n2").wait_for()
            assert tab.evaluate(COVERED) == []
        told = json.dumps([node])
        alarms.locator(".note").first.wait_for(state="detached")


def test_a_node_shows_its_memory_its_configuration_and_its_log(page: Any, base: str) -> None:
    show(page, base, "#/cluster", "Cluster")
    page.get_by_role("link", name="conformance", exact=True).click()
    page.get_by_role("heading", name="Node conformance").wait_for()
    for title in ("Memory used", "Disk free", "File descriptors", "Sockets"):
        page.get_by_role("heading", name=title, exact=True).wait_for()
    page.get_by_role("table", name="memory").get_by_text("code", exact=True).wait_for()
    page.get_by_role("table", name="listeners").get_by_text("amqp", exact=True).wait_for()
    unfold(page, "Configuration").get_by_role("button", name="Show").click()
    shown = json.loads(page.get_by_role("region", name="configuration").inner_text())
    assert shown["node"]["name"] == "conformance" and shown["default_pass"] == "[hidden]"
    unfold(page, "Log").get_by_role("button", name="Show").click()
    page.locator("pre.long", has_text="warren.node").wait_for()


def test_a_user_and_a_vhost_have_pages_on_which_they_are_changed(
    page: Any, base: str, api: HttpApi, name: str
) -> None:
    api.put(f"/users/{name}", {"password": name, "tags": "monitoring"})
    api.put(f"/vhosts/{name}", {"description": "of the test"})
    show(page, base, "#/admin/users", "Admin")
    page.get_by_role("table", name="users").get_by_role("link", name=name).click()
    page.get_by_role("heading", name=f"User {name}").wait_for()
    rights = unfold(page, "Add or change: Permissions")
    rights.get_by_label("Vhost").fill(name)
    rights.get_by_role("button", name="Save").click()
    rights.get_by_text("saved").wait_for()
    assert api.get(f"/users/{name}/permissions")[0]["vhost"] == name
    limits = unfold(page, "Add or change: Limits")
    limits.get_by_label("At most").fill("3")
    limits.get_by_role("button", name="Save").click()
    page.get_by_role("table", name="limits").get_by_text("max-connections").wait_for()
    show(page, base, "#/admin/vhosts", "Admin")
    page.get_by_role("table", name="virtual hosts").get_by_role("link", name=name).click()
    page.get_by_role("heading", name=f"Virtual host {name}").wait_for()
    page.get_by_text("of the test").wait_for()
    page.on("dialog", lambda dialog: dialog.accept())
    table = page.get_by_role("table", name="permissions", exact=True)
    row = table.get_by_role("row", name=f"{name} {name}")
    row.get_by_role("button", name="Delete").click()
    row.wait_for(state="detached")
    assert api.get(f"/users/{name}/permissions") == []
    api.delete(f"/vhosts/{name}")
    api.delete(f"/users/{name}")


def test_charts_begin_with_what_the_node_has_recorded_and_tell_figures_of_any_time(
    page: Any, base: str, api: HttpApi
) -> None:
    """The last test here: the node records every 5 seconds, and has done so meanwhile."""
    asked = "/overview?msg_rates_age=60&msg_rates_incr=5"

    def samples() -> list[Any]:
        found: list[Any] = api.get(asked)["message_stats"]["publish_details"]["samples"]
        return found

    eventually(lambda: len(samples()) > 3)  # There are fewer just after the start of the node.
    show(page, base, "#/?every=off", "conformance")  # One look: what is drawn was recorded before.
    rates = page.locator("section", has=page.get_by_role("heading", name="Message rates"))
    assert "L" in rates.locator("path").first.get_attribute("d")
    assert TIME.fullmatch(rates.locator("text").last.text_content())
    picture = rates.get_by_role("img")
    box = picture.bounding_box()
    picture.hover(position={"x": box["width"] - 1, "y": box["height"] / 2})
    moment = rates.locator(".moment", has_text=TIME)
    newest = moment.text_content()
    page.mouse.move(0, 0)
    moment.wait_for(state="detached")
    picture.focus()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    assert moment.text_content() < newest
    page.keyboard.press("Escape")
    moment.wait_for(state="detached")
    with page.expect_request(lambda request: "msg_rates_age=3600" in request.url):
        page.get_by_label("Charts show").select_option("3600")
    assert "range=3600" in page.url
