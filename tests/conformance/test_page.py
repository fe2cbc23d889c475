"""The management page in a real browser: its frame, its lists, queues, messages and connections."""

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pika
import pytest

from tests.conformance.broker import Broker, settle_down
from tests.conformance.pages import (
    LARGE_PHONE,
    PHONE,
    WIDE_SCREEN,
    Pages,
    address,
    show,
    too_wide,
    unfold,
    violations,
    wrong_with,
)
from warren.testing.http_api import HttpApi

# Of one build: nothing of the page is compiled.
pytestmark = [pytest.mark.timeout(240), pytest.mark.source]

HOSTILE = (
    "a/b <script>alert(1)</script> <img src=x onerror=document.title='taken'> "
    "\"q\" 'p' \N{RABBIT FACE}"
)
VIEWS = {
    "#/": "conformance",
    "#/connections": "Connections",
    "#/channels": "Channels",
    "#/exchanges": "Exchanges",
    "#/queues": "Queues",
    "#/addresses": "Addresses",
    "#/streams": "Stream clients",
    "#/links": "Links",
    "#/cluster": "Cluster",
    "#/flow": "Flow",
    "#/events": "Events",
    "#/api": "HTTP API",
    "#/admin": "Admin",
    "#/admin/vhosts": "Admin",
    "#/admin/policies": "Admin",
    "#/admin/limits": "Admin",
    "#/admin/definitions": "Admin",
    "#/admin/features": "Admin",
    "#/admin/cluster": "Admin",
    "#/nodes/conformance": "Node conformance running",
    "#/users/guest": "User guest",
    "#/vhosts/%2F": "Virtual host /",
}


@pytest.fixture
def api(base: str) -> HttpApi:
    return HttpApi(base.rstrip("/"))


@pytest.fixture
def page(pages: Pages, base: str) -> Iterator[Any]:
    """A tab in which guest is logged in."""
    with pages.tab(base) as tab:
        yield tab


def fill_login(tab: Any, user: str, password: str) -> None:
    tab.get_by_label("User").fill(user)
    tab.get_by_label("Password").fill(password)
    tab.keyboard.press("Enter")


# Login


def test_a_wrong_password_is_told_and_lets_nobody_in_and_a_right_one_is_kept_until_log_out(
    pages: Pages, base: str
) -> None:
    with pages.tab(base, user=None) as tab:
        tab.goto(base)
        fill_login(tab, "guest", "wrong")
        tab.locator(".note.bad").wait_for()
        assert tab.get_by_role("button", name="Log out").count() == 0
        assert wrong_with(tab) == []
        fill_login(tab, "guest", "guest")
        tab.get_by_role("button", name="Log out").wait_for()
        tab.reload()
        tab.get_by_role("button", name="Log out").click()
        tab.get_by_role("heading", name="Log in").wait_for()
        tab.reload()
        tab.get_by_role("heading", name="Log in").wait_for()


def test_a_session_that_ends_is_told_in_words(
    pages: Pages, base: str, api: HttpApi, name: str
) -> None:
    api.put(f"/users/{name}", {"password": name, "tags": "monitoring"})
    with pages.tab(base, user=name) as tab:
        show(tab, base, "#/queues", "Queues")
        api.delete(f"/users/{name}")
        tab.get_by_role("button", name="Name").click()
        tab.get_by_text("The session has ended: log in again.").wait_for()


def test_what_a_user_may_not_do_is_not_offered_and_asking_for_it_does_not_log_out(
    pages: Pages, base: str, api: HttpApi, name: str
) -> None:
    api.put(f"/users/{name}", {"password": name, "tags": "management"})
    try:
        with pages.tab(base, user=name) as tab:
            show(tab, base, "#/queues", "Queues")
            offered = tab.locator("#nav a").all_inner_texts()
            usual = ["Overview", "Connections", "Channels", "Exchanges", "Queues"]
            assert offered == [*usual, "Stream clients", "API"]
            show(tab, base, "#/cluster", "Cluster")
            tab.locator("#banner").get_by_text("Not monitor user").wait_for()
            show(tab, base, "#/admin/users", "Admin")
            tab.get_by_text("This needs a user with the tag administrator").wait_for()
            assert tab.get_by_role("button", name="Log out").count() == 1
    finally:
        api.delete(f"/users/{name}")


# The frame: keyboard, narrow screens, those who do not see well, polling


def test_the_keyboard_alone_is_enough_and_the_focus_is_seen_and_goes_in_order(
    page: Any, base: str
) -> None:
    show(page, base, "#/queues", "Queues")
    page.locator(".skip").focus()
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "content"
    assert page.url.endswith("#/queues")
    page.locator(".skip").focus()
    page.evaluate("window.last = document.activeElement")
    seen = []
    for _ in range(40):
        page.keyboard.press("Tab")
        where = page.evaluate(
            """() => {
              const it = document.activeElement, before = window.last;
              window.last = it;
              const style = getComputedStyle(it);
              const isSeen = style.outlineStyle !== "none" || it.classList.contains("skip");
              const follows = before.compareDocumentPosition(it) & Node.DOCUMENT_POSITION_FOLLOWING;
              return {text: it.textContent || it.name, isSeen, isNext: follows > 0,
                      isBody: it === document.body};
            }"""
        )
        if where["isBody"]:
            break
        assert where["isSeen"] and where["isNext"], where
        seen.append(where["text"].strip())
    assert seen[0] == "Warren" and "Log out" in seen
    assert seen[seen.index("Overview") + 1] == "Connections" and "Name" in seen
    page.get_by_role("button", name="Name", exact=True).focus()
    page.keyboard.press("Enter")
    page.locator("th[aria-sort=ascending]").wait_for()
    page.keyboard.press("Enter")
    page.locator("th[aria-sort=descending]").wait_for()


def test_the_focus_and_what_is_typed_stay_while_figures_are_renewed(
    page: Any, base: str, channel: Any, name: str
) -> None:
    channel.queue_declare(name)
    show(page, base, address("queues", "/", name), f"Queue {name}")
    publishing = unfold(page, "Publish message")
    publishing.get_by_label("Payload", exact=True).fill("not sent yet")
    purge = page.get_by_role("button", name="Purge")
    purge.focus()
    for body in (b"one", b"two"):
        channel.basic_publish("", name, body)
        with page.expect_response(lambda answer: answer.url.endswith(quote(name))):
            pass
    page.locator(".figures div", has_text="Ready").get_by_text("2", exact=True).wait_for()
    assert page.evaluate("document.activeElement.textContent") == "Purge messages"
    assert publishing.get_by_label("Payload", exact=True).input_value() == "not sent yet"


def test_a_narrow_screen_is_enough_for_every_view(
    pages: Pages, base: str, channel: Any, name: str
) -> None:
    channel.queue_declare(name, durable=True, arguments={"x-max-length": 1000})
    channel.exchange_declare(name, "topic")
    channel.queue_bind(name, name, "some." + "long" * 30 + ".key")
    with pages.tab(base, size=PHONE) as tab:
        views = {
            **VIEWS,
            address("queues", "/", name): f"Queue {name}",
            address("exchanges", "/", name): f"Exchange {name}",
            address("queues", "/", name, "letters"): f"Dead letters in {name}",
        }
        for where, title in views.items():
            show(tab, base, where, title)
            assert too_wide(tab) <= 0, where


@pytest.mark.parametrize(
    ("scheme", "size"), [("light", WIDE_SCREEN), ("dark", LARGE_PHONE)], ids=["light", "dark"]
)
def test_every_view_is_for_those_who_do_not_see_well(
    pages: Pages, base: str, channel: Any, name: str, scheme: str, size: dict[str, int]
) -> None:
    channel.queue_declare(name, durable=True)
    channel.basic_consume(name, lambda *_: None)
    with pages.tab(base, size=size, color_scheme=scheme) as tab:
        views = {**VIEWS, address("queues", "/", name): f"Queue {name}"}
        for where, title in views.items():
            show(tab, base, where, title)
            if where != "#/api":  # All requests unfolded take axe a minute.
                tab.evaluate("document.querySelectorAll('details').forEach(it => it.open = true)")
            assert wrong_with(tab) == [], where
            assert violations(tab) == [], where


def test_nothing_is_asked_while_the_page_is_not_seen(page: Any, base: str) -> None:
    page.clock.install()
    show(page, base, "#/", "conformance")
    asked: list[str] = []
    page.on("request", lambda each: asked.append(each.url) if "/api/" in each.url else None)
    hide = "(it) => Object.defineProperty(document, 'hidden', {value: it, configurable: true})"
    change = "document.dispatchEvent(new Event('visibilitychange'))"
    page.evaluate(hide, True)
    with page.expect_response("**/api/overview"):
        page.clock.run_for(5_000)  # The refresh that was due before the setting changed.
    asked.clear()
    for _ in range(3):
        page.clock.run_for(60_000)
    assert asked == []
    page.evaluate(hide, False)
    with page.expect_response("**/api/overview"):
        page.evaluate(change)
    page.locator("main:not([aria-busy])").wait_for()
    page.evaluate(hide, True)
    page.evaluate(change)
    asked.clear()
    for _ in range(3):
        page.clock.run_for(60_000)
    assert asked == []


def test_a_node_that_is_gone_is_told(page: Any, base: str) -> None:
    show(page, base, "#/", "conformance")
    page.route("**/api/**", lambda route: route.abort())
    page.get_by_text("the node cannot be reached").wait_for()
    page.unroute("**/api/**")
    page.locator("#banner .note").wait_for(state="detached")


# Lists


def test_pages_order_and_filter_are_asked_of_the_node_with_one_request_at_a_time(
    page: Any, base: str, channel: Any, name: str
) -> None:
    names = [f"{name}-{number:02}" for number in range(23)]
    for each in names:
        channel.queue_declare(each, exclusive=True)
    show(page, base, "#/queues", "Queues")
    under_way: list[int] = [0, 0]  # now, and at most

    def begun(request: Any) -> None:
        if "/api/queues?" in request.url:
            under_way[0] += 1
            under_way[1] = max(under_way)

    def ended(request: Any) -> None:
        if "/api/queues?" in request.url:
            under_way[0] -= 1

    page.on("request", begun)
    page.on("requestfinished", ended)
    page.get_by_label("Rows").select_option("20")
    page.get_by_placeholder("part of the name").fill(f"{name}-")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Name", exact=True).dblclick()
    page.get_by_text("page 1 of 2, 23 of").wait_for()
    page.locator("th[aria-sort=descending]").wait_for()
    page.locator("tbody tr").first.get_by_text(names[-1]).wait_for()
    page.get_by_role("button", name="Next").click()
    page.get_by_text("page 2 of 2, 23 of").wait_for()
    page.wait_for_function("document.querySelectorAll('tbody tr').length === 3")
    assert under_way[1] == 1


def test_a_filter_that_is_no_expression_is_told_and_one_that_is_ends_that(
    page: Any, base: str, channel: Any, name: str
) -> None:
    channel.queue_declare(name)
    show(page, base, "#/queues", "Queues")
    page.get_by_role("link", name=name).wait_for()
    page.get_by_label("regular expression").check()
    page.get_by_placeholder("part of the name").fill("[")
    page.keyboard.press("Enter")
    page.locator("section [role=alert]").get_by_text("not a regular expression").wait_for()
    page.get_by_placeholder("part of the name").fill(name)
    page.keyboard.press("Enter")
    page.locator("section [role=alert] .note").wait_for(state="detached")
    page.get_by_role("link", name=name).wait_for()


def test_names_of_clients_are_text_and_nothing_else(
    page: Any, base: str, connect: Any, name: str
) -> None:
    connection = connect()
    channel = connection.channel()
    queue, exchange = f"{name} {HOSTILE}", f"{name}-x {HOSTILE}"
    channel.queue_declare(queue, exclusive=True, arguments={"x-dead-letter-exchange": HOSTILE})
    channel.exchange_declare(exchange, "topic", auto_delete=True)
    channel.queue_bind(queue, exchange, HOSTILE)
    channel.basic_consume(queue, lambda *_: None, consumer_tag=HOSTILE)
    channel.basic_publish(exchange, HOSTILE, HOSTILE.encode())
    show(page, base, "#/queues", "Queues")
    page.get_by_role("link", name=queue).click()
    page.get_by_role("heading", name=f"Queue {queue}").wait_for()
    # Tables of rates have the same links as soon as there are samples.
    page.get_by_role("link", name=exchange).first.click()
    page.get_by_role("heading", name=f"Exchange {exchange}").wait_for()
    page.get_by_role("link", name=queue).first.click()
    page.get_by_role("heading", name=f"Queue {queue}").wait_for()
    show(page, base, "#/admin/policies", "Admin")
    assert page.title() != "taken"
    assert page.locator("img[src='x'], main script").count() == 0


# What is shown and done


def test_the_overview_shows_what_flows(page: Any, base: str, channel: Any, name: str) -> None:
    channel.queue_declare(name)
    channel.confirm_delivery()
    show(page, base, "#/", "conformance")
    page.get_by_role("heading", name="Message rates").wait_for()
    for _ in range(50):
        channel.basic_publish("", name, b"hello")
    page.wait_for_function(
        "() => [...document.querySelectorAll('.legend b')].some(b => parseFloat(b.textContent) > 0)"
    )
    assert page.locator("svg.chart").first.get_attribute("aria-label")
    page.get_by_role("table", name="listeners").get_by_text("amqp").first.wait_for()
    page.get_by_role("table", name="churn").get_by_text("Connections").wait_for()
    page.get_by_role("table", name="nodes").get_by_text("conformance").first.wait_for()


def test_a_queue_is_made_looked_into_and_deleted(
    page: Any, base: str, channel: Any, name: str
) -> None:
    show(page, base, "#/queues", "Queues")
    adding = unfold(page, "Add a new queue")
    adding.get_by_label("Name").fill(name)
    adding.get_by_label("Max length").fill("7")
    adding.get_by_role("button", name="Add").click()
    page.get_by_placeholder("part of the name").fill(name)
    page.keyboard.press("Enter")
    page.get_by_role("link", name=name).click()
    page.get_by_role("heading", name=f"Queue {name}").wait_for()
    page.get_by_text('"x-max-length": 7').wait_for()
    channel.basic_publish("", name, b"what is in it")
    getting = unfold(page, "Get messages")
    getting.get_by_role("button", name="Get").click()
    page.get_by_text("what is in it", exact=True).wait_for()
    page.on("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Purge").click()
    page.wait_for_function(
        "() => [...document.querySelectorAll('.figures div')]"
        ".some(each => each.textContent === 'Ready0')"
    )
    page.get_by_role("button", name="Delete queue").click()
    page.get_by_role("heading", name="Queues", exact=True).wait_for()


def test_what_empties_a_queue_is_not_offered_while_its_counts_are_unknown(
    page: Any, base: str, channel: Any, name: str
) -> None:
    channel.queue_declare(name, exclusive=True)
    show(page, base, address("queues", "/", name), f"Queue {name}")
    page.get_by_role("button", name="Purge messages").wait_for()
    page.get_by_role("button", name="Delete queue").wait_for()

    def unknown(route: Any) -> None:
        answer = route.fetch()
        row = {**answer.json(), "counts_known": False, "messages": None, "messages_ready": None}
        route.fulfill(response=answer, json=row)

    page.route(re.compile(rf"/api/queues/%2F/{re.escape(name)}(\?|$)"), unknown)
    page.get_by_text("unknown", exact=True).first.wait_for()
    assert page.get_by_role("button", name="Purge messages").count() == 0
    assert page.get_by_role("button", name="Delete queue").count() == 0


def test_an_exchange_is_made_bound_published_to_and_deleted(
    page: Any, base: str, channel: Any, name: str
) -> None:
    channel.queue_declare(name)
    show(page, base, "#/exchanges", "Exchanges")
    adding = unfold(page, "Add a new exchange")
    adding.get_by_label("Name").fill(name)
    adding.get_by_label("Type").select_option("topic")
    adding.get_by_role("button", name="Add").click()
    page.get_by_placeholder("part of the name").fill(name)
    page.keyboard.press("Enter")
    page.get_by_role("link", name=name).click()
    page.get_by_role("heading", name=f"Exchange {name}").wait_for()
    binding = unfold(page, "Bind something to this exchange")
    binding.get_by_label("Its name").fill(name)
    binding.get_by_label("Key").fill("a.#")
    binding.get_by_role("button", name="Bind").click()
    binding.get_by_text("bound", exact=True).wait_for()
    publishing = unfold(page, "Publish message")
    publishing.get_by_label("Routing key").fill("a.b")
    publishing.get_by_label("Payload", exact=True).fill("from the page")
    publishing.get_by_role("button", name="Publish").click()
    publishing.get_by_text("published", exact=True).wait_for()
    method, _, body = channel.basic_get(name, auto_ack=True)
    assert method is not None
    assert body == b"from the page"
    page.on("dialog", lambda dialog: dialog.accept())
    page.get_by_role("row", name="a.#").get_by_role("button", name="Unbind").click()
    page.get_by_role("row", name="a.#").wait_for(state="detached")
    page.get_by_role("button", name="Delete exchange").click()
    page.get_by_role("heading", name="Exchanges", exact=True).wait_for()


def test_wrong_json_is_told_where_it_was_typed(page: Any, base: str, name: str) -> None:
    show(page, base, "#/queues", "Queues")
    adding = unfold(page, "Add a new queue")
    adding.get_by_label("Name").fill(name)
    adding.get_by_label("Arguments (JSON)").fill("{x")
    adding.get_by_role("button", name="Add").click()
    adding.get_by_text("not JSON").wait_for()


def test_dead_letters_say_why_they_died_and_go_back(
    page: Any, base: str, channel: Any, name: str
) -> None:
    letters = f"{name}-letters"
    channel.queue_declare(letters, arguments={"x-expires": 60_000})
    given = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": letters}
    channel.queue_declare(name, arguments=given)
    for body in (b"first", b"\xff\x00second"):
        properties = pika.BasicProperties(headers={"kept": "yes"}, user_id="guest")
        channel.basic_publish("", name, body, properties)
        method, _, _ = channel.basic_get(name)
        channel.basic_nack(method.delivery_tag, requeue=False)
    settle_down(channel, lambda: channel.queue_declare(letters, passive=True).method.message_count)
    show(page, base, address("queues", "/", letters, "letters"), f"Dead letters in {letters}")
    page.get_by_text("a consumer rejected it").first.wait_for()
    page.get_by_label("How many, from the oldest on").fill("5")
    page.on("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Send back").click()
    page.get_by_text("2 sent back").wait_for()
    page.get_by_text("The queue is empty.").wait_for()
    bodies = []
    for _ in range(2):
        _, properties, body = channel.basic_get(name, auto_ack=True)
        bodies.append(body)
        assert properties.headers == {"kept": "yes"}
    assert bodies == [b"first", b"\xff\x00second"]


def test_a_letter_that_cannot_go_back_stays(page: Any, base: str, channel: Any, name: str) -> None:
    channel.queue_declare(name)
    channel.basic_publish("", name, b"never died")
    show(page, base, address("queues", "/", name, "letters"), f"Dead letters in {name}")
    page.get_by_text("It has not died").wait_for()
    page.on("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Send back").click()
    page.get_by_text("it does not say in which queue it died").wait_for()
    page.get_by_label("Where to").select_option("queue")
    page.get_by_label("Its name").fill("there-is-none")
    page.get_by_role("button", name="Send back").click()
    page.get_by_text("it would be in no queue").wait_for()
    assert channel.queue_declare(name, passive=True).method.message_count == 1


def test_a_connection_is_listed_with_its_channels_and_consumers_and_closed(
    page: Any, base: str, connect: Any, name: str
) -> None:
    connection = connect()
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare(name)
    channel.basic_consume(name, lambda *_: None, consumer_tag="the one")
    port = connection._impl._transport._sock.getsockname()[1]  # what the broker names it by
    show(page, base, "#/connections", "Connections")
    page.get_by_role("link", name=f":{port} ->").click()
    page.get_by_role("heading", name="Data rates").wait_for()
    page.get_by_role("table", name="channels").get_by_role("link", name=f":{port} ->").click()
    page.get_by_role("heading", name="Channel ", level=1).wait_for()
    consumer = page.get_by_role("table", name="consumers").get_by_role("row", name="the one")
    consumer.get_by_role("link", name=name).click()
    page.get_by_role("heading", name=f"Queue {name}").wait_for()
    page.get_by_role("table", name="consumers").get_by_text("at the leader").wait_for()
    page.get_by_role("link", name="Channels", exact=True).click()
    page.get_by_role("heading", name="Channels", level=1).wait_for()
    page.get_by_role("table", name="channels").get_by_role("link", name=f":{port} ->").click()
    page.get_by_role("heading", name="Channel ", level=1).wait_for()
    page.get_by_role("link", name=f":{port} ->").first.click()
    page.on("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Close this connection").click()
    page.get_by_role("heading", name="Connections", exact=True).wait_for()
    with pytest.raises(Exception, match=r"CONNECTION_FORCED|closed"):
        connection.process_data_events(time_limit=10)


# Admin


def test_users_and_their_rights_are_made_on_the_admin_page(
    page: Any, base: str, api: HttpApi, name: str
) -> None:
    show(page, base, "#/admin", "Admin")
    users = unfold(page, "Add or change: Users")
    users.get_by_label("Name").fill(name)
    users.get_by_label("Password").fill("a long password")
    users.get_by_role("button", name="Save").click()
    users.get_by_text("saved").wait_for()
    rights = unfold(page, "Add or change: Permissions")
    rights.get_by_label("User").fill(name)
    rights.get_by_label("Configure").fill("[")
    rights.get_by_role("button", name="Save").click()
    rights.get_by_text("invalid_regexp").wait_for()
    rights.get_by_label("Configure").fill("^mine-")
    rights.get_by_role("button", name="Save").click()
    rights.get_by_text("saved").wait_for()
    assert api.get(f"/permissions/%2F/{name}")["configure"] == "^mine-"
    topics = unfold(page, "Add or change: Topic permissions")
    topics.get_by_label("User").fill(name)
    topics.get_by_label("Keys it may publish with").fill("^a")
    topics.get_by_role("button", name="Save").click()
    topics.get_by_text("saved").wait_for()
    assert api.get(f"/topic-permissions/%2F/{name}")[0]["write"] == "^a"
    row = page.get_by_role("table", name="users").get_by_role("row", name=name)
    page.on("dialog", lambda dialog: dialog.accept())
    row.get_by_role("button", name="Delete").click()
    row.wait_for(state="detached")


def test_a_policy_is_made_by_a_form_that_knows_its_keys(
    page: Any, base: str, api: HttpApi, name: str
) -> None:
    show(page, base, "#/admin/policies", "Admin")
    form = unfold(page, "Add or change: Policies")
    form.get_by_label("Name").fill(name)
    form.get_by_label("Pattern").fill(f"^{name}$")
    adding = form.get_by_label("a setting to add")
    assert "alternate-exchange" not in adding.inner_text()
    adding.select_option("max-length")
    form.get_by_label("max-length (").fill("many")
    form.get_by_role("button", name="Save").click()
    form.get_by_text("max-length must be a whole number").wait_for()
    form.get_by_label("max-length (").fill("5")
    adding.select_option("overflow")
    form.get_by_label("overflow (").select_option("reject-publish")
    multiplier = "redelivery-delay-multiplier"
    adding.select_option(multiplier)
    form.get_by_label(f"{multiplier} (").fill("twice")
    form.get_by_role("button", name="Save").click()
    form.get_by_text(f"{multiplier} must be a number").wait_for()
    form.get_by_label(f"{multiplier} (").fill("1.5")
    form.get_by_role("button", name="Save").click()
    form.get_by_text("saved").wait_for()
    asked = f"/policies/%2F/{name}"
    expected = {"max-length": 5, "overflow": "reject-publish", multiplier: 1.5}
    assert api.get(asked)["definition"] == expected
    page.get_by_role("row", name=name).get_by_role("button", name="Change").click()
    form.get_by_role("button", name="without overflow").click()
    form.get_by_role("button", name=f"without {multiplier}").click()
    form.get_by_role("button", name="Save").click()
    row = page.get_by_role("row", name=name)
    row.get_by_text("overflow:").wait_for(state="detached")
    assert api.get(asked)["definition"] == {"max-length": 5}
    page.on("dialog", lambda dialog: dialog.accept())
    page.get_by_role("row", name=name).get_by_role("button", name="Delete").click()
    page.get_by_role("row", name=name).wait_for(state="detached")


def test_vhosts_limits_and_the_name_of_the_cluster_are_set_on_the_admin_page(
    page: Any, base: str, api: HttpApi, name: str
) -> None:
    show(page, base, "#/admin/vhosts", "Admin")
    form = unfold(page, "Add or change: Virtual hosts")
    form.get_by_label("Name").fill(name)
    form.get_by_role("button", name="Save").click()
    page.get_by_role("row", name=name).get_by_role("button", name="Trace").click()
    page.get_by_role("row", name=name).get_by_text("traced").wait_for()
    assert api.get(f"/vhosts/{name}")["tracing"] is True
    show(page, base, "#/admin/limits", "Admin")
    form = unfold(page, "Add or change: Limits of virtual hosts")
    form.get_by_label("Vhost").fill(name)
    form.get_by_label("At most").fill("12")
    form.get_by_role("button", name="Save").click()
    page.get_by_role("row", name=name).get_by_text("12", exact=True).wait_for()
    assert api.get(f"/vhost-limits/{name}")[0]["value"] == {"max-connections": 12}
    show(page, base, "#/admin/cluster", "Admin")
    before = api.get("/cluster-name")["name"]
    page.wait_for_function("document.querySelector('main input').value !== ''")
    page.get_by_label("Name").fill(name)
    page.get_by_role("button", name="Save").click()
    page.get_by_text("saved").wait_for()
    assert api.get("/cluster-name")["name"] == name
    api.put("/cluster-name", {"name": before})
    api.delete(f"/vhosts/{name}")


def test_definitions_are_taken_out_and_read_in(
    page: Any, base: str, channel: Any, name: str
) -> None:
    big = (1 << 53) + 1  # more than JavaScript can hold
    channel.queue_declare(name, durable=True, arguments={"x-expires": 9_000_000, "x-own": big})
    show(page, base, "#/admin/definitions", "Admin")
    with page.expect_download() as started:
        page.get_by_role("button", name="Download").click()
    raw = started.value.path().read_bytes()
    (found,) = [each for each in json.loads(raw)["queues"] if each["name"] == name]
    assert found["arguments"] == {"x-expires": 9_000_000, "x-own": big}
    channel.queue_delete(name)
    chosen = page.get_by_label("File")
    chosen.set_input_files({"name": "no.json", "mimeType": "application/json", "buffer": b"{"})
    page.get_by_role("button", name="Import").click()
    page.get_by_text("no.json is not JSON").wait_for()
    page.on("dialog", lambda dialog: dialog.accept())
    chosen.set_input_files({"name": "all.json", "mimeType": "application/json", "buffer": raw})
    page.get_by_role("button", name="Import").click()
    page.get_by_text("all.json was imported").wait_for()
    channel.queue_declare(name, passive=True)


# Flow and events


def test_the_address_view_shows_limits_sizes_and_blocked_publishers(
    page: Any, base: str, channel: Any, own_broker: Broker, name: str
) -> None:
    limits = {"x-max-size-bytes": 2048, "x-address-full-policy": "BLOCK"}
    channel.queue_declare(name, arguments=limits)
    show(page, base, "#/addresses", "Addresses")
    row = page.get_by_role("row", name=f"queue {name}")
    cells = row.get_by_role("cell")
    row.get_by_text("running").wait_for()
    assert cells.all_text_contents()[2:10] == [
        "BLOCK", "running", "0 B", "2.0 KiB", "0", "none", "1", "0",
    ]  # fmt: skip
    publisher = own_broker.connect()
    sending = publisher.channel()
    try:
        sending.basic_publish("", name, b"x" * 4096)
        row.get_by_text("full", exact=True).wait_for()
        sending.basic_publish("", name, b"x" * 1024)  # It is read, and then the connection blocks.
        blocked = row.locator("td[data-label='Blocked publishers']")
        blocked.get_by_text("1", exact=True).wait_for()
    finally:
        channel.queue_purge(name)  # A blocked connection does not answer a close.
    row.get_by_text("running", exact=True).wait_for()
    publisher.close()
    row.get_by_role("link").click()
    page.get_by_role("heading", name=f"Queue {name}", exact=True, level=1).wait_for()


def test_links_and_shovels_are_shown_paused_and_deleted(
    page: Any, base: str, channel: Any, own_broker: Broker, name: str
) -> None:
    channel.queue_declare(name)
    there = f"{name}-there"
    url = f"amqp://guest:guest@{own_broker.host}:{own_broker.port}"
    shovel = {"src-uri": url, "src-queue": name, "dest-uri": url, "dest-queue": there}
    api = HttpApi(base.rstrip("/"))
    api.put(f"/parameters/shovel/%2F/{name}", {"value": shovel})
    channel.basic_publish("", name, b"a message")
    show(page, base, "#/links", "Links")
    row = page.get_by_role("table", name="shovels").get_by_role("row", name=name)
    row.get_by_text("running", exact=True).wait_for()
    row.locator("td[data-label='Forwarded']").get_by_text("1", exact=True).wait_for()
    assert row.locator("td[data-label='From']").inner_text() == f"queue {name}"
    row.get_by_role("button", name="Pause").click()
    row.get_by_text("paused", exact=True).wait_for()
    row.get_by_role("button", name="Resume").click()
    row.get_by_text("running", exact=True).wait_for()
    page.on("dialog", lambda dialog: dialog.accept())
    row.get_by_role("button", name="Delete").click()
    row.wait_for(state="detached")
    upstream = {"value": {"uri": "amqp://127.0.0.1:1"}}
    api.put(f"/parameters/federation-upstream/%2F/{name}", upstream)
    policy = {"pattern": f"^{name}$", "definition": {"federation-upstream": name}}
    api.put(f"/policies/%2F/{name}", {**policy, "apply-to": "queues"})
    row = page.get_by_role("table", name="federation links").get_by_role("row", name=name)
    row.get_by_text("error", exact=True).wait_for()
    shown = row.locator("td[data-label='Last error']").inner_text()
    assert shown == "cannot connect: the port refuses connections"
    api.delete(f"/policies/%2F/{name}")
    row.wait_for(state="detached")
    api.delete(f"/parameters/federation-upstream/%2F/{name}")
    channel.queue_delete(there)


def test_the_flow_graph_shows_who_holds_back_whom(page: Any, base: str) -> None:
    graph = {
        "nodes": [
            {"id": "c", "kind": "connection", "name": f"client {HOSTILE}", "node": "n1"},
            {"id": "q", "kind": "queue", "name": "orders", "node": "n1"},
            {"id": "l", "kind": "log", "name": "", "node": "n1"},
        ],
        "edges": [
            {"from": "c", "to": "q", "since": None, "blocked_seconds": 61.5, "reason": "credit"},
            {"from": "q", "to": "l", "since": 1000, "blocked_seconds": 2.0, "reason": "bytes"},
            {"from": "l", "to": "c", "since": None, "blocked_seconds": 0.0, "reason": "a circle"},
        ],
        "nodes_silent": ["n2"],
    }
    page.route("**/api/flow/graph", lambda route: route.fulfill(json=graph))
    show(page, base, "#/flow", "Flow")
    page.get_by_text("1 are held back now.").wait_for()
    page.get_by_text("n2 did not answer.").wait_for()
    page.get_by_role("row", name="connection client").get_by_text("1 min 1 s").wait_for()
    assert page.locator("svg.graph rect").count() == 3
    assert page.locator("svg.graph path.now").count() == 1


def test_events_are_read_whole_wherever_their_text_is_cut(page: Any, base: str) -> None:
    show(page, base, "#/admin/definitions", "Admin")
    found = page.evaluate(
        """async () => {
          const { EventParser } = await import("./stream.js");
          const lines = [":beat", "", "id: 7", "event: queue.created", 'data: {"a":', "data: 1}",
                         "", "event: nothing", "", "data:x", "", ""];
          const results = new Set();
          for (const end of ["\\n", "\\r\\n", "\\r"]) {
            const text = lines.join(end) + (end === "\\r" ? "data" : "");
            for (let one = 0; one <= text.length; one += 1) {
              const parser = new EventParser();
              const pieces = [text.slice(0, one), text.slice(one)];
              results.add(JSON.stringify(pieces.flatMap((piece) => parser.take(piece))));
            }
          }
          return [...results];
        }"""
    )
    assert [json.loads(each) for each in found] == [
        [
            {"id": "7", "name": "queue.created", "text": '{"a":\n1}'},
            {"id": "7", "name": "message", "text": "x"},
        ]
    ]


def test_events_are_shown_as_they_happen_and_can_be_chosen_and_paused(
    page: Any, base: str, channel: Any, name: str
) -> None:
    show(page, base, "#/events", "Events")
    page.get_by_text("Listening.").wait_for()
    channel.queue_declare(name, exclusive=True)
    rows = page.locator("ol.events li", has_text=name)
    rows.get_by_text("queue.created").wait_for()
    page.get_by_label("Names").fill("exchange.*")
    page.keyboard.press("Enter")
    rows.first.wait_for(state="detached")
    page.get_by_text("Listening.").wait_for()
    pause = page.get_by_role("button", name="Pause")
    pause.click()
    channel.queue_delete(name)
    channel.exchange_declare(name, "fanout")
    assert rows.count() == 0
    pause.click()
    rows.get_by_text("exchange.created").wait_for()
    assert page.get_by_text("queue.deleted").count() == 0
